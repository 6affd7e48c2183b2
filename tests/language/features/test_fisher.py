"""Fisher vectors: against loops over words, components and dimensions, and by what must hold of gradients."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.language.features import FisherVectors, gmm_fisher_vectors, load_features
from deixis.language.features.fisher import FAMILIES, ICA, Components, Family, Mixture, gradients
from deixis.language.vectors import WordVectors


def by_loops(learned: Components, points: list[list[float]]) -> tuple[list[float], list[float]]:
    """The location and the scale part of a Fisher vector, from the formulas, one number at a time."""
    components, width = learned.locations.shape
    location, scale = [0.0] * (components * width), [0.0] * (components * width)
    for x in points:
        joint = []
        for k in range(components):
            density = float(learned.weights[k])
            for d in range(width):
                z = (x[d] - float(learned.locations[k, d])) / float(learned.scales[k, d])
                bell = (
                    math.exp(-abs(z)) / 2 if learned.laplacian[k, d] else math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
                )
                density *= bell / float(learned.scales[k, d])
            joint.append(density)
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
    # Words between the words that the mixture was fitted on: none lies on a median.
    strange = WordVectors(vectors.matrix[:3] + np.float32(0.37), ["x", "y", "z"])
    features.vectors = strange
    location, scale = by_loops(mixture.components_, strange.matrix.tolist())
    np.testing.assert_allclose(features.transform([["x", "unknown", "y", "z"]])[0], location + scale, atol=2e-4)


def test_the_hybrid_of_these_words_has_both_kinds(vectors: WordVectors, sentences: list[list[str]]) -> None:
    mixture = plain(vectors).fit(sentences).mixture_
    assert mixture is not None
    assert mixture.components_ is not None
    assert 0 < mixture.components_.laplacian.mean() < 1


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


def test_laplacian_medians_leave_at_most_one_word_unbalanced(vectors: WordVectors) -> None:
    mixture = Mixture(1, "laplacian").fit(vectors.matrix)
    assert mixture.components_ is not None
    location, scale = gradients(mixture.components_, 0, vectors.matrix, np.ones(60, dtype=np.float32))
    assert np.abs(location.sum(axis=0)).max() <= 1
    np.testing.assert_allclose(scale.mean(axis=0), 0, atol=1e-4)


def test_two_sentences_joined_have_the_mean_of_their_vectors_weighted_by_length(
    vectors: WordVectors, sentences: list[list[str]]
) -> None:
    features = FisherVectors(vectors, components=3, normalized=False).fit(sentences)
    one, two, both = features.transform([["w1", "w2"], ["w3", "w4", "w5"], ["w1", "w2", "w3", "w4", "w5"]])
    np.testing.assert_allclose(both, (2 * one + 3 * two) / 5, atol=1e-5)


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


def test_a_sentence_of_unknown_words_is_zeros(vectors: WordVectors, sentences: list[list[str]]) -> None:
    features = FisherVectors(vectors, components=3).fit(sentences)
    assert not features.transform([["nobody", "knows"], []]).any()


def test_the_same_seed_gives_the_same_vectors(vectors: WordVectors, sentences: list[list[str]]) -> None:
    first, again = (FisherVectors(vectors, components=3, seed=4).fit(sentences).transform(sentences) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_what_was_saved_transforms_identically(
    vectors: WordVectors, sentences: list[list[str]], tmp_path: Path
) -> None:
    features = FisherVectors(vectors, components=3, count="tokens").fit(sentences)
    features.save(tmp_path / "saved")
    for loaded in (FisherVectors.load(tmp_path / "saved"), load_features(tmp_path / "saved")):
        np.testing.assert_array_equal(loaded.transform(sentences), features.transform(sentences))


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


def test_a_weight_equals_copies() -> None:
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


def test_ica_before_fit_is_an_error() -> None:
    with pytest.raises(DeixisError, match="ICA has not been fitted"):
        ICA().transform(np.zeros((1, 3), dtype=np.float32))
