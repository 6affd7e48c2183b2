"""CCA against the eigenvalue problem of the paper, and the stacked auxiliary embedding."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from add_checksums import add_checksums
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scipy import linalg

import deixis.models.cca.model
from deixis.errors import DeixisError
from deixis.models import CCA, CCASettings, Stacked
from deixis.storage.artifacts import WEIGHTS

Array = np.ndarray


def pairs(n: int = 600, x_size: int = 12, y_size: int = 9, shared: int = 4, seed: int = 0) -> tuple[Array, Array]:
    """Rows that share a few hidden numbers, far from zero."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n, shared))
    x = hidden @ rng.normal(size=(shared, x_size)) + rng.normal(size=(n, x_size)) + 5
    y = hidden @ rng.normal(size=(shared, y_size)) + rng.normal(size=(n, y_size)) - 3
    return x.astype(np.float32), y.astype(np.float32)


def covariances(x: Array, y: Array, regularization: float) -> tuple[Array, Array, Array]:
    x, y = x - x.mean(axis=0, dtype=float), y - y.mean(axis=0, dtype=float)
    xx, yy = x.T @ x / len(x), y.T @ y / len(y)
    for side in (xx, yy):
        side += regularization * np.trace(side) / len(side) * np.eye(len(side))
    return xx, x.T @ y / len(x), yy


def plain_eigenvalues(x: Array, y: Array, regularization: float) -> Array:
    """Those of the whole generalised eigenvalue problem: 1 + ρ, largest first."""
    xx, xy, yy = covariances(x, y, regularization)
    separate = linalg.block_diag(xx, yy)
    together = separate + np.block([[np.zeros_like(xx), xy], [xy.T, np.zeros_like(yy)]])
    return linalg.eigh(together, separate, eigvals_only=True)[::-1]


def learned(cca: CCA) -> dict[str, Array]:
    return cca.to_artifact().arrays


@pytest.mark.parametrize("regularization", [0, 0.01, 1.0])
@pytest.mark.parametrize("swapped", [False, True])
def test_correlations_solve_the_plain_eigenvalue_problem(regularization: float, swapped: bool) -> None:
    x, y = pairs()[::-1] if swapped else pairs()
    cca = CCA(9, regularization).fit(x, y)
    np.testing.assert_allclose(cca.correlations_, plain_eigenvalues(x, y, regularization)[:9] - 1, atol=1e-5)


@pytest.mark.parametrize("regularization", [0, 0.1])
def test_projections_whiten_each_side_and_only_partners_correlate(regularization: float) -> None:
    x, y = pairs()
    cca = CCA(6, regularization).fit(x, y)
    xx, xy, yy = covariances(x, y, regularization)
    a, b = learned(cca)["x_projection"].astype(float), learned(cca)["y_projection"].astype(float)
    np.testing.assert_allclose(a.T @ xx @ a, np.eye(6), atol=1e-5)
    np.testing.assert_allclose(b.T @ yy @ b, np.eye(6), atol=1e-5)
    np.testing.assert_allclose(a.T @ xy @ b, np.diag(learned(cca)["correlations"]), atol=1e-5)


def test_correlations_do_not_change_with_coordinates_nor_with_the_units_of_a_side() -> None:
    x, y = pairs()
    rng = np.random.default_rng(1)
    turned = x @ rng.normal(size=(12, 12)) + rng.normal(size=12)
    before, after = CCA(5, 0).fit(x, y), CCA(5, 0).fit(turned, 1000 * y)
    np.testing.assert_allclose(before.correlations_, after.correlations_, atol=1e-4)
    before, after = CCA(5, 2.0).fit(x, y), CCA(5, 2.0).fit(1000 * x, y / 1000)
    np.testing.assert_allclose(before.correlations_, after.correlations_, atol=1e-5)
    np.testing.assert_allclose(before.transform(x), after.transform(1000 * x), atol=1e-4)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 600), max_size=5), st.randoms(use_true_random=False))
def test_blocks_and_their_order_make_no_difference(cuts: list[int], random: Random) -> None:
    x, y = pairs()
    edges = [0, *sorted(cuts), 600]
    parts = [(x[start:end], y[start:end]) for start, end in pairwise(edges)]
    random.shuffle(parts)
    whole, cut = learned(CCA(4).fit(x, y)), learned(CCA(4).fit_blocks(iter(parts)))
    for name, array in whole.items():
        np.testing.assert_allclose(cut[name], array, atol=2e-5, err_msg=name)


def test_large_arrays_are_fitted_to_in_blocks_and_earlier_fits_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = pairs()
    whole, cca = CCA(4).fit(x, y), CCA(4).fit(*pairs(seed=5))
    monkeypatch.setattr(deixis.models.cca.model, "BLOCK", 37)
    cca.fit(x, y)
    np.testing.assert_allclose(cca.correlations_, whole.correlations_, atol=1e-5)
    np.testing.assert_allclose(cca.transform(x), whole.transform(x), atol=1e-4)


def test_rows_far_from_zero_lose_no_digits() -> None:
    x, y = pairs()
    far_x, far_y = x + np.float32(4096), y - np.float32(4096)
    near = CCA(4).fit(x, y)
    for far in (CCA(4).fit(far_x, y), CCA(4).fit(x, far_y)):
        np.testing.assert_allclose(far.correlations_, near.correlations_, atol=1e-3)


def test_vectors_have_unit_length_and_weights_are_powers_of_the_correlations() -> None:
    x, y = pairs()
    cca = CCA(4, correlation_power=3.0).fit(x, y)
    found = learned(cca)
    for rows, side in ((x, "x"), (y, "y")):
        plain = (rows - found[f"{side}_mean"]) @ found[f"{side}_projection"] * found["correlations"] ** 3
        plain /= np.linalg.norm(plain, axis=1, keepdims=True)
        np.testing.assert_allclose(cca.transform(rows) if side == "x" else cca.transform(Y=rows), plain, atol=1e-5)


def test_without_regularization_the_training_score_is_the_mean_correlation() -> None:
    x, y = pairs()
    cca = CCA(5, 0).fit(x, y)
    assert cca.score(x, y) == pytest.approx(learned(cca)["correlations"].mean(), abs=1e-5)
    assert abs(cca.score(x, y[np.random.default_rng(0).permutation(len(y))])) < 0.1


def test_constant_and_repeated_columns_do_no_harm() -> None:
    x, y = pairs()
    plain = CCA(4, 1e-4).fit(x, y)
    odd = np.hstack([x, x[:, :1], np.full((len(x), 2), 7, dtype=np.float32)])
    cca = CCA(4, 1e-4).fit(odd, y)
    np.testing.assert_allclose(cca.correlations_, plain.correlations_, atol=1e-3)
    assert np.isfinite(cca.transform(odd)).all()


def test_regularization_allows_more_columns_than_rows() -> None:
    x, y = pairs(20, 30, 40)
    cca = CCA(10, 0.1).fit(x, y)
    np.testing.assert_allclose(cca.correlations_, plain_eigenvalues(x, y, 0.1)[:10] - 1, atol=1e-5)


def test_dimensions_beyond_what_is_shared_have_no_direction_on_the_other_side() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 4)), np.outer(rng.normal(size=100), rng.normal(size=6))
    cca = CCA(3).fit(x, y)
    assert learned(cca)["correlations"][1:] == pytest.approx([0, 0], abs=1e-6)
    np.testing.assert_array_equal(learned(cca)["y_projection"][:, 1:], 0)
    assert np.isfinite(cca.transform(Y=y)).all()


def test_a_row_at_the_mean_has_no_direction_and_no_nan() -> None:
    x, y = pairs()
    cca = CCA(4).fit(x, y)
    np.testing.assert_array_equal(cca.transform(learned(cca)["x_mean"][None]), np.zeros((1, 4)))


@pytest.mark.parametrize(
    ("x", "y", "options", "complaint"),
    [
        (np.ones((9, 3)), np.ones((8, 3)), {}, "X has 9 rows, Y has 8; they must be pairs"),
        (np.ones(9), np.ones((9, 3)), {}, "X has 1 dimensions; give rows and columns"),
        ([["a"]], [[1.0]], {}, "X is no array of numbers"),
        (np.zeros((0, 3)), np.zeros((0, 3)), {}, "no rows"),
        (np.ones((9, 3)), np.ones((9, 3)), {"embedding_dim": 2}, "all rows of X are the same"),
        (*pairs(5), {"embedding_dim": 5}, "embedding_dim=5.* 1 to 4"),
        (*pairs(), {"embedding_dim": 10}, "embedding_dim=10.* 1 to 9"),
        (*pairs(), {"embedding_dim": 0}, "embedding_dim=0"),
        (*pairs(8), {"embedding_dim": 2, "regularization": 0}, "columns of X.*regularization"),
    ],
)
def test_unusable_training_data_is_refused(x: Array, y: Array, options: dict[str, float], complaint: str) -> None:
    with pytest.raises(DeixisError, match=complaint) as refusal:
        CCA(**options).fit(x, y)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_named_with_its_position(odd: float) -> None:
    x, y = pairs()
    y[150, 2] = odd
    with pytest.raises(DeixisError, match=f"row 150 of Y .*{odd}.* column 2"):
        CCA(4).fit_blocks([(x[:100], y[:100]), (x[100:], y[100:])])


def test_a_different_number_of_columns_is_refused() -> None:
    x, y = pairs()
    with pytest.raises(DeixisError, match="Y .*12.* 9"):
        CCA(2).fit_blocks([(x, y), (x, x)])
    cca = CCA(2).fit(x, y)
    with pytest.raises(DeixisError, match="X .*9.* 12"):
        cca.transform(y)
    with pytest.raises(DeixisError):
        cca.transform()  # type: ignore[call-overload]
    with pytest.raises(DeixisError, match="600 .* 3 "):
        cca.score(x, y[:3])


def test_a_saved_model_transforms_to_the_same_bits_and_may_have_half_precision(tmp_path: Path) -> None:
    x, y = pairs()
    with pytest.raises(DeixisError, match="CCA"):
        CCA().save(tmp_path / "made")
    assert not list(tmp_path.iterdir())
    cca = CCA(4, 0.2, 2.5).fit(x, y)
    cca.save(tmp_path / "made")
    opened = CCA.load(tmp_path / "made")
    assert opened.settings == cca.settings == CCASettings(4, 0.2, 2.5)
    for ours, theirs in zip(opened.transform(x, y), cca.transform(x, y), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    halves = {name: array.astype(np.float16) for name, array in learned(cca).items()}
    save_file(halves, tmp_path / "made" / WEIGHTS)
    add_checksums(tmp_path / "made")
    opened = CCA.load(tmp_path / "made")
    assert opened.transform(x).dtype == learned(opened)["correlations"].dtype == np.float32
    np.testing.assert_allclose(opened.transform(x), cca.transform(x), atol=0.02)


def noisy_pairs(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of one world: the same maps from hidden numbers whatever the seed."""
    world, rng = np.random.default_rng(0), np.random.default_rng(seed)
    to_photo, to_sentence = world.normal(size=(10, 60)), world.normal(size=(10, 50))
    hidden = rng.normal(size=(n, 10))
    photos = hidden @ to_photo + 4 * rng.normal(size=(n, 60))
    sentences = hidden @ to_sentence + 4 * rng.normal(size=(n, 50))
    return photos.astype(np.float32) / 30, sentences.astype(np.float32) / 30


@pytest.fixture(scope="module")
def auxiliary() -> CCA:
    return CCA(8).fit(*noisy_pairs(5000, 1))


def by_hand(auxiliary: CCA, photos: np.ndarray, sentences: np.ndarray, weight: float, first: int) -> tuple:
    """The vectors of the photos and sentences that the model is fitted on, the lengths taken from the first rows."""
    lengths = [np.sqrt((rows[:first] ** 2).sum(axis=1)).mean() for rows in (photos, sentences)]
    visual, text = auxiliary.transform(photos, sentences)
    stacks = np.hstack([photos, weight * lengths[0] * visual]), np.hstack([sentences, weight * lengths[1] * text])
    return CCA(5).fit(*stacks).transform(*stacks)


@pytest.mark.parametrize("weight", [0.5, 3.0])
def test_the_model_is_fitted_on_features_with_the_auxiliary_vectors_beside_them(auxiliary: CCA, weight: float) -> None:
    photos, sentences = noisy_pairs(300, 2)
    stacked = Stacked(auxiliary, CCA(5), weight).fit(photos, sentences)
    visual, text = by_hand(auxiliary, photos, sentences, weight, first=300)
    np.testing.assert_allclose(stacked.prepare_visual(photos), visual, atol=1e-5)
    np.testing.assert_allclose(stacked.prepare_text(sentences), text, atol=1e-5)


def test_lengths_are_those_of_the_first_block(auxiliary: CCA, monkeypatch: pytest.MonkeyPatch) -> None:
    photos, sentences = noisy_pairs(300, 2)
    photos[64:] *= 2
    monkeypatch.setattr(deixis.models.cca.model, "BLOCK", 64)
    stacked = Stacked(auxiliary, CCA(5), 1.0).fit(photos, sentences)
    visual, text = by_hand(auxiliary, photos, sentences, 1.0, first=64)
    np.testing.assert_allclose(stacked.prepare_visual(photos), visual, atol=1e-4)
    np.testing.assert_allclose(stacked.prepare_text(sentences), text, atol=1e-4)
    # One row alone is stacked as it was among all.
    np.testing.assert_allclose(stacked.prepare_visual(photos[200:201]), visual[200:201], atol=1e-4)


def test_photos_in_other_units_than_sentences_make_no_difference() -> None:
    (regions, phrases), (photos, sentences) = noisy_pairs(500, 1), noisy_pairs(300, 2)
    plain = Stacked(CCA(8).fit(regions, phrases), CCA(5)).fit(photos, sentences)
    longer = Stacked(CCA(8).fit(30 * regions, phrases), CCA(5)).fit(30 * photos, sentences)
    np.testing.assert_allclose(longer.prepare_visual(30 * photos), plain.prepare_visual(photos), atol=1e-4)
    np.testing.assert_allclose(longer.prepare_text(sentences), plain.prepare_text(sentences), atol=1e-4)


def test_different_numbers_of_rows_and_unfitted_models_are_refused(auxiliary: CCA) -> None:
    with pytest.raises(DeixisError, match="X .*9.*Y .*8"):
        Stacked(auxiliary, CCA(5)).fit(np.ones((9, 60)), np.ones((8, 50)))
    with pytest.raises(DeixisError, match="Stacked"):
        Stacked(auxiliary, CCA(5)).prepare_visual(np.ones((1, 60)))


def test_a_saved_model_prepares_to_the_same_bits(auxiliary: CCA, tmp_path: Path) -> None:
    photos, sentences = noisy_pairs(300, 2)
    stacked = Stacked(auxiliary, CCA(5), weight=2.0).fit(photos, sentences)
    stacked.save(tmp_path / "made")
    opened = Stacked.load(tmp_path / "made")
    np.testing.assert_array_equal(opened.prepare_visual(photos), stacked.prepare_visual(photos))
    np.testing.assert_array_equal(opened.prepare_text(sentences), stacked.prepare_text(sentences))
