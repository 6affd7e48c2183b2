"""Codes of region vectors."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.search.index.codes import Basis, fit_basis


def falling(count: int, dimension: int, seed: int = 0) -> np.ndarray:
    """Vectors that differ more along some axes than along others, as those of real regions do."""
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((count, dimension)) / (1 + np.arange(dimension) / 8)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((dimension, dimension)))[0]
    return (vectors @ turn).astype(np.float32)


@pytest.mark.parametrize("dimension", [3, 64, 200])
def test_scores_of_codes_are_close_to_exact_scores(dimension: int) -> None:
    vectors, queries = falling(3000, dimension), falling(20, dimension, seed=2)
    basis = fit_basis(vectors[:1000])
    codes = basis.encode(vectors)
    assert codes.dtype == np.int8
    for query in queries:
        exact, coded = vectors @ query, basis.scores(codes, query)
        assert np.corrcoef(exact, coded)[0, 1] > 0.98


def test_axes_are_orthonormal() -> None:
    axes = fit_basis(falling(500, 100)).axes
    assert np.allclose(axes.T @ axes, np.eye(64), atol=1e-5)


def test_codes_are_wider_for_vectors_with_many_directions() -> None:
    flat = np.random.default_rng(0).standard_normal((2000, 300)).astype(np.float32)
    assert fit_basis(falling(2000, 300)).axes.shape == (300, 64)
    assert fit_basis(flat).axes.shape == (300, 256)
    assert fit_basis(flat[:, :150]).axes.shape == (150, 128)


def test_vectors_beyond_the_sample_are_clipped() -> None:
    basis = fit_basis(np.eye(4, dtype=np.float32))
    (code,) = basis.encode(np.full((1, 4), 1e6, dtype=np.float32))
    assert set(np.abs(code.astype(int)).tolist()) == {127}


def test_an_empty_array_of_codes_has_no_scores() -> None:
    basis = Basis(np.eye(4, dtype=np.float32), np.ones(4, dtype=np.float32))
    assert basis.scores(np.zeros((0, 4), dtype=np.int8), np.ones(4, dtype=np.float32)).shape == (0,)


def test_a_sample_of_zeros_gives_a_finite_basis() -> None:
    basis = fit_basis(np.zeros((5, 8), dtype=np.float32))
    assert np.isfinite(basis.scores(basis.encode(np.ones((2, 8), dtype=np.float32)), np.ones(8, np.float32))).all()
