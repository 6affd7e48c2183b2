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


def test_the_model_is_fitted_on_features_with_the_auxiliary_vectors_beside_them(auxiliary: CCA) -> None:
    photos, sentences = pairs(300, 2)
    stacked = Stacked(auxiliary, CCA(5), weight=0.5).fit(photos, sentences)
    visual, text = auxiliary.transform(photos, sentences)
    by_hand = CCA(5).fit(np.hstack([photos, 0.5 * visual]), np.hstack([sentences, 0.5 * text]))
    np.testing.assert_allclose(
        stacked.prepare_visual(photos), by_hand.transform(np.hstack([photos, 0.5 * visual])), atol=1e-5
    )
    np.testing.assert_allclose(
        stacked.prepare_text(sentences), by_hand.transform(Y=np.hstack([sentences, 0.5 * text])), atol=1e-5
    )


def test_what_many_regions_taught_helps_a_model_with_few_photos(auxiliary: CCA) -> None:
    few, unseen = pairs(150, 3), pairs(200, 4)

    def found(model: Embedder) -> float:
        scores = model.scores(model.prepare_visual(unseen[0]), model.prepare_text(unseen[1]))
        return float((scores > np.diag(scores)[:, None]).sum(axis=1).mean())

    assert found(Stacked(auxiliary, CCA(8, 0.1)).fit(*few)) < 0.8 * found(CCA(8, 0.1).fit(*few))


def test_many_rows_are_stacked_a_block_at_a_time(auxiliary: CCA, monkeypatch: pytest.MonkeyPatch) -> None:
    photos, sentences = pairs(300, 2)
    whole = Stacked(auxiliary, CCA(5)).fit(photos, sentences).prepare_visual(photos)
    monkeypatch.setattr(deixis.models.cca, "BLOCK", 64)
    cut = Stacked(auxiliary, CCA(5)).fit(photos, sentences).prepare_visual(photos)
    np.testing.assert_allclose(cut, whole, atol=1e-4)


def test_vectors_are_float32_of_the_stated_dimension(auxiliary: CCA) -> None:
    stacked = Stacked(auxiliary, CCA(5)).fit(*pairs(300, 2))
    vectors = stacked.prepare_visual(pairs(7, 5)[0])
    assert vectors.shape == (7, stacked.dimension)
    assert vectors.dtype == np.float32


def test_rows_that_are_no_pairs_are_one_clear_line(auxiliary: CCA) -> None:
    with pytest.raises(DeixisError, match="X has 9 rows, Y has 8; they must be pairs"):
        Stacked(auxiliary, CCA(5)).fit(np.ones((9, 60)), np.ones((8, 50)))


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
