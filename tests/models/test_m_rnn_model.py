"""The m-RNN as a model: saved and opened, sentences in and out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.decoding import Decoding
from deixis.models.m_rnn import PAPERS, MRNNSettings
from deixis.models.m_rnn_cells import scaled_tanh
from deixis.models.m_rnn_model import MRNN, WithCells
from deixis.models.saved import SETTINGS, WEIGHTS, load_model

SIZES = {"first_embedding": 4, "second_embedding": 6, "recurrent_size": 6, "multimodal_size": 8, "reference_photos": 3}
KINDS = {
    "m-rnn": replace(PAPERS["papers/m-rnn"], **SIZES),
    "shared": replace(PAPERS["papers/m-rnn-shared"], **SIZES),
    "base": replace(PAPERS["papers/rnn-base"], **SIZES),
    "vis-in-rnn": replace(PAPERS["papers/m-rnn-vis-in-rnn-both"], **SIZES),
    "attention": MRNNSettings(**SIZES, attention=True, recurrent="lstm"),
}
WORDS = Vocabulary(("a", "dog", "cat", "runs"), (4, 3, 2, 1))
SENTENCES = ["A dog runs.", "a cat", "a dog", "zebras!", "a dog runs"]


def photos(count: int, attention: bool = False, seed: int = 0) -> np.ndarray | WithCells:
    rng = np.random.default_rng(seed)
    vectors = (3 + 2 * rng.normal(size=(count, 5))).astype(np.float32)
    return WithCells(vectors, rng.normal(size=(count, 4, 3)).astype(np.float32)) if attention else vectors


def model_of(kind: str) -> MRNN:
    torch.manual_seed(0)
    settings = KINDS[kind]
    model = MRNN(5, WORDS, settings, cell_size=3 if settings.attention else 0)
    return model.look_at(photos(20, settings.attention, seed=1))


def seen_by(kind: str, count: int = 6) -> np.ndarray | WithCells:
    return photos(count, KINDS[kind].attention)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_was_saved_says_the_same(kind: str, tmp_path: Path) -> None:
    model = model_of(kind)
    model.save(tmp_path / "model")
    opened = load_model(tmp_path / "model")
    assert isinstance(opened, MRNN)
    assert opened.settings == model.settings
    assert opened.vocabulary == WORDS
    how = Decoding(beam=3, count=3, longest=6)
    assert opened.generate(seen_by(kind), how) == model.generate(seen_by(kind), how)
    one, other = (
        each.scores(each.prepare_visual(seen_by(kind)), each.prepare_text(SENTENCES)) for each in (model, opened)
    )
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_log_probabilities_less_those_over_the_reference_photos(kind: str) -> None:
    model = model_of(kind)
    scores = model.scores(model.prepare_visual(seen_by(kind)), model.prepare_text(SENTENCES))

    def totals(given: np.ndarray | WithCells, count: int) -> np.ndarray:
        rows = np.repeat(np.arange(count), len(SENTENCES))
        found = model.log_probabilities(given, SENTENCES * count, rows)
        return np.array([each.sum() for each in found]).reshape(count, -1)

    alone = np.log(np.exp(totals(model.references_, 3)).mean(0))
    np.testing.assert_allclose(scores, totals(seen_by(kind), 6) - alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_sentences_of_all_lengths_together_are_as_likely_as_each_alone(kind: str) -> None:
    model = model_of(kind)
    rows = np.array([3, 3, 0, 1, 5])
    together = model.log_probabilities(seen_by(kind), SENTENCES, rows)
    assert [len(each) for each in together] == [4, 3, 3, 2, 4]
    for place, sentence in enumerate(SENTENCES):
        alone = model.log_probabilities(seen_by(kind), [sentence], rows[place : place + 1])[0]
        np.testing.assert_allclose(together[place], alone, rtol=1e-5)


def test_what_is_made_up_is_as_likely_as_the_model_says() -> None:
    model = model_of("m-rnn")
    for photo, sentences in enumerate(model.generate(seen_by("m-rnn"), Decoding(beam=3, count=3, longest=60))):
        for sentence in sentences:
            said = model.log_probabilities(seen_by("m-rnn"), [sentence.words], np.array([photo]))[0]
            expected = said.sum() if sentence.finished else said[:-1].sum()
            assert sentence.log_probability == pytest.approx(expected, rel=1e-4)


def test_training_photos_are_brought_to_mean_0_and_deviation_1() -> None:
    model = model_of("attention")
    vectors, cells = photos(20, attention=True, seed=1)
    np.testing.assert_allclose(model.network.photo_mean, vectors.mean(0), rtol=1e-5)
    np.testing.assert_allclose(model.network.photo_scale, vectors.std(0), rtol=1e-5)
    np.testing.assert_allclose(model.network.cell_mean, cells.reshape(-1, 3).mean(0), rtol=1e-4, atol=1e-6)


def test_a_number_that_never_varies_does_no_harm() -> None:
    model = MRNN(5, WORDS, KINDS["m-rnn"]).look_at(np.ones((4, 5)))
    assert np.isfinite(model.log_probabilities(np.ones((1, 5)), ["a dog"])[0]).all()


def test_reference_photos_are_training_photos_chosen_by_the_seed() -> None:
    everything = photos(20, seed=1)
    one, again, other = (MRNN(5, WORDS, KINDS["m-rnn"]).look_at(everything, seed).references_ for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    assert all((everything == row).all(1).any() for row in one)


def test_the_refined_feature_is_g_of_v_i() -> None:
    model = model_of("m-rnn")
    rows = torch.from_numpy(photos(3))
    with torch.no_grad():
        standard = (rows - model.network.photo_mean) / model.network.photo_scale
        expected = scaled_tanh(standard @ model.network.from_photo.weight.T)
    np.testing.assert_allclose(model.refined(photos(3)), expected, rtol=1e-5)


def test_vectors_are_refined_without_their_cells() -> None:
    model, looks = model_of("attention"), photos(3, attention=True)
    assert isinstance(looks, WithCells)
    np.testing.assert_array_equal(model.refined(looks.vectors), model.refined(looks))


def test_a_model_in_learning_stays_so_but_does_not_drop_out_in_use() -> None:
    model = MRNN(5, WORDS, replace(KINDS["m-rnn"], dropout=0.5)).look_at(photos(20, seed=1))
    model.network.train()
    one, other = (model.log_probabilities(photos(1), ["a dog runs"])[0] for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert model.network.training


def test_nothing_in_gives_nothing_out() -> None:
    model = model_of("m-rnn")
    assert model.generate(np.zeros((0, 5))) == []
    assert model.log_probabilities(photos(2), []) == []
    assert model.refined(np.zeros((0, 5))).shape == (0, 8)
    assert model.scores(model.prepare_visual(np.zeros((0, 5))), model.prepare_text(["a dog"])).shape == (0, 1)


def test_regions_are_scored_like_photos() -> None:
    model = model_of("m-rnn")
    regions, phrases = photos(9, seed=4), model.prepare_text(["a dog", "a cat"])
    assert model.scores(model.prepare_visual(regions), phrases).shape == (9, 2)


def test_unknown_words_are_counted() -> None:
    assert model_of("m-rnn").unknown_words(["a zebra runs", "a dog", "red zebras"]) == [1, 0, 2]


def test_what_does_not_fit_is_refused_in_words() -> None:
    model = model_of("m-rnn")
    with pytest.raises(DeixisError, match=r"\(2, 4\)"):
        model.generate(np.zeros((2, 4)))
    with pytest.raises(DeixisError, match="3 sentences"):
        model.log_probabilities(photos(2), ["a", "b", "c"])
    with pytest.raises(DeixisError, match="look_at"):
        MRNN(5, WORDS, KINDS["m-rnn"]).prepare_text(["a dog"])
    with pytest.raises(DeixisError, match="no training photo"):
        MRNN(5, WORDS, KINDS["m-rnn"]).look_at(np.zeros((0, 5)))
    with pytest.raises(DeixisError, match="WithCells"):
        model_of("attention").generate(photos(2))
    with pytest.raises(DeixisError, match=r"cells of shape \(2, 4, 9\)"):
        model_of("attention").generate(WithCells(photos(2), np.zeros((2, 4, 9))))


@pytest.mark.parametrize("damage", ["version", "settings", "references"])
def test_a_damaged_or_newer_folder_is_refused_in_one_line(damage: str, tmp_path: Path) -> None:
    model = model_of("m-rnn")
    model.save(tmp_path / "model")
    path = tmp_path / "model" / SETTINGS
    document = json.loads(path.read_text())
    if damage == "version":
        document["version"] = 99
    elif damage == "settings":
        document["settings"]["settings"]["multimodal_size"] = 10**9
    else:
        (tmp_path / "model" / WEIGHTS).write_bytes(b"")
    path.write_text(json.dumps(document))
    with pytest.raises(DeixisError) as caught:
        load_model(tmp_path / "model")
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_sentences_follow_the_weights_when_these_change() -> None:
    model = model_of("m-rnn")
    how = Decoding("greedy", longest=3)
    model.generate(photos(1), how)
    with torch.no_grad():
        model.network.word_bias[2] += 100
    assert model.generate(photos(1), how)[0][0].words == ("cat", "cat", "cat")


def test_sentences_follow_what_is_usual_in_cells_when_this_changes() -> None:
    model, how = model_of("attention"), Decoding(beam=3, count=3, longest=6)
    with torch.no_grad():
        for weight in model.network.parameters():
            weight.normal_()
    model.generate(seen_by("attention"), how)
    vectors, cells = photos(20, attention=True, seed=2)
    model.look_at(WithCells(vectors, 3 + 2 * cells))
    for photo, sentences in enumerate(model.generate(seen_by("attention"), how)):
        own = [sentence for sentence in sentences if sentence.finished]
        likely = model.log_probabilities(seen_by("attention"), [s.words for s in own], [photo] * len(own))
        assert [s.log_probability for s in own] == pytest.approx([row.sum() for row in likely], rel=1e-4)
