"""Fisher vectors, ICA and mixtures: against loops over words, components and dimensions, and by identities."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.language.features import FisherVectors, gmm_fisher_vectors
from deixis.language.features.fisher import (
    FAMILIES,
    ICA,
    Components,
    Family,
    Mixture,
    cluster,
    gradients,
    weighted_medians,
)
from deixis.language.vectors import WordVectors


def density(learned: Components, k: int, x: list[float]) -> float:
    """Weight times density of one component."""
    product = float(learned.weights[k])
    for d, value in enumerate(x):
        location, scale = float(learned.locations[k, d]), float(learned.scales[k, d])
        z = (value - location) / scale
        bell = math.exp(-abs(z)) / 2 if learned.laplacian[k, d] else math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        product *= bell / scale
    return product


def by_loops(learned: Components, points: list[list[float]]) -> tuple[list[float], list[float]]:
    """The location and the scale part of a Fisher vector, from the formulas, one number at a time."""
    components, width = learned.locations.shape
    location, scale = [0.0] * (components * width), [0.0] * (components * width)
    for x in points:
        joint = [density(learned, k, x) for k in range(components)]
        for k in range(components):
            posterior = joint[k] / sum(joint) / len(points)
            root = math.sqrt(float(learned.weights[k]))
            for d in range(width):
                z = (x[d] - float(learned.locations[k, d])) / float(learned.scales[k, d])
                if learned.laplacian[k, d]:
                    location[k * width + d] += posterior * (1 if z > 0 else -1) / root
                    scale[k * width + d] += posterior * (abs(z) - 1) / root
                else:
                    location[k * width + d] += posterior * z / root
                    scale[k * width + d] += posterior * (z * z - 1) / (root * math.sqrt(2))
    return location, scale


def plain(vectors: WordVectors, family: Family = "hybrid", **settings: bool) -> FisherVectors:
    return FisherVectors(vectors, components=3, family=family, ica=False, normalized=False, **settings)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_vector_of_three_words_agrees_with_plain_loops(
    vectors: WordVectors, sentences: list[list[str]], family: Family
) -> None:
    features = plain(vectors, family).fit(sentences)
    mixture = features.mixture_
    assert mixture is not None
    assert mixture.components_ is not None
    assert family != "hybrid" or 0 < mixture.components_.laplacian.mean() < 1
    # Words between the words that the mixture was fitted on: none lies on a median.
    strange = WordVectors(vectors.matrix[:3] + np.float32(0.37), ["x", "y", "z"])
    features.vectors = strange
    location, scale = by_loops(mixture.components_, strange.matrix.tolist())
    np.testing.assert_allclose(features.transform([["x", "unknown", "y", "z"]])[0], location + scale, atol=2e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_fisher_vector_is_the_gradient_of_the_log_likelihood(vectors: WordVectors, family: Family) -> None:
    mixture = Mixture(3, family).fit(vectors.matrix)
    learned = mixture.components_
    assert learned is not None
    points = vectors.matrix[:7] + np.float32(0.11)
    step = 1e-3

    def mean_likelihood(locations: np.ndarray, scales: np.ndarray) -> float:
        logs = Components(learned.weights, locations, scales, learned.laplacian).log_joint(points)
        return float(np.log(np.exp(logs).sum(axis=1)).mean())

    location, scale = (part.mean(axis=0) for part in gradients(learned, 1, points, mixture.posteriors(points)[:, 1]))
    for d in range(points.shape[1]):
        nudge = np.zeros_like(learned.locations, dtype=np.float64)
        nudge[1, d] = step * learned.scales[1, d]
        up, down = (mean_likelihood(learned.locations + side * nudge, learned.scales) for side in (1, -1))
        wider, narrower = (mean_likelihood(learned.locations, learned.scales + side * nudge) for side in (1, -1))
        # The Fisher information, times scale²: weight, and for the scale of a Gaussian twice that.
        root = math.sqrt(learned.weights[1])
        double = 1 if learned.laplacian[1, d] else math.sqrt(2)
        assert location[d] == pytest.approx((up - down) / (2 * step) / root, abs=5e-3)
        assert scale[d] == pytest.approx((wider - narrower) / (2 * step) / root / double, abs=5e-3)


@pytest.mark.parametrize("family", ["gaussian", "hybrid"])
def test_the_gradient_of_the_training_words_is_zero(family: Family) -> None:
    rng = np.random.default_rng(3)
    centres = np.array([[0, 0], [4, 0], [0, 4]])
    words = (centres[np.arange(600) % 3] + rng.normal(size=(600, 2))).astype(np.float32)
    mixture = Mixture(3, family, tolerance=0, iterations=500).fit(words)
    assert mixture.components_ is not None
    assert not mixture.components_.laplacian.any()
    posteriors = mixture.posteriors(words)
    for k in range(3):
        for part in gradients(mixture.components_, k, words, posteriors[:, k]):
            np.testing.assert_allclose(part.mean(axis=0), 0, atol=1e-3)


def test_normalized_vectors_are_signed_square_roots_of_unit_length(
    vectors: WordVectors, sentences: list[list[str]]
) -> None:
    raw = plain(vectors).fit(sentences).transform(sentences)
    normalized = FisherVectors(vectors, components=3, ica=False).fit(sentences).transform(sentences)
    rooted = np.sign(raw) * np.sqrt(np.abs(raw))
    np.testing.assert_allclose(normalized, rooted / np.linalg.norm(rooted, axis=1, keepdims=True), atol=1e-5)


def test_dimensions_equal_those_of_the_papers() -> None:
    rng = np.random.default_rng(0)
    words = [f"w{number}" for number in range(60)]
    vectors = WordVectors(rng.normal(size=(60, 300)).astype(np.float32), words)
    assert gmm_fisher_vectors(vectors).fit([words]).dimension == 9_000
    features = FisherVectors(vectors, ica=False).fit([words])
    assert features.dimension == 18_000
    assert features.transform(["w1 w2"]).shape == (1, 18_000)
    assert features.transform(["w1 w2"]).dtype == np.float32


def test_without_scales_the_vector_is_the_first_half(vectors: WordVectors, sentences: list[list[str]]) -> None:
    both = plain(vectors).fit(sentences).transform(sentences)
    location = plain(vectors, scales=False).fit(sentences).transform(sentences)
    np.testing.assert_allclose(location, both[:, : both.shape[1] // 2], rtol=1e-4, atol=1e-5)


def test_a_sentence_has_about_the_same_vector_in_any_batch(vectors: WordVectors, sentences: list[list[str]]) -> None:
    features = FisherVectors(vectors, components=3).fit(sentences)
    alone = np.concatenate([features.transform([sentence]) for sentence in sentences])
    np.testing.assert_allclose(alone, features.transform(sentences), atol=2e-3)


def test_parts_of_different_dimensions_are_errors(
    vectors: WordVectors, sentences: list[list[str]], tmp_path: Path
) -> None:
    features = FisherVectors(vectors, components=3).fit(sentences)
    features.vectors = WordVectors(vectors.matrix[:, :4].copy(), ["a"] * 60)
    features.save(tmp_path / "saved")
    with pytest.raises(DeixisError, match="mixture") as caught:
        FisherVectors.load(tmp_path / "saved")
    assert "\n" not in str(caught.value)


def test_transform_before_fit_is_an_error(vectors: WordVectors) -> None:
    with pytest.raises(DeixisError, match="has not been fitted"):
        FisherVectors(vectors).transform(["a"])
    with pytest.raises(DeixisError, match="ICA has not been fitted"):
        ICA().transform(np.zeros((1, 3), dtype=np.float32))


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


def test_mixed_sources_are_recovered() -> None:
    sources, mixed = mixed_sources()
    alike = np.abs(np.corrcoef(ICA().fit(mixed).transform(mixed).T, sources.T)[:3, 3:])
    assert (alike.max(axis=0) > 0.98).all()
    assert sorted(alike.argmax(axis=0)) == [0, 1, 2]


def test_a_weight_of_ica_equals_copies() -> None:
    _, mixed = mixed_sources(500)
    counts = np.random.default_rng(1).integers(1, 4, size=500)
    weighted = ICA().fit(mixed, counts.astype(float)).transform(mixed)
    repeated = ICA().fit(np.repeat(mixed, counts, axis=0)).transform(mixed)
    np.testing.assert_allclose(weighted, repeated, atol=1e-2)


def test_directions_without_variance_are_dropped() -> None:
    _, mixed = mixed_sources()
    flat = np.concatenate([mixed, mixed[:, :1]], axis=1)
    assert ICA().fit(flat).transform(flat).shape == (4000, 3)


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
        joint = [density(learned, k, x) for k in range(2)]
        expected += math.log(sum(joint)) / len(data)
        posteriors.append([value / sum(joint) for value in joint])
    assert mixture.log_likelihoods_[-1] == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(mixture.posteriors(data), posteriors, atol=1e-5)


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
def test_a_weight_of_a_mixture_equals_copies(family: Family) -> None:
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
