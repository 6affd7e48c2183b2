"""CCA: identities, a plain oracle, streams, and bad input named in one line."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scipy import linalg

import deixis.models.cca
from deixis.errors import DeixisError
from deixis.models import CCA, CCASettings, Embedder
from deixis.models.saved import WEIGHTS

Array = np.ndarray


def pairs(n: int = 600, x_size: int = 12, y_size: int = 9, shared: int = 4, seed: int = 0) -> tuple[Array, Array]:
    """Rows that share a few hidden numbers, far from zero."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n, shared))
    x = hidden @ rng.normal(size=(shared, x_size)) + rng.normal(size=(n, x_size)) + 5
    y = hidden @ rng.normal(size=(shared, y_size)) + rng.normal(size=(n, y_size)) - 3
    return x.astype(np.float32), y.astype(np.float32)


def covariances(x: Array, y: Array, regularisation: float) -> tuple[Array, Array, Array]:
    x, y = x - x.mean(axis=0, dtype=float), y - y.mean(axis=0, dtype=float)
    xx, yy = x.T @ x / len(x), y.T @ y / len(y)
    for side in (xx, yy):
        side += regularisation * np.trace(side) / len(side) * np.eye(len(side))
    return xx, x.T @ y / len(x), yy


def plain_eigenvalues(x: Array, y: Array, regularisation: float) -> Array:
    """Those of the whole generalised eigenvalue problem: 1 + ρ, largest first."""
    xx, xy, yy = covariances(x, y, regularisation)
    separate = linalg.block_diag(xx, yy)
    together = separate + np.block([[np.zeros_like(xx), xy], [xy.T, np.zeros_like(yy)]])
    return linalg.eigh(together, separate, eigvals_only=True)[::-1]


def learned(cca: CCA) -> dict[str, Array]:
    return cca.saved().arrays


@pytest.mark.parametrize("regularisation", [0, 0.01, 1.0])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_correlations_are_those_of_the_plain_eigenvalue_problem(
    regularisation: float, swapped: bool, device: str | None
) -> None:
    x, y = pairs()[::-1] if swapped else pairs()
    cca = CCA(9, regularisation, device=device).fit(x, y)
    np.testing.assert_allclose(cca.correlations_, plain_eigenvalues(x, y, regularisation)[:9] - 1, atol=1e-5)


@pytest.mark.parametrize("regularisation", [0, 0.1])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_projections_whiten_each_side_and_only_partners_correlate(regularisation: float, device: str | None) -> None:
    x, y = pairs()
    cca = CCA(6, regularisation, device=device).fit(x, y)
    xx, xy, yy = covariances(x, y, regularisation)
    a, b = learned(cca)["x_projection"].astype(float), learned(cca)["y_projection"].astype(float)
    np.testing.assert_allclose(a.T @ xx @ a, np.eye(6), atol=1e-5)
    np.testing.assert_allclose(b.T @ yy @ b, np.eye(6), atol=1e-5)
    np.testing.assert_allclose(a.T @ xy @ b, np.diag(learned(cca)["correlations"]), atol=1e-5)


def test_torch_finds_what_numpy_finds() -> None:
    x, y = pairs()
    ours, theirs = CCA(4).fit(x, y), CCA(4, device="cpu").fit(x, y)
    for name, array in learned(ours).items():
        np.testing.assert_allclose(array, learned(theirs)[name], atol=1e-5, err_msg=name)


def test_correlations_do_not_change_with_coordinates() -> None:
    x, y = pairs()
    rng = np.random.default_rng(1)
    turned = x @ rng.normal(size=(12, 12)) + rng.normal(size=12)
    before, after = CCA(5, 0).fit(x, y), CCA(5, 0).fit(turned, 1000 * y)
    np.testing.assert_allclose(before.correlations_, after.correlations_, atol=1e-4)


def test_units_of_a_side_make_no_difference_however_strong_the_regularisation() -> None:
    x, y = pairs()
    before, after = CCA(5, 2.0).fit(x, y), CCA(5, 2.0).fit(1000 * x, y / 1000)
    np.testing.assert_allclose(before.correlations_, after.correlations_, atol=1e-5)
    np.testing.assert_allclose(before.transform(x), after.transform(1000 * x), atol=1e-4)


def test_the_correlation_that_was_put_in_is_found() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 20000, 5))
    y[:, 3] = 0.8 * x[:, 1] + 0.6 * y[:, 3]
    cca = CCA(2, 0).fit(x, y)
    assert learned(cca)["correlations"] == pytest.approx([0.8, 0], abs=0.05)
    assert np.abs(learned(cca)["x_projection"][:, 0]).argmax() == 1
    assert np.abs(learned(cca)["y_projection"][:, 0]).argmax() == 3


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 600), max_size=5), st.randoms(use_true_random=False), st.sampled_from([None, "cpu"]))
def test_blocks_and_their_order_make_no_difference(cuts: list[int], random: Random, device: str | None) -> None:
    x, y = pairs()
    edges = [0, *sorted(cuts), 600]
    parts = [(x[start:end], y[start:end]) for start, end in pairwise(edges)]
    random.shuffle(parts)
    whole, cut = learned(CCA(4).fit(x, y)), learned(CCA(4, device=device).fit_blocks(iter(parts)))
    for name, array in whole.items():
        np.testing.assert_allclose(cut[name], array, atol=2e-5, err_msg=name)


def test_large_arrays_are_cut_into_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = pairs()
    whole = CCA(4).fit(x, y)
    monkeypatch.setattr(deixis.models.cca, "BLOCK", 37)
    cut = CCA(4).fit(x, y)
    np.testing.assert_allclose(cut.correlations_, whole.correlations_, atol=1e-5)
    np.testing.assert_allclose(cut.transform(x), whole.transform(x), atol=1e-4)


def test_pairs_taken_in_bit_by_bit_are_learned_when_finished() -> None:
    x, y = pairs()
    cca = CCA(4).partial_fit(x[:100], y[:100])
    with pytest.raises(DeixisError, match="CCA has not been fitted"):
        cca.transform(x)
    cca.partial_fit(x[100:], y[100:]).finish()
    np.testing.assert_allclose(cca.correlations_, CCA(4).fit(x, y).correlations_, atol=1e-5)


def test_fitting_again_forgets_what_was_seen_before() -> None:
    x, y = pairs()
    other, fresh = pairs(seed=5), CCA(4).fit(x, y)
    for again in (
        CCA(4).partial_fit(*other).fit(x, y),
        CCA(4).fit(*other).fit(x, y),
        CCA(4).fit(*other).partial_fit(x, y).finish(),
    ):
        np.testing.assert_array_equal(again.correlations_, fresh.correlations_)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_rows_far_from_zero_lose_no_digits(device: str | None) -> None:
    x, y = pairs()
    far_x, far_y = x + np.float32(4096), y - np.float32(4096)
    near = CCA(4, device=device).fit(x, y)
    for far in (CCA(4, device=device).fit(far_x, y), CCA(4, device=device).fit(x, far_y)):
        np.testing.assert_allclose(far.correlations_, near.correlations_, atol=1e-3)


def test_vectors_have_unit_length_and_weights_are_powers_of_the_correlations() -> None:
    x, y = pairs()
    cca = CCA(4, power=3.0).fit(x, y)
    found = learned(cca)
    for rows, side in ((x, "x"), (y, "y")):
        plain = (rows - found[f"{side}_mean"]) @ found[f"{side}_projection"] * found["correlations"] ** 3
        plain /= np.linalg.norm(plain, axis=1, keepdims=True)
        np.testing.assert_allclose(cca.transform(rows) if side == "x" else cca.transform(Y=rows), plain, atol=1e-5)


def test_the_score_ranks_as_the_distance_does() -> None:
    cca = CCA(4).fit(*pairs())
    visual, text = cca.transform(*pairs(50))
    distances = np.linalg.norm(visual[:, None] - text[None], axis=2)
    np.testing.assert_allclose(2 - 2 * cca.scores(visual, text), distances**2, atol=1e-5)


def test_it_is_an_embedder_that_prepares_what_it_transforms() -> None:
    x, y = pairs()
    cca = CCA(4).fit(x, y)
    assert isinstance(cca, Embedder)
    assert cca.dimension == 4
    np.testing.assert_array_equal(cca.prepare_visual(x), cca.transform(x))
    np.testing.assert_array_equal(cca.prepare_text(y), cca.transform(Y=y))


def test_pairs_not_seen_before_find_each_other() -> None:
    x, y = pairs(1100, 40, 30, 20)
    cca = CCA(20).fit(x[:1000], y[:1000])
    visual, text = cca.transform(x[1000:], y[1000:])
    assert (cca.scores(visual, text).argmax(axis=1) == np.arange(100)).mean() > 0.9


def test_without_regularisation_the_training_score_is_the_mean_correlation() -> None:
    x, y = pairs()
    cca = CCA(5, 0).fit(x, y)
    assert cca.score(x, y) == pytest.approx(learned(cca)["correlations"].mean(), abs=1e-5)
    assert abs(cca.score(x, y[np.random.default_rng(0).permutation(len(y))])) < 0.1


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64])
def test_what_goes_out_is_float32(dtype: type) -> None:
    x, y = (side.astype(dtype) for side in pairs())
    cca = CCA(3).fit(x, y)
    assert {array.dtype for array in learned(cca).values()} == {np.dtype(np.float32)}
    assert cca.transform(x).dtype == cca.transform(Y=y).dtype == np.float32


@pytest.mark.parametrize("device", [None, "cpu"])
def test_constant_and_repeated_columns_do_no_harm(device: str | None) -> None:
    x, y = pairs()
    plain = CCA(4, 1e-4, device=device).fit(x, y)
    odd = np.hstack([x, x[:, :1], np.full((len(x), 2), 7, dtype=np.float32)])
    cca = CCA(4, 1e-4, device=device).fit(odd, y)
    np.testing.assert_allclose(cca.correlations_, plain.correlations_, atol=1e-3)
    assert np.isfinite(cca.transform(odd)).all()


@pytest.mark.parametrize("device", [None, "cpu"])
def test_more_columns_than_rows_can_be_had_with_regularisation(device: str | None) -> None:
    x, y = pairs(20, 30, 40)
    cca = CCA(10, 0.1, device=device).fit(x, y)
    np.testing.assert_allclose(cca.correlations_, plain_eigenvalues(x, y, 0.1)[:10] - 1, atol=1e-5)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_dimensions_beyond_what_is_shared_have_no_direction_on_the_other_side(device: str | None) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(100, 4)), np.outer(rng.normal(size=100), rng.normal(size=6))
    cca = CCA(3, device=device).fit(x, y)
    assert learned(cca)["correlations"][1:] == pytest.approx([0, 0], abs=1e-6)
    np.testing.assert_array_equal(learned(cca)["y_projection"][:, 1:], 0)
    assert np.isfinite(cca.transform(Y=y)).all()


def test_a_row_at_the_mean_has_no_direction_and_no_nan() -> None:
    x, y = pairs()
    cca = CCA(4).fit(x, y)
    np.testing.assert_array_equal(cca.transform(learned(cca)["x_mean"][None]), np.zeros((1, 4)))


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize(
    ("x", "y", "options", "complaint"),
    [
        (np.ones((9, 3)), np.ones((8, 3)), {}, "X has 9 rows, Y has 8; they must be pairs"),
        (np.ones(9), np.ones((9, 3)), {}, "X has 1 dimensions; give rows and columns"),
        ([["a"]], [[1.0]], {}, "X is no array of numbers"),
        (np.zeros((0, 3)), np.zeros((0, 3)), {}, "no rows to learn from"),
        (np.ones((9, 3)), np.ones((9, 3)), {"components": 2}, "all rows of X are the same"),
        (*pairs(5), {"components": 5}, "5 components cannot be had from 5 pairs of 12 and 9 numbers; ask for 1 to 4"),
        (*pairs(), {"components": 10}, "10 components cannot be had .* ask for 1 to 9"),
        (*pairs(), {"components": 0}, "0 components cannot be had"),
        (*pairs(8), {"components": 2, "regularisation": 0}, "columns of X depend on each other; give a regularisation"),
    ],
)
def test_what_cannot_be_learned_from_is_one_clear_line(
    x: Array, y: Array, options: dict[str, float], complaint: str, device: str | None
) -> None:
    with pytest.raises(DeixisError, match=complaint) as refusal:
        CCA(**options, device=device).fit(x, y)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_number_that_is_none_is_named_with_its_place_and_the_block_is_not_taken_in(odd: float) -> None:
    x, y = pairs()
    broken = y.copy()
    broken[150, 2] = odd
    cca = CCA(4).partial_fit(x[:100], y[:100])
    with pytest.raises(DeixisError, match=f"row 150 of Y has {odd} in column 2"):
        cca.partial_fit(x[100:], broken[100:])
    cca.partial_fit(x[100:], y[100:]).finish()
    np.testing.assert_allclose(cca.correlations_, CCA(4).fit(x, y).correlations_, atol=1e-5)


def test_other_columns_than_before_are_one_clear_line() -> None:
    x, y = pairs()
    with pytest.raises(DeixisError, match="Y has 12 columns, those before had 9"):
        CCA(2).partial_fit(x, y).partial_fit(x, x)
    cca = CCA(2).fit(x, y)
    with pytest.raises(DeixisError, match="X has 9 columns, those before had 12"):
        cca.transform(y)
    with pytest.raises(DeixisError, match="give X, Y or both"):
        cca.transform()  # type: ignore[call-overload]
    with pytest.raises(DeixisError, match="600 rows and 3 rows are no pairs"):
        cca.score(x, y[:3])


def test_a_device_that_is_not_there_is_one_clear_line() -> None:
    with pytest.raises(DeixisError, match="cannot work on the device 'nonsense'") as refusal:
        CCA(2, device="nonsense").fit(*pairs())
    assert "\n" not in str(refusal.value)


def test_settings_are_kept_as_given() -> None:
    assert CCA(7, 0.5, 2.0).settings == CCASettings(7, 0.5, 2.0)
    assert CCA().settings == CCASettings()


def test_what_was_saved_transforms_to_the_same_bits(tmp_path: Path) -> None:
    x, y = pairs()
    cca = CCA(4, 0.2, 2.5).fit(x, y)
    cca.save(tmp_path / "made")
    opened = CCA.load(tmp_path / "made")
    assert opened.settings == cca.settings
    for ours, theirs in zip(opened.transform(x, y), cca.transform(x, y), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_weights_in_half_precision_are_read_as_float32(tmp_path: Path) -> None:
    x, y = pairs()
    cca = CCA(4).fit(x, y)
    cca.save(tmp_path / "made")
    halves = {name: array.astype(np.float16) for name, array in learned(cca).items()}
    save_file(halves, tmp_path / "made" / WEIGHTS)
    opened = CCA.load(tmp_path / "made")
    assert opened.transform(x).dtype == learned(opened)["correlations"].dtype == np.float32
    np.testing.assert_allclose(opened.transform(x), cca.transform(x), atol=0.02)


def test_what_was_not_fitted_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="CCA has not been fitted"):
        CCA().save(tmp_path / "made")
    assert not list(tmp_path.iterdir())
