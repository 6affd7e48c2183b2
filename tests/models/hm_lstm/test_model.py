"""The model on arrays: texts as nodes of trees, and the same vectors from torch and from sessions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.data.dataset import Dataset
from deixis.data.images import open_photo
from deixis.evaluation.items import localization_items
from deixis.language.sentence import Phrase, Sentence
from deixis.language.trees import Tree, phrase
from deixis.language.vectors import WordVectors, shipped_vectors
from deixis.language.vocabulary import Vocabulary
from deixis.models.grounding import PhotoProposals
from deixis.models.hm_lstm.model import HMLSTM, HMLSTMPipeline
from deixis.models.hm_lstm.network import to_tensors
from deixis.models.hm_lstm.spec import HMLSTMSettings
from deixis.models.hm_lstm.trees import Forest
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.runtime.modules import eval_mode
from deixis.vision.proposals import Proposals
from tests.models.coloured import COLOURS
from tests.models.hm_lstm.made_trees import CHAIN, WIDE, WORD, trees
from tests.models.quarters import QUARTERS, make_quarters, use_small_encoders

SENTENCES = ["A man in an orange hat pets his dog.", "Two dogs run.", "snow"]
WORDS = ["a", "man", "in", "an", "orange", "hat", "pets", "his", "dog", "two", "dogs", "run", "snow"]
VECTORS = WordVectors(np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32), WORDS)
SMALL = HMLSTMSettings(hidden_size=8, embedding_dim=4)
ENCODERS = ("h-lstm", "tree-lstm", "chain")


def made(encoder: str = "h-lstm") -> HMLSTM:
    torch.manual_seed(0)
    return HMLSTM(5, VECTORS, replace(SMALL, text_encoder=encoder))  # type: ignore[arg-type]


@pytest.mark.parametrize("encoder", ENCODERS)
def test_embeddings_are_unit_vectors_for_any_number_of_rows(encoder: str) -> None:
    model = made(encoder)
    for count in (0, 1, 3):
        photos = model.prepare_visual(np.random.default_rng(1).normal(size=(count, 5)))
        texts = model.prepare_text(SENTENCES[:count])
        assert photos.shape == texts.shape == (count, 4)
        np.testing.assert_allclose(np.linalg.norm(photos, axis=1), 1, rtol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(texts, axis=1), 1, rtol=1e-5)
        assert model.scores(photos, texts).shape == (count, count)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_text_has_the_same_embedding_alone_in_a_batch_and_as_a_record(encoder: str) -> None:
    model, records = made(encoder), [Sentence(text) for text in SENTENCES]
    together = model.prepare_text(SENTENCES)
    for row, text in zip(together, SENTENCES, strict=True):
        np.testing.assert_allclose(model.prepare_text([text])[0], row, atol=1e-5)
    np.testing.assert_allclose(model.prepare_text([record.whole for record in records]), together, atol=1e-5)
    np.testing.assert_allclose(model.prepare_text(records[::-1] + records)[:3], together[::-1], atol=1e-5)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_phrase_is_embedded_as_its_node_independent_of_the_sentence(encoder: str) -> None:
    model = made(encoder)
    sentence = Sentence("A man in an orange hat pets his dog.")
    hat = next(phrase for phrase in sentence.phrases if phrase.text == "an orange hat")
    alone = Sentence("an orange hat")
    found = model.prepare_text([hat, sentence, alone])
    np.testing.assert_allclose(found[0], found[2], atol=1e-5)
    assert not np.allclose(found[0], found[1], atol=1e-3)


def test_a_span_that_is_not_a_node_is_embedded_as_the_smallest_noun_phrase_around_it() -> None:
    model, sentence = made(), Sentence("A man in an orange hat pets his dog.")
    odd = Phrase(sentence, 4, 6)  # "orange hat"
    assert not odd.is_node
    whole = Phrase(sentence, odd.node.start, odd.node.end)
    found = model.prepare_text([odd, whole])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_unusual_texts_have_finite_embeddings() -> None:
    model = made()
    found = model.prepare_text(["", "xyzzy", "dog " * 300, "!!!"])
    assert np.isfinite(found).all()
    forest = Forest.from_trees([CHAIN, WORD])
    assert np.isfinite(model.embed_nodes(forest, [0, 1, 0], [0, 0, 400])).all()


def test_words_without_a_vector_are_zeros() -> None:
    rows = made().word_matrix(Forest.from_trees([Sentence("A xyzzy dog").tree]))
    assert rows.shape == (4, 6)
    np.testing.assert_array_equal(rows[0], VECTORS.vectors_of(["a"])[0])
    assert not rows[1].any()
    assert not rows[3].any()


@torch.no_grad()
def test_a_vocabulary_adds_learned_differences_to_word_vectors(tmp_path: Path) -> None:
    vocabulary = Vocabulary(("a", "dog", "selfie"), (3, 2, 1))
    model = HMLSTM(5, shipped_vectors(), SMALL, vocabulary)
    forest = Forest.from_trees([Sentence("A selfie of the Dog xyzzyx").tree])
    words = model.network.words
    assert words is not None
    words.weight[:3] = torch.randn(3, 200)
    learned, rows = words.weight.numpy(), model.word_matrix(forest)
    np.testing.assert_allclose(words.eval()(torch.from_numpy(model.training_words(forest))), rows, atol=1e-6)
    shipped = shipped_vectors().vectors_of(["the", "dog"])
    np.testing.assert_allclose(rows[forest.words.index("the")], shipped[0], atol=1e-6)
    np.testing.assert_allclose(rows[forest.words.index("Dog")], shipped[1] + learned[1], atol=1e-6)
    assert not rows[forest.words.index("xyzzyx")].any()
    assert not rows[-1].any()
    model.save(tmp_path / "model")
    opened = HMLSTM.load(tmp_path / "model")
    assert opened.vocabulary == vocabulary
    np.testing.assert_allclose(opened.prepare_text(SENTENCES), model.prepare_text(SENTENCES), atol=1e-5)
    assert opened.functions.has_sessions


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_model_survives_saving_and_loading(encoder: str, tmp_path: Path) -> None:
    model = HMLSTM(5, VECTORS, replace(SMALL, text_encoder=encoder, centering="photo"))  # type: ignore[arg-type]
    model.fit_phrase_mean(Forest.from_trees(Sentence(text).tree for text in SENTENCES))
    assert model.phrase_mean_.any()
    model.save(tmp_path / "model")
    again = HMLSTM.load(tmp_path / "model")
    assert again.settings == model.settings
    np.testing.assert_array_equal(again.phrase_mean_, model.phrase_mean_)
    np.testing.assert_allclose(again.prepare_text(SENTENCES), model.prepare_text(SENTENCES), atol=1e-5)
    photos = np.ones((2, 5))
    np.testing.assert_allclose(again.prepare_visual(photos), model.prepare_visual(photos), atol=1e-5)
    assert again.functions.has_sessions
    _ = again.network
    np.testing.assert_array_equal(again.prepare_text(SENTENCES), model.prepare_text(SENTENCES))


@pytest.fixture(scope="module", params=ENCODERS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[HMLSTM, HMLSTM]:
    """A model whose torch module computes, and the same one loaded."""
    model, folder = made(request.param), tmp_path_factory.mktemp("both")
    with torch.no_grad():
        for weight in model.network.parameters():
            weight += 0.2 * torch.randn(weight.shape)
    model.save(folder / "model")
    return model, HMLSTM.load(folder / "model")


def check_engines(both: tuple[HMLSTM, HMLSTM], some: list[Tree]) -> None:
    """Compare the vectors of all nodes with those of the network in training."""
    forest = Forest.from_trees(some)
    where = [(tree, node) for tree, each in enumerate(some) for node, _ in enumerate(each.nodes())]
    batch, network = to_tensors(forest.batch(range(len(some)))), both[0].network
    nodes = torch.tensor([int(batch.roots[tree]) + node for tree, node in where])
    with torch.inference_mode(), eval_mode(network):
        expected = network.embed_nodes(torch.from_numpy(both[0].word_matrix(forest)), batch, nodes).numpy()
    for model in both:
        np.testing.assert_allclose(model.embed_nodes(forest, *zip(*where, strict=True)), expected, atol=1e-4)


@settings(deadline=None, max_examples=30)
@given(some=st.lists(trees(), min_size=1, max_size=5))
def test_sessions_compute_what_the_network_does_for_all_nodes(both: tuple[HMLSTM, HMLSTM], some: list[Tree]) -> None:
    check_engines(both, some)


def test_sessions_compute_what_the_network_does_for_degenerate_trees(both: tuple[HMLSTM, HMLSTM]) -> None:
    check_engines(both, [WORD])
    check_engines(both, [WORD, CHAIN, phrase("", []), WIDE])


def test_centred_scores_are_cosines_after_subtracting_both_means() -> None:
    torch.manual_seed(0)
    model = HMLSTM(5, VECTORS, replace(SMALL, centering="photo"))
    trees = Forest.from_trees(Sentence(text).tree for text in SENTENCES)
    model.fit_phrase_mean(trees)
    phrases = trees.noun_phrases
    text = model.embed_nodes(trees, phrases.owners.tolist(), phrases.values.tolist())
    np.testing.assert_allclose(model.phrase_mean_, text.mean(axis=0), atol=1e-6)
    visual = model.prepare_visual(np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32))
    found = model.scores_in_photo(visual, text)
    for row, one in enumerate(visual - visual.mean(axis=0)):
        for column, other in enumerate(text - text.mean(axis=0)):
            cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
            assert found[row, column] == pytest.approx(cosine, abs=1e-5)


def test_without_centering_scores_in_a_photo_are_plain_scores() -> None:
    model = made()
    model.fit_phrase_mean(Forest.from_trees(Sentence(text).tree for text in SENTENCES))
    assert not model.phrase_mean_.any()
    visual, text = np.eye(2, 4, dtype=np.float32), np.eye(3, 4, dtype=np.float32)
    np.testing.assert_array_equal(model.scores_in_photo(visual, text), visual @ text.T)


COLOURED_WORDS = [*COLOURS, "a", "the", "square", "one"]


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path, 9)


@pytest.fixture(params=["none", "photo"])
def pipeline(request: pytest.FixtureRequest) -> HMLSTMPipeline:
    torch.manual_seed(0)
    vectors = WordVectors(
        np.random.default_rng(0).normal(size=(len(COLOURED_WORDS), 5)).astype(np.float32), COLOURED_WORDS
    )
    model = HMLSTM(3 + 7, vectors, HMLSTMSettings(hidden_size=8, embedding_dim=6, centering=request.param))
    model.fit_phrase_mean(Forest.from_trees(Sentence(f"A {colour} square and the one.").tree for colour in COLOURS))
    about = Provenance(EncoderInfo("colours", "colours-1"), "both", 2.0, "corners", 3, "corners-1")
    return HMLSTMPipeline(model, about)


def test_phrases_are_nodes_and_the_whole_photo_is_a_candidate(pipeline: HMLSTMPipeline, dataset: Dataset) -> None:
    stored = pipeline.features(dataset, dataset.split("dev"), regions=True)
    items, model = localization_items(dataset.split("dev")), pipeline.model
    found = pipeline.predict_boxes(stored, items)
    assert [each.key for each in found] == [(item.photo, item.caption, item.span) for item in items]
    for item, each in zip(items, found, strict=True):
        caption = dataset.photo(item.photo).captions[item.caption]
        node = model.prepare_text([Sentence.from_caption(caption).phrase(*item.span)])
        row = stored.photos.ids.index(item.photo)
        regions = stored.region_vectors(item.photo, np.array(QUARTERS[:3]))
        visual = model.prepare_visual(np.vstack([stored.vectors(row, row + 1), regions]))
        assert each.boxes.tolist() == [[0, 0, *stored.store.map(item.photo).size], *map(list, QUARTERS[:3])]
        np.testing.assert_allclose(each.scores, model.scores_in_photo(visual, node)[:, 0], atol=0.02)


def test_a_photo_gives_the_scores_of_its_stored_features(pipeline: HMLSTMPipeline, dataset: Dataset) -> None:
    features = pipeline.features(dataset, dataset.split("dev"), regions=True)
    items = localization_items(dataset.split("dev"))[:2]
    stored = pipeline.predict_boxes(features, items)
    photo = dataset.photo(items[0].photo)
    sentence = Sentence.from_caption(photo.captions[0])
    feature_map = pipeline.image_encoder.encode([open_photo(dataset.path_of(photo))])[0]
    encoded = PhotoProposals(feature_map, Proposals(np.array(QUARTERS[:3], dtype=np.float64), np.ones(3)))
    found = pipeline.score_phrases(encoded, sentence, [sentence.phrase(*item.span) for item in items])
    assert found.boxes[0].tolist() == stored[0].boxes.tolist()
    assert found.are_cosines
    np.testing.assert_allclose(found.scores, [each.scores for each in stored], atol=0.02)
