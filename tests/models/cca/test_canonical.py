"""Directions from sums of products: exact to float64, though they are first looked for in float32."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.models.cca.canonical import PairSums


@pytest.mark.parametrize(("x_size", "y_size"), [(60, 90), (90, 60)])
def test_directions_are_exact_to_float64(x_size: int, y_size: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, x_size))
    y = rng.normal(size=(500, y_size)) + x[:, :50] @ rng.normal(size=(50, y_size)) / 4
    sums = PairSums(x_size, y_size)
    sums.add(x[:200], y[:200])
    sums.add(x[200:], y[200:])
    found = sums.canonical(20, 0.0)
    one, other = (x - x.mean(axis=0)) @ found.x, (y - y.mean(axis=0)) @ found.y
    np.testing.assert_allclose(one.T @ one / 500, np.eye(20), atol=1e-11)
    np.testing.assert_allclose(other.T @ other / 500, np.eye(20), atol=1e-11)
    np.testing.assert_allclose(one.T @ other / 500, np.diag(found.correlations), atol=1e-11)
    whitened = [np.linalg.qr(rows - rows.mean(axis=0))[0] for rows in (x, y)]
    best = np.linalg.svd(whitened[0].T @ whitened[1], compute_uv=False)[:20]
    np.testing.assert_allclose(found.correlations, best, atol=1e-9)
