"""The stacked auxiliary embedding: what it stacks, and that regions help photos."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import deixis.models.cca
from deixis.errors import DeixisError
from deixis.models import CCA, Embedder, Stacked


def pairs(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of one world: the same maps from hidden numbers whatever the seed."""
    world, rng = np.random.default_rng(0), np.random.default_rng(seed)
    to_photo, to_sentence = world.normal(size=(10, 60)), world.normal(size=(10, 50))
    hidden = rng.normal(size=(n, 10))
    photos = hidden @ to_photo + 4 * rng.normal(size=(n, 60))
    sentences = hidden @ to_sentence + 4 * rng.normal(size=(n, 50))
    return photos.astype(np.float32) / 30, sentences.astype(np.float32) / 30


@pytest.fixture(scope="module")
def auxiliary() -> CCA:
    return CCA(8).fit(*pairs(5000, 1))


def by_hand(auxiliary: CCA, photos: np.ndarray, sentences: np.ndarray, weight: float, first: int) -> tuple:
    """The vectors of the photos and sentences that the model is fitted on, the lengths taken from the first rows."""
    lengths = [np.sqrt((rows[:first] ** 2).sum(axis=1)).mean() for rows in (photos, sentences)]
    visual, text = auxiliary.transform(photos, sentences)
    stacks = np.hstack([photos, weight * lengths[0] * visual]), np.hstack([sentences, weight * lengths[1] * text])
    return CCA(5).fit(*stacks).transform(*stacks)


@pytest.mark.parametrize("weight", [0.5, 3.0])
def test_the_model_is_fitted_on_features_with_the_auxiliary_vectors_beside_them(auxiliary: CCA, weight: float) -> None:
    photos, sentences = pairs(300, 2)
    stacked = Stacked(auxiliary, CCA(5), weight).fit(photos, sentences)
    visual, text = by_hand(auxiliary, photos, sentences, weight, first=300)
    np.testing.assert_allclose(stacked.prepare_visual(photos), visual, atol=1e-5)
    np.testing.assert_allclose(stacked.prepare_text(sentences), text, atol=1e-5)


def test_lengths_are_those_of_the_first_block(auxiliary: CCA, monkeypatch: pytest.MonkeyPatch) -> None:
    photos, sentences = pairs(300, 2)
    photos[64:] *= 2
    monkeypatch.setattr(deixis.models.cca, "BLOCK", 64)
    stacked = Stacked(auxiliary, CCA(5), 1.0).fit(photos, sentences)
    visual, text = by_hand(auxiliary, photos, sentences, 1.0, first=64)
    np.testing.assert_allclose(stacked.prepare_visual(photos), visual, atol=1e-4)
    np.testing.assert_allclose(stacked.prepare_text(sentences), text, atol=1e-4)
    # One row alone is stacked as it was among all.
    np.testing.assert_allclose(stacked.prepare_visual(photos[200:201]), visual[200:201], atol=1e-4)


def test_photos_in_other_units_than_sentences_make_no_difference() -> None:
    (regions, phrases), (photos, sentences) = pairs(500, 1), pairs(300, 2)
    plain = Stacked(CCA(8).fit(regions, phrases), CCA(5)).fit(photos, sentences)
    longer = Stacked(CCA(8).fit(30 * regions, phrases), CCA(5)).fit(30 * photos, sentences)
    np.testing.assert_allclose(longer.prepare_visual(30 * photos), plain.prepare_visual(photos), atol=1e-4)
    np.testing.assert_allclose(longer.prepare_text(sentences), plain.prepare_text(sentences), atol=1e-4)


def test_what_many_regions_taught_helps_a_model_with_few_photos(auxiliary: CCA) -> None:
    few, unseen = pairs(150, 3), pairs(200, 4)

    def found(model: Embedder) -> float:
        scores = model.scores(model.prepare_visual(unseen[0]), model.prepare_text(unseen[1]))
        return float((scores > np.diag(scores)[:, None]).sum(axis=1).mean())

    assert found(Stacked(auxiliary, CCA(8, 0.1), 1.0).fit(*few)) < 0.8 * found(CCA(8, 0.1).fit(*few))


def test_vectors_are_float32_of_the_stated_dimension(auxiliary: CCA) -> None:
    stacked = Stacked(auxiliary, CCA(5)).fit(*pairs(300, 2))
    vectors = stacked.prepare_visual(pairs(7, 5)[0])
    assert vectors.shape == (7, stacked.dimension)
    assert vectors.dtype == np.float32


def test_rows_that_are_no_pairs_are_one_clear_line(auxiliary: CCA) -> None:
    with pytest.raises(DeixisError, match="X has 9 rows, Y has 8; they must be pairs"):
        Stacked(auxiliary, CCA(5)).fit(np.ones((9, 60)), np.ones((8, 50)))


def test_what_was_not_fitted_says_so(auxiliary: CCA) -> None:
    with pytest.raises(DeixisError, match="Stacked has not been fitted; call fit first"):
        Stacked(auxiliary, CCA(5)).prepare_visual(np.ones((1, 60)))


def test_what_was_saved_prepares_to_the_same_bits(auxiliary: CCA, tmp_path: Path) -> None:
    photos, sentences = pairs(300, 2)
    stacked = Stacked(auxiliary, CCA(5), weight=2.0).fit(photos, sentences)
    stacked.save(tmp_path / "made")
    opened = Stacked.load(tmp_path / "made")
    np.testing.assert_array_equal(opened.prepare_visual(photos), stacked.prepare_visual(photos))
    np.testing.assert_array_equal(opened.prepare_text(sentences), stacked.prepare_text(sentences))


def test_both_training_sets_together_are_one_long_set() -> None:
    (photos, sentences), (regions, phrases) = pairs(200, 2), pairs(400, 3)
    joint = CCA(5).fit_blocks([(photos, sentences), (regions, phrases)])
    long = CCA(5).fit(np.vstack([photos, regions]), np.vstack([sentences, phrases]))
    np.testing.assert_allclose(joint.correlations_, long.correlations_, atol=1e-5)
