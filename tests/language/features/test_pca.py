"""PCA: orthonormal, uncorrelated, and what is left out is what is missing, however the rows are cut into chunks."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.language.features.pca import PCA


def data(n: int = 500, d: int = 30) -> np.ndarray:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, d)) * 0.8 ** np.arange(d) @ np.linalg.qr(rng.normal(size=(d, d)))[0] + 7
    return rows.astype(np.float32)


@pytest.mark.parametrize("exact", [True, False])
def test_components_are_orthonormal(exact: bool) -> None:
    components = PCA(8, exact=exact).fit([data()]).components_
    assert components is not None
    assert components.dtype == np.float32
    np.testing.assert_allclose(components @ components.T, np.eye(8), atol=1e-5)


@pytest.mark.parametrize("exact", [True, False])
def test_what_is_not_restored_is_the_variance_left_out(exact: bool) -> None:
    rows = data()
    pca = PCA(8, exact=exact).fit([rows])
    assert pca.variances_ is not None
    missing = ((rows - pca.restore(pca.transform(rows))) ** 2).sum() / len(rows)
    assert missing == pytest.approx(pca.total_variance_ - pca.variances_.sum(), rel=1e-3)
    eigenvalues = np.linalg.eigvalsh(np.cov(rows.T, bias=True))
    assert pca.total_variance_ == pytest.approx(eigenvalues.sum(), rel=1e-4)
    assert missing == pytest.approx(eigenvalues[:-8].sum(), rel=1e-3 if exact else 0.1)


@pytest.mark.parametrize("exact", [True, False])
def test_reduced_rows_are_uncorrelated_with_the_stated_variances_greatest_first(exact: bool) -> None:
    rows = data()
    pca = PCA(5, exact=exact).fit([rows])
    assert pca.variances_ is not None
    np.testing.assert_allclose(np.cov(pca.transform(rows).T, bias=True), np.diag(pca.variances_), atol=1e-4)
    assert (np.diff(pca.variances_) < 0).all()


def test_components_are_the_eigenvectors_of_the_covariance() -> None:
    rows = data()
    components = PCA(3).fit([rows]).components_
    assert components is not None
    _, directions = np.linalg.eigh(np.cov(rows.T.astype(float)))
    np.testing.assert_allclose(np.abs(np.sum(components * directions.T[:-4:-1], axis=1)), 1, atol=1e-4)


@pytest.mark.parametrize("exact", [True, False])
def test_chunks_make_no_difference(exact: bool) -> None:
    rows = data()
    whole = PCA(4, exact=exact).fit([rows])
    cut = PCA(4, exact=exact).fit(rows[start : start + 37] for start in range(0, 500, 37))
    np.testing.assert_allclose(cut.transform(rows), whole.transform(rows), atol=1e-3)


def test_the_same_seed_gives_the_same_components() -> None:
    first, again = (PCA(4, exact=False, seed=2).fit([data()]).components_ for _ in range(2))
    assert first is not None
    assert again is not None
    np.testing.assert_array_equal(first, again)


def test_rows_far_from_zero_lose_no_digits() -> None:
    rows = data()
    near, far = PCA(4).fit([rows]), PCA(4).fit([rows + np.float32(1000)])
    assert near.variances_ is not None
    assert far.variances_ is not None
    np.testing.assert_allclose(far.variances_, near.variances_, rtol=1e-3)


@pytest.mark.parametrize("chunks", [[data(5)], [data(1)]])
def test_more_components_than_rows_give_is_one_clear_line(chunks: list[np.ndarray]) -> None:
    with pytest.raises(DeixisError, match="8 components cannot be had from"):
        PCA(8).fit(chunks)


def test_no_rows_at_all_is_one_clear_line() -> None:
    with pytest.raises(DeixisError, match="no rows to learn from"):
        PCA(8).fit([])
