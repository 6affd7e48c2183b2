"""The m-RNN as a model: generation, likelihood, retrieval, saving."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import deixis
from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.captioner.pipeline import Captioner, VectorsAndCells
from deixis.models.captioner.spec import CaptionerSettings
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.model import MRNN
from deixis.models.m_rnn.network import scaled_tanh
from deixis.models.m_rnn.spec import MRNNSettings
from deixis.storage.artifacts import CONFIG
from tests.models.presets import paper_presets
from tests.unchecked import without_checksums

PAPER_NETWORKS = paper_presets("m-rnn", MRNNSettings)

SIZES = {"first_embedding_dim": 4, "second_embedding_dim": 6, "multimodal_dim": 8, "reference_photos": 3}
KINDS = {
    "m-rnn": replace(PAPER_NETWORKS["papers/m-rnn"], **SIZES),
    "shared": replace(PAPER_NETWORKS["papers/m-rnn-shared"], **SIZES),
    "base": replace(PAPER_NETWORKS["papers/rnn-base"], **SIZES),
    "vis-in-rnn": replace(PAPER_NETWORKS["papers/m-rnn-vis-in-rnn-both"], **SIZES),
    "captioner": CaptionerSettings(
        embedding_dim=6, hidden_size=6, multimodal_dim=8, attention_dim=4, attention_heads=1, reference_photos=3
    ),
}
WORDS = Vocabulary(("a", "dog", "cat", "runs"), (4, 3, 2, 1))
SENTENCES = ["A dog runs.", "a cat", "a dog", "zebras!", "a dog runs"]


def photos(count: int, cells: bool = False, seed: int = 0) -> np.ndarray | VectorsAndCells:
    rng = np.random.default_rng(seed)
    vectors = (3 + 2 * rng.normal(size=(count, 5))).astype(np.float32)
    return VectorsAndCells(vectors, rng.normal(size=(count, 4, 3)).astype(np.float32)) if cells else vectors


def model_of(kind: str) -> MRNN:
    torch.manual_seed(0)
    settings = KINDS[kind]
    if isinstance(settings, CaptionerSettings):
        return Captioner(5, WORDS, settings, cell_size=3).fit_statistics(photos(20, cells=True, seed=1))
    return MRNN(5, WORDS, settings).fit_statistics(photos(20, seed=1))


def inputs_of(kind: str, count: int = 6) -> np.ndarray | VectorsAndCells:
    return photos(count, kind == "captioner")


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_model_generates_and_scores_the_same(kind: str, tmp_path: Path) -> None:
    model = model_of(kind)
    model.save(tmp_path / "model")
    opened = type(model).load(tmp_path / "model")
    assert opened.settings == model.settings
    assert opened.vocabulary == WORDS
    decoding = Decoding(beam=3, top=3, max_length=6)
    generated = [list(chain(*each.generate(inputs_of(kind), decoding))) for each in (model, opened)]
    assert [(s.words, s.finished) for s in generated[0]] == [(s.words, s.finished) for s in generated[1]]
    for ours, theirs in zip(*generated, strict=True):
        assert ours.log_probability == pytest.approx(theirs.log_probability, rel=1e-4)
    one, other = (
        each.scores(each.prepare_visual(inputs_of(kind)), each.prepare_text(SENTENCES)) for each in (model, opened)
    )
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    for ours, theirs in zip(
        *(each.log_probabilities(inputs_of(kind), SENTENCES) for each in (model, opened)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    assert opened.functions.has_sessions


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_log_likelihood_ratios_to_the_reference_photos(kind: str) -> None:
    model = model_of(kind)
    scores = model.scores(model.prepare_visual(inputs_of(kind)), model.prepare_text(SENTENCES))

    def totals(photos: np.ndarray | VectorsAndCells, count: int) -> np.ndarray:
        rows = np.repeat(np.arange(count), len(SENTENCES))
        found = model.log_probabilities(photos, SENTENCES * count, rows)
        return np.array([each.sum() for each in found]).reshape(count, -1)

    alone = np.log(np.exp(totals(model.references_, 3)).mean(0))
    np.testing.assert_allclose(scores, totals(inputs_of(kind), 6) - alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_does_not_change_log_probabilities(kind: str) -> None:
    model = model_of(kind)
    rows = np.array([3, 3, 0, 1, 5])
    together = model.log_probabilities(inputs_of(kind), SENTENCES, rows)
    assert [len(each) for each in together] == [4, 3, 3, 2, 4]
    for place, sentence in enumerate(SENTENCES):
        alone = model.log_probabilities(inputs_of(kind), [sentence], rows[place : place + 1])[0]
        np.testing.assert_allclose(together[place], alone, rtol=1e-5)


def test_training_photos_are_standardized() -> None:
    model = model_of("captioner")
    vectors, cells = photos(20, cells=True, seed=1)
    np.testing.assert_allclose(model.network.photo_mean, vectors.mean(0), rtol=1e-5)
    np.testing.assert_allclose(model.network.photo_scale, vectors.std(0), rtol=1e-5)
    np.testing.assert_allclose(model.network.cell_mean, cells.reshape(-1, 3).mean(0), rtol=1e-4, atol=1e-6)


def test_a_constant_feature_gives_finite_scores() -> None:
    model = MRNN(5, WORDS, KINDS["m-rnn"]).fit_statistics(np.ones((4, 5)))
    assert np.isfinite(model.log_probabilities(np.ones((1, 5)), ["a dog"])[0]).all()


def test_reference_photos_are_a_seeded_sample_of_training_photos() -> None:
    everything = photos(20, seed=1)
    one, again, other = (
        MRNN(5, WORDS, KINDS["m-rnn"]).fit_statistics(everything, seed).references_[0] for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    assert all((everything == row).all(1).any() for row in one)


def test_without_reference_photos_perplexities_are_compared_with_those_given_the_mean_photo() -> None:
    training = photos(20, seed=1)
    model = MRNN(5, WORDS, replace(KINDS["m-rnn"], reference_photos=0)).fit_statistics(training)
    scores = model.scores(model.prepare_visual(photos(6)), model.prepare_text(SENTENCES))
    for row, photo in enumerate(photos(6)):
        for column, sentence in enumerate(SENTENCES):
            own, mean = (model.log_probabilities(one[None], [sentence])[0] for one in (photo, training.mean(0)))
            perplexities = [2 ** -np.mean(each / np.log(2)) for each in (own, mean)]
            assert scores[row, column] == pytest.approx(np.log(perplexities[1] / perplexities[0]), abs=1e-4)


def test_refined_features_are_g_of_v_i_times_i_and_need_no_cells() -> None:
    model, both = model_of("captioner"), photos(3, cells=True)
    with torch.no_grad():
        standard = (torch.from_numpy(both.vectors) - model.network.photo_mean) / model.network.photo_scale
        expected = scaled_tanh(standard @ model.network.from_photo.weight.T)
    for features in (both, both.vectors):
        np.testing.assert_allclose(model.refine(features), expected, rtol=1e-5)


def test_using_a_model_in_training_mode_disables_dropout_and_keeps_the_mode() -> None:
    model = model_of("captioner")
    model.network.train()
    one, other = (model.log_probabilities(inputs_of("captioner", 1), ["a dog runs"])[0] for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert model.network.training


def test_empty_inputs_give_empty_results() -> None:
    model = model_of("m-rnn")
    assert model.generate(np.zeros((0, 5))) == []
    assert model.log_probabilities(photos(2), []) == []
    assert model.refine(np.zeros((0, 5))).shape == (0, 8)
    assert model.scores(model.prepare_visual(np.zeros((0, 5))), model.prepare_text(["a dog"])).shape == (0, 1)


def test_unknown_words_are_counted() -> None:
    assert model_of("m-rnn").unknown_words(["a zebra runs", "a dog", "red zebras"]) == [1, 0, 2]


def test_inputs_of_wrong_shape_are_an_error() -> None:
    model = model_of("m-rnn")
    with pytest.raises(DeixisError, match=r"\(2, 4\)"):
        model.generate(np.zeros((2, 4)))
    with pytest.raises(DeixisError, match="3 sentences"):
        model.log_probabilities(photos(2), ["a", "b", "c"])
    with pytest.raises(DeixisError, match="fit_statistics"):
        MRNN(5, WORDS, KINDS["m-rnn"]).prepare_text(["a dog"])
    with pytest.raises(DeixisError, match="no training photo"):
        MRNN(5, WORDS, KINDS["m-rnn"]).fit_statistics(np.zeros((0, 5)))
    with pytest.raises(DeixisError, match="vectors and cells"):
        model_of("captioner").generate(photos(2))
    with pytest.raises(DeixisError, match=r"cells of shape \(2, 4, 9\)"):
        model_of("captioner").generate(VectorsAndCells(photos(2), np.zeros((2, 4, 9))))


@pytest.mark.parametrize("setting", ["multimodal_dim", "hidden_size"])
def test_a_model_with_an_absurd_size_is_refused(setting: str, tmp_path: Path) -> None:
    model_of("captioner").save(tmp_path / "model")
    without_checksums(tmp_path)
    path = tmp_path / "model" / CONFIG
    document = json.loads(path.read_text())
    document["settings"]["settings"][setting] = 10**9
    path.write_text(json.dumps(document))
    with pytest.raises(DeixisError, match=str(tmp_path)):
        Captioner.load(tmp_path / "model")


def test_the_weights_of_the_shipped_captioner_fit_the_network_of_this_code() -> None:
    shipped: Any = deixis.load("captioner").model
    vectors, cells = (part.astype(np.float32) for part in shipped.references_)
    computed = shipped.functions("photo_terms", vectors, cells)  # by the shipped graph, with int8 products
    with torch.inference_mode():
        expected = shipped.network.photo_terms(torch.from_numpy(vectors), torch.from_numpy(cells))
    for one, other in zip(computed, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=0.05 * float(other.abs().max()))


def test_generation_uses_changed_weights() -> None:
    model = model_of("m-rnn")
    decoding = Decoding("greedy", max_length=3)
    model.generate(photos(1), decoding)
    with torch.no_grad():
        model.network.word_bias[2] += 100
    assert model.generate(photos(1), decoding)[0][0].words == ("cat", "cat", "cat")


def test_generation_uses_changed_cell_statistics() -> None:
    model, decoding = model_of("captioner"), Decoding(beam=3, top=3, max_length=6)
    with torch.no_grad():
        for weight in model.network.parameters():
            weight.normal_()
    model.generate(inputs_of("captioner"), decoding)
    vectors, cells = photos(20, cells=True, seed=2)
    model.fit_statistics(VectorsAndCells(vectors, 3 + 2 * cells))
    for photo, sentences in enumerate(model.generate(inputs_of("captioner"), decoding)):
        own = [sentence for sentence in sentences if sentence.finished]
        log_p = model.log_probabilities(inputs_of("captioner"), [s.words for s in own], [photo] * len(own))
        assert [s.log_probability for s in own] == pytest.approx([row.sum() for row in log_p], rel=1e-4)
