"""ICA: components are white, sources are found again, seeds decide."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.language.features.ica import ICA


def mixed_sources(n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    sources = np.stack([rng.laplace(size=n), rng.uniform(-1, 1, size=n), rng.laplace(size=n) ** 3], axis=1)
    return sources, (sources @ rng.normal(size=(3, 3)) + 5).astype(np.float32)


def test_components_have_no_mean_unit_variance_and_no_correlation() -> None:
    _, mixed = mixed_sources()
    found = ICA().fit(mixed).transform(mixed)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=1e-3)
    np.testing.assert_allclose(np.cov(found.T, bias=True), np.eye(3), atol=1e-3)


def test_mixed_sources_are_found_again() -> None:
    sources, mixed = mixed_sources()
    alike = np.abs(np.corrcoef(ICA().fit(mixed).transform(mixed).T, sources.T)[:3, 3:])
    assert (alike.max(axis=0) > 0.98).all()
    assert sorted(alike.argmax(axis=0)) == [0, 1, 2]


def test_a_weight_counts_as_so_many_copies() -> None:
    _, mixed = mixed_sources(500)
    counts = np.random.default_rng(1).integers(1, 4, size=500)
    weighted = ICA().fit(mixed, counts.astype(float)).transform(mixed)
    repeated = ICA().fit(np.repeat(mixed, counts, axis=0)).transform(mixed)
    np.testing.assert_allclose(weighted, repeated, atol=1e-2)


def test_directions_without_variance_are_dropped() -> None:
    _, mixed = mixed_sources()
    flat = np.concatenate([mixed, mixed[:, :1]], axis=1)
    assert ICA().fit(flat).transform(flat).shape == (4000, 3)


def test_the_same_seed_gives_the_same_components() -> None:
    _, mixed = mixed_sources()
    first, again = (ICA(seed=3).fit(mixed).transform(mixed) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_transform_before_fit_is_one_clear_line() -> None:
    with pytest.raises(DeixisError, match="ICA has not been fitted"):
        ICA().transform(np.zeros((1, 3), dtype=np.float32))
