"""The HM-LSTM as a model: what comes in, what goes out, what is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.errors import DeixisError
from deixis.language.sentence import Phrase, Sentence
from deixis.language.vectors import WordVectors
from deixis.models import load_model
from deixis.models.hm_lstm import HMLSTM, PAPERS, Head, HMLSTMSettings
from deixis.models.trees import Forest
from tests.models.made_trees import CHAIN, WORD

SENTENCES = ["A man in an orange hat pets his dog.", "Two dogs run.", "snow"]
WORDS = ["a", "man", "in", "an", "orange", "hat", "pets", "his", "dog", "two", "dogs", "run", "snow"]
VECTORS = WordVectors(np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32), WORDS)
SMALL = HMLSTMSettings(hidden=8, dimension=4)
ENCODERS = ("h-lstm", "tree-lstm", "chain")


def made(encoder: str = "h-lstm") -> HMLSTM:
    torch.manual_seed(0)
    return HMLSTM(5, VECTORS, replace(SMALL, reader=encoder))  # type: ignore[arg-type]


@pytest.mark.parametrize("encoder", ENCODERS)
def test_both_sides_have_unit_length_and_any_number_of_rows(encoder: str) -> None:
    model = made(encoder)
    for count in (0, 1, 3):
        photos = model.prepare_visual(np.random.default_rng(1).normal(size=(count, 5)))
        texts = model.prepare_text(SENTENCES[:count])
        assert photos.shape == texts.shape == (count, 4)
        np.testing.assert_allclose(np.linalg.norm(photos, axis=1), 1, rtol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(texts, axis=1), 1, rtol=1e-5)
        assert model.scores(photos, texts).shape == (count, count)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_text_is_the_same_alone_and_among_others_and_as_a_record(encoder: str) -> None:
    model, records = made(encoder), [Sentence(text) for text in SENTENCES]
    together = model.prepare_text(SENTENCES)
    for row, text in zip(together, SENTENCES, strict=True):
        np.testing.assert_allclose(model.prepare_text([text])[0], row, atol=1e-5)
    np.testing.assert_allclose(model.prepare_text([record.whole for record in records]), together, atol=1e-5)
    np.testing.assert_allclose(model.prepare_text(records[::-1] + records)[:3], together[::-1], atol=1e-5)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_phrase_is_its_node_and_means_the_same_in_any_sentence(encoder: str) -> None:
    model = made(encoder)
    sentence = Sentence("A man in an orange hat pets his dog.")
    hat = next(phrase for phrase in sentence.phrases if phrase.text == "an orange hat")
    alone = Sentence("an orange hat")
    found = model.prepare_text([hat, sentence, alone])
    np.testing.assert_allclose(found[0], found[2], atol=1e-5)
    assert not np.allclose(found[0], found[1], atol=1e-3)


def test_a_span_that_is_no_node_takes_the_smallest_noun_phrase_over_it() -> None:
    model, sentence = made(), Sentence("A man in an orange hat pets his dog.")
    odd = Phrase(sentence, 4, 6)  # "orange hat"
    assert not odd.is_node
    whole = Phrase(sentence, odd.node.start, odd.node.end)
    found = model.prepare_text([odd, whole])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_odd_texts_have_vectors_too() -> None:
    model = made()
    found = model.prepare_text(["", "xyzzy", "dog " * 300, "!!!"])
    assert np.isfinite(found).all()
    forest = Forest.of([CHAIN, WORD])
    assert np.isfinite(model.node_vectors(forest, [0, 1, 0], [0, 0, 400])).all()


def test_words_without_a_vector_count_as_zeros() -> None:
    rows = made().word_rows(Forest.of([Sentence("A xyzzy dog").tree]))
    assert rows.shape == (4, 6)
    np.testing.assert_array_equal(rows[0], VECTORS.vectors_of(["a"])[0])
    assert not rows[1].any()
    assert not rows[3].any()


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_model_that_is_saved_comes_back(encoder: str, tmp_path: Path) -> None:
    model = made(encoder)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert isinstance(again, HMLSTM)
    assert again.settings == model.settings
    np.testing.assert_array_equal(again.prepare_text(SENTENCES), model.prepare_text(SENTENCES))
    photos = np.ones((2, 5))
    np.testing.assert_array_equal(again.prepare_visual(photos), model.prepare_visual(photos))


def test_word_vectors_are_not_learned() -> None:
    names = {name for name, _ in made().network.named_parameters()}
    assert not any("vector" in name for name in names)
    assert made().network.state_dict().keys() >= names


def test_a_head_is_a_layer_batch_norm_and_unit_length() -> None:
    torch.manual_seed(0)
    head, rows = Head(6, 4), torch.randn(9, 6)
    plain = rows @ head.connected.weight.T
    plain = (plain - plain.mean(0)) / (plain.var(0, unbiased=False) + 1e-5).sqrt()
    torch.testing.assert_close(head(rows), plain / plain.norm(dim=1, keepdim=True))


def test_features_of_another_size_are_refused_in_one_line() -> None:
    with pytest.raises(DeixisError, match="has 5 numbers"):
        made().prepare_visual(np.ones((2, 7)))


@pytest.mark.parametrize("wrong", [{"hidden": 0}, {"margin": -1.0}, {"dropout": 1.0}, {"round_rate": 0.0}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(DeixisError, match=next(iter(wrong))):
        HMLSTMSettings(**wrong)  # type: ignore[arg-type]


def test_the_papers_network_has_512_numbers_on_both_sides() -> None:
    assert (PAPERS["papers/hm-lstm"].hidden, PAPERS["papers/hm-lstm"].dimension) == (512, 512)


def test_centred_scores_are_cosines_from_the_middle_of_the_photo_and_of_all_phrases() -> None:
    torch.manual_seed(0)
    model = HMLSTM(5, VECTORS, replace(SMALL, centre="photo"))
    trees = Forest.of(Sentence(text).tree for text in SENTENCES)
    model.note_phrases(trees)
    phrases = trees.noun_phrases
    text = model.node_vectors(trees, phrases.owners.tolist(), phrases.values.tolist())
    np.testing.assert_allclose(model.common_, text.mean(axis=0), atol=1e-6)
    visual = model.prepare_visual(np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32))
    found = model.scores_in_photo(visual, text)
    for row, one in enumerate(visual - visual.mean(axis=0)):
        for column, other in enumerate(text - text.mean(axis=0)):
            cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
            assert found[row, column] == pytest.approx(cosine, abs=1e-5)


def test_uncentred_scores_in_a_photo_are_plain_scores() -> None:
    model = made()
    model.note_phrases(Forest.of(Sentence(text).tree for text in SENTENCES))
    assert not model.common_.any()
    visual, text = np.eye(2, 4, dtype=np.float32), np.eye(3, 4, dtype=np.float32)
    np.testing.assert_array_equal(model.scores_in_photo(visual, text), visual @ text.T)


def test_what_phrases_have_in_common_is_kept_with_the_model(tmp_path: Path) -> None:
    model = HMLSTM(5, VECTORS, replace(SMALL, centre="photo"))
    model.note_phrases(Forest.of(Sentence(text).tree for text in SENTENCES))
    model.save(tmp_path / "model")
    assert model.common_.any()
    np.testing.assert_array_equal(HMLSTM.load(tmp_path / "model").common_, model.common_)
