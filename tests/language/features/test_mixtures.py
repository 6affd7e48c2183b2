"""Mixtures: EM never goes down, hybrid and plain mixtures agree where they must, and parameters are what loops find."""

from __future__ import annotations

import math

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.language.features.fisher import FAMILIES, Family, Mixture, cluster, weighted_medians


def heavy_tailed(n: int = 300, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = 3 * rng.normal(size=(3, 4))
    data = centres[rng.integers(3, size=n)] + rng.normal(size=(n, 4))
    data[:, 2:] += rng.laplace(size=(n, 2)) ** 3
    return data.astype(np.float32)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(3))
def test_em_never_lowers_the_likelihood(family: Family, seed: int) -> None:
    weights = np.random.default_rng(seed).integers(1, 9, size=300).astype(float)
    mixture = Mixture(4, family, tolerance=0, iterations=60, seed=seed).fit(heavy_tailed(seed=seed), weights)
    assert len(mixture.log_likelihoods_) > 5
    assert np.diff(mixture.log_likelihoods_).min() > -1e-5


def test_the_likelihood_agrees_with_a_plain_loop() -> None:
    data = heavy_tailed(40)
    mixture = Mixture(2).fit(data)
    learned = mixture.components_
    assert learned is not None
    assert learned.laplacian.any()
    assert not learned.laplacian.all()
    expected, posteriors = 0.0, []
    for x in data.tolist():
        joint = []
        for k in range(2):
            density = float(learned.weights[k])
            for d in range(4):
                m, s = float(learned.locations[k, d]), float(learned.scales[k, d])
                if learned.laplacian[k, d]:
                    density *= math.exp(-abs(x[d] - m) / s) / (2 * s)
                else:
                    density *= math.exp(-((x[d] - m) ** 2) / (2 * s * s)) / (s * math.sqrt(2 * math.pi))
            joint.append(density)
        expected += math.log(sum(joint)) / len(data)
        posteriors.append([value / sum(joint) for value in joint])
    assert mixture.log_likelihoods_[-1] == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(mixture.posteriors(data), posteriors, atol=1e-5)


def test_a_hybrid_mixture_of_gaussians_equals_the_gaussian_mixture() -> None:
    # Flat data: no dimension has tails that a Laplacian would fit better.
    rng = np.random.default_rng(1)
    data = np.concatenate([rng.uniform(low, low + 1, size=(80, 3)) for low in (0, 5, 10)]).astype(np.float32)
    hybrid, gaussian = (Mixture(3, family, seed=2).fit(data) for family in ("hybrid", "gaussian"))
    assert hybrid.components_ is not None
    assert gaussian.components_ is not None
    assert not hybrid.components_.laplacian.any()
    for name, learned in vars(hybrid.components_).items():
        np.testing.assert_allclose(learned, getattr(gaussian.components_, name), rtol=1e-5)
    assert hybrid.log_likelihoods_ == pytest.approx(gaussian.log_likelihoods_)


def test_one_gaussian_component_is_the_mean_and_the_deviation() -> None:
    data = heavy_tailed()
    learned = Mixture(1, "gaussian").fit(data).components_
    assert learned is not None
    np.testing.assert_allclose(learned.locations[0], data.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(learned.scales[0], data.std(axis=0), rtol=1e-5)


def test_one_laplacian_component_is_the_median_and_the_mean_distance_from_it() -> None:
    data = heavy_tailed(301)
    learned = Mixture(1, "laplacian").fit(data).components_
    assert learned is not None
    np.testing.assert_allclose(learned.locations[0], np.median(data, axis=0))
    np.testing.assert_allclose(learned.scales[0], np.abs(data - np.median(data, axis=0)).mean(axis=0), rtol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_weight_equals_copies(family: Family) -> None:
    data = heavy_tailed(41)
    counts = np.random.default_rng(3).integers(1, 5, size=41)
    weighted = Mixture(1, family).fit(data, counts.astype(float)).components_
    repeated = Mixture(1, family).fit(np.repeat(data, counts, axis=0)).components_
    assert weighted is not None
    assert repeated is not None
    np.testing.assert_allclose(weighted.scales, repeated.scales, rtol=1e-5)
    np.testing.assert_array_equal(weighted.laplacian, repeated.laplacian)


def test_no_component_collapses() -> None:
    data = np.concatenate([np.zeros((50, 2)), np.random.default_rng(0).normal(5, 1, (50, 2))]).astype(np.float32)
    learned = Mixture(2, smallest_scale=0.1).fit(data).components_
    assert learned is not None
    assert (learned.scales >= 0.0999 * data.std(axis=0)).all()


def test_the_median_is_where_half_the_weight_is_reached() -> None:
    rng = np.random.default_rng(4)
    values, shares = rng.normal(size=(9, 3)), rng.uniform(size=9)
    for column, median in zip(values.T, weighted_medians(values, shares), strict=True):
        assert shares[column <= median].sum() >= shares.sum() / 2
        assert shares[column < median].sum() < shares.sum() / 2


def test_the_same_seed_gives_the_same_mixture() -> None:
    first, again = (Mixture(3, seed=7).fit(heavy_tailed()).components_ for _ in range(2))
    assert first is not None
    assert again is not None
    np.testing.assert_array_equal(first.locations, again.locations)


def test_fewer_words_than_components_is_an_error() -> None:
    with pytest.raises(DeixisError, match="30 components"):
        Mixture(30).fit(np.zeros((3, 2), dtype=np.float32))


def test_distant_groups_are_separate_clusters() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(5, size=200)
    points = (100 * np.eye(5)[groups] + rng.normal(size=(200, 5))).astype(np.float32)
    for seed in range(5):
        found = cluster(points, np.full(200, 1 / 200), 5, seed)
        assert len(set(zip(groups.tolist(), found.tolist(), strict=True))) == 5


def test_equal_vectors_can_be_clustered() -> None:
    found = cluster(np.ones((6, 2), dtype=np.float32), np.full(6, 1 / 6), 3, seed=0)
    assert found.shape == (6,)
