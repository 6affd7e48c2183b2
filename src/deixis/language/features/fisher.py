"""Fisher vectors of sentences: ICA of word vectors, mixtures fitted by EM, and gradients of their likelihood.

A Fisher vector is the gradient of the mean log-likelihood of the words of a sentence with respect to the locations and
the scales of a mixture, each divided by the square root of its Fisher information (Perronnin, Sánchez and Mensink, ECCV
2010; for Laplacians Klein et al., CVPR 2015). With z = (x − location) / scale, posterior γ and weight λ, a word x adds

=========  ================  ========================
dimension  location          scale
=========  ================  ========================
Gaussian   γ z / √λ          γ (z² − 1) / √(2 λ)
Laplacian  γ sign(z) / √λ    γ (abs(z) − 1) / √λ
=========  ================  ========================

Mixtures are of Gaussians, of Laplacians, or of both. The hybrid mixture (HGLMM) is that of Klein, Lev, Sadeh and Wolf,
*Associating Neural Word Embeddings with Deep Image Representations using Fisher Vectors* (CVPR 2015): every dimension
of every component is a Gaussian or a Laplacian, whichever has the higher likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import FloatArray, Floats, to_unit_length
from deixis.errors import DeixisError
from deixis.language.features.base import (
    TextFeatures,
    WordMeans,
    chunks_of,
    fitted,
    settings_of,
    stack_chunks,
    token_counts,
)
from deixis.language.vectors import WordVectors
from deixis.storage.artifacts import Artifact
from deixis.tokens import Text

Family = Literal["gaussian", "laplacian", "hybrid"]
CountedBy = Literal["words", "tokens"]

COMPONENTS = 30
"""Number of components of a mixture in the papers."""

FAMILIES: tuple[Family, ...] = ("gaussian", "laplacian", "hybrid")

MEDIAN_TOLERANCE = 1e-4
"""Within this many deviations of the median of a Laplacian the sign is 0. The median is the value of one word, and
rounding must not decide its sign."""

_TINY = 1e-8
_NEGLIGIBLE = 1e-10
_KMEANS_STEPS = 20
_ICA_ROWS_PER_BATCH = 8192
_MIXTURE_ROWS_PER_BATCH = 1024


@dataclass(eq=False)
class ICA:
    """Symmetric FastICA with the contrast log cosh (Hyvärinen, 1999)."""

    iterations: int = 200
    tolerance: float = 1e-4
    seed: int = 0
    mean_: Floats | None = field(default=None, init=False)
    unmixing_: Floats | None = field(default=None, init=False)
    iterations_: int = field(default=0, init=False)

    def fit(self, vectors: Floats, weights: FloatArray | None = None) -> Self:
        """Fit to the rows of `vectors` with weights; directions without variance are dropped."""
        shares = np.full(len(vectors), 1 / len(vectors)) if weights is None else weights / weights.sum()
        mean = shares @ vectors
        centred = vectors - mean
        variances, directions = np.linalg.eigh((centred * shares[:, None]).T @ centred)
        kept = variances > _TINY * variances[-1]
        whitening = (directions[:, kept] / np.sqrt(variances[kept])).T
        rotation = self._rotate((centred @ whitening.T).astype(np.float32), shares.astype(np.float32))
        self.mean_ = mean.astype(np.float32)
        self.unmixing_ = (rotation @ whitening).astype(np.float32)
        return self

    def _rotate(self, white: Floats, shares: Floats) -> FloatArray:
        """The rotation of whitened vectors that makes them least Gaussian."""
        size = white.shape[1]
        rotation = _orthogonal(np.random.default_rng(self.seed).normal(size=(size, size)))
        self.iterations_ = 0
        while self.iterations_ < self.iterations:
            self.iterations_ += 1
            improved = _orthogonal(_fixed_point(white, shares, rotation))
            change = np.max(1 - np.abs(np.einsum("ij,ij->i", improved, rotation)))
            rotation = improved
            if change < self.tolerance:
                break
        return rotation

    def transform(self, vectors: Floats) -> Floats:
        components = (vectors - fitted(self.mean_, self)) @ fitted(self.unmixing_, self).T
        return np.asarray(components, dtype=np.float32)

    def to_artifact(self) -> Artifact:
        learned = {"mean": fitted(self.mean_, self), "unmixing": fitted(self.unmixing_, self)}
        return Artifact("ica", settings_of(self), learned)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        ica = cls(**artifact.settings)
        ica.mean_, ica.unmixing_ = np.asarray(artifact.arrays["mean"]), np.asarray(artifact.arrays["unmixing"])
        if ica.unmixing_.shape[1:] != ica.mean_.shape:
            raise ValueError(f"components of shape {ica.unmixing_.shape} do not fit a mean of {ica.mean_.shape}")
        return ica


def _fixed_point(white: Floats, shares: Floats, rotation: FloatArray) -> FloatArray:
    """One step of FastICA: E[x g(w·x)] − E[g'(w·x)] w for every component w, with g = tanh."""
    transposed = rotation.astype(np.float32).T
    expectation = np.zeros_like(rotation)
    slopes = np.zeros(len(rotation))
    for start in range(0, len(white), _ICA_ROWS_PER_BATCH):
        part, share = white[start : start + _ICA_ROWS_PER_BATCH], shares[start : start + _ICA_ROWS_PER_BATCH]
        activation = np.tanh(part @ transposed)
        expectation += (activation * share[:, None]).T @ part
        slopes += share @ (1 - activation * activation)
    return expectation - slopes[:, None] * rotation


def _orthogonal(matrix: FloatArray) -> FloatArray:
    """The nearest orthogonal matrix."""
    squared, directions = np.linalg.eigh(matrix @ matrix.T)
    nearest: FloatArray = (directions / np.sqrt(np.maximum(squared, _TINY * squared[-1]))) @ directions.T @ matrix
    return nearest


def cluster(vectors: Floats, shares: FloatArray, clusters: int, seed: int) -> NDArray[np.intp]:
    """Assign vectors to clusters by weighted k-means; no cluster is empty if the vectors differ."""
    centres = _initial_centres(vectors, shares, clusters, np.random.default_rng(seed))
    nearest = _nearest(vectors, centres)
    for _ in range(_KMEANS_STEPS):
        belongs = np.zeros((len(vectors), clusters))
        belongs[np.arange(len(vectors)), nearest] = shares
        totals = belongs.sum(axis=0)
        kept = totals > 0
        centres[kept] = (belongs.T @ vectors)[kept] / totals[kept, None]
        previous, nearest = nearest, _nearest(vectors, centres)
        if np.array_equal(previous, nearest):
            break
    return nearest


def _initial_centres(vectors: Floats, shares: FloatArray, clusters: int, rng: np.random.Generator) -> FloatArray:
    """Initial centres of k-means++."""
    chosen = [int(rng.choice(len(vectors), p=shares))]
    distances = _squared(vectors, vectors[chosen[0]])
    while len(chosen) < clusters:
        mass = shares * distances
        mass = mass if mass.sum() > 0 else shares
        chosen.append(int(rng.choice(len(vectors), p=mass / mass.sum())))
        distances = np.minimum(distances, _squared(vectors, vectors[chosen[-1]]))
    return vectors[chosen].astype(np.float64)


def _squared(vectors: Floats, centre: Floats) -> FloatArray:
    away = vectors - centre
    distances: FloatArray = np.einsum("ij,ij->i", away, away, dtype=np.float64)
    return distances


def _nearest(vectors: Floats, centres: FloatArray) -> NDArray[np.intp]:
    # |x − c|² without |x|², which is the same for every centre.
    nearest: NDArray[np.intp] = np.argmin(np.sum(centres**2, axis=1) - 2 * (vectors @ centres.T), axis=1)
    return nearest


@dataclass(frozen=True)
class Components:
    """The parameters of a mixture of K components in D dimensions."""

    weights: Floats  # (K,)
    locations: Floats  # (K, D) means of Gaussians, medians of Laplacians
    scales: Floats  # (K, D) standard deviations of Gaussians, mean absolute deviations of Laplacians
    laplacian: NDArray[np.bool_]  # (K, D)

    def log_joint(self, vectors: Floats) -> FloatArray:
        """Return the log of weight times density, for each vector and component."""
        logs = np.empty((len(vectors), len(self.weights)))
        constants = np.log(self.weights) - np.sum(
            np.log(self.scales) + np.where(self.laplacian, np.log(2), np.log(2 * np.pi) / 2), axis=1, dtype=np.float64
        )
        for start in range(0, len(vectors), _MIXTURE_ROWS_PER_BATCH):
            part = vectors[start : start + _MIXTURE_ROWS_PER_BATCH]
            for k, constant in enumerate(constants):
                away = np.abs(part - self.locations[k])
                away /= self.scales[k]
                laplacian = self.laplacian[k].astype(np.float32)
                logs[start : start + _MIXTURE_ROWS_PER_BATCH, k] = constant - away @ laplacian
                away *= away
                logs[start : start + _MIXTURE_ROWS_PER_BATCH, k] -= away @ ((1 - laplacian) / 2)
        return logs


@dataclass(eq=False)
class Mixture:
    """A mixture of products of one-dimensional Gaussians and Laplacians.

    EM stops after `iterations` steps, or when the mean log-likelihood rises by less than `tolerance`. No scale is below
    `smallest_scale` times the deviation of the dimension over all data, so that no component collapses.
    """

    components: int = COMPONENTS
    family: Family = "hybrid"
    iterations: int = 100
    tolerance: float = 0.01
    smallest_scale: float = 0.01
    seed: int = 0
    components_: Components | None = field(default=None, init=False)
    log_likelihoods_: list[float] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise DeixisError(f"mixture: family {self.family!r} does not exist; choose {', '.join(FAMILIES)}")

    def fit(self, vectors: Floats, weights: FloatArray | None = None, like: Floats | None = None) -> Self:
        """Fit to the rows of `vectors` with weights.

        The initial components are clusters of `like` if passed: other vectors of the same objects.
        """
        if len(vectors) < self.components:
            raise DeixisError(
                f"mixture: {self.components} components need as many distinct words; there are {len(vectors)}"
            )
        shares = np.full(len(vectors), 1 / len(vectors)) if weights is None else weights / weights.sum()
        overall = np.sqrt(np.maximum(shares @ (vectors - shares @ vectors) ** 2, np.finfo(np.float32).tiny))
        smallest = self.smallest_scale * overall
        belongs = np.eye(self.components)[
            cluster(vectors if like is None else like, shares, self.components, self.seed)
        ]
        learned = self._maximize(vectors, belongs * shares[:, None], smallest, None)
        self.log_likelihoods_ = []
        for _ in range(self.iterations + 1):
            likelihoods, posteriors = _expect(learned, vectors)
            self.components_ = learned
            self.log_likelihoods_.append(float(shares @ likelihoods))
            if len(self.log_likelihoods_) > 1 and np.diff(self.log_likelihoods_)[-1] < self.tolerance:
                break
            learned = self._maximize(vectors, posteriors * shares[:, None], smallest, learned)
        return self

    def _maximize(
        self, vectors: Floats, mass: FloatArray, smallest: FloatArray, previous: Components | None
    ) -> Components:
        """The M step, where `mass` is the weight of each vector in each component."""
        totals = mass.sum(axis=0)
        fits = []
        for k, total in enumerate(totals):
            heavy = mass[:, k] > _NEGLIGIBLE * total
            if not heavy.any() and previous is not None:
                fits.append((previous.locations[k], previous.scales[k], previous.laplacian[k]))
            else:
                fits.append(self._fit_one(vectors[heavy].astype(np.float64), mass[heavy, k], smallest))
        locations, scales, laplacian = (np.stack(column) for column in zip(*fits, strict=True))
        weights = np.maximum(totals / totals.sum(), np.finfo(np.float32).tiny)
        return Components(
            weights.astype(np.float32), locations.astype(np.float32), scales.astype(np.float32), laplacian
        )

    def _fit_one(
        self, vectors: FloatArray, mass: FloatArray, smallest: FloatArray
    ) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        """Locations, scales and the mask of Laplacian dimensions of one component."""
        shares = mass / mass.sum()
        mean = shares @ vectors
        variance = shares @ (vectors - mean) ** 2
        deviation = np.maximum(np.sqrt(variance), smallest)
        if self.family == "gaussian":
            return mean, deviation, np.zeros(len(mean), dtype=bool)
        median = weighted_medians(vectors, shares)
        distance = shares @ np.abs(vectors - median)
        spread = np.maximum(distance, smallest)
        as_gaussian = -np.log(deviation) - np.log(2 * np.pi) / 2 - variance / (2 * deviation**2)
        as_laplacian = -np.log(2 * spread) - distance / spread
        laplacian = np.ones(len(mean), dtype=bool) if self.family == "laplacian" else as_laplacian > as_gaussian
        return np.where(laplacian, median, mean), np.where(laplacian, spread, deviation), laplacian

    def posteriors(self, vectors: Floats) -> Floats:
        """Return the probability of each component for each vector; rows sum to 1."""
        return _expect(fitted(self.components_, self), vectors)[1].astype(np.float32)

    def to_artifact(self) -> Artifact:
        return Artifact("mixture", settings_of(self), dict(vars(fitted(self.components_, self))))

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        mixture = cls(**artifact.settings)
        learned = Components(**{name: np.asarray(array) for name, array in artifact.arrays.items()})
        shape = (mixture.components, *learned.locations.shape[1:])
        if not learned.locations.shape == learned.scales.shape == learned.laplacian.shape == shape:
            raise ValueError("the parameters of the mixture have different shapes")
        mixture.components_ = learned
        return mixture


def _expect(components: Components, vectors: Floats) -> tuple[FloatArray, FloatArray]:
    """The log-likelihood of each vector, and the posterior of each component (E step)."""
    logs = components.log_joint(vectors)
    highest = logs.max(axis=1, keepdims=True)
    likelihoods = highest + np.log(np.exp(logs - highest).sum(axis=1, keepdims=True))
    return likelihoods[:, 0], np.exp(logs - likelihoods)


def weighted_medians(vectors: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the lower weighted median of each column: the first value at which half the weight is reached."""
    order = np.argsort(vectors, axis=0, kind="stable")
    reached = np.cumsum(shares[order], axis=0)
    middle = np.argmax(reached >= reached[-1] / 2, axis=0)
    columns = np.arange(vectors.shape[1])
    medians: FloatArray = vectors[order[middle, columns], columns]
    return medians


@dataclass(eq=False, repr=False)
class FisherVectors(TextFeatures):
    """Fisher vectors of sentences over a mixture fitted to word vectors.

    Parameters
    ----------
    vectors
        Word vectors.
    components, family
        Settings of the mixture. If the sentences have fewer distinct known words, it has as many components.
    ica
        Apply `ICA` to the word vectors first.
    scales
        Include the gradient with respect to the scales: K · D · 2 numbers instead of K · D.
    count
        Weights for fitting the mixture and ICA: ``words`` counts each distinct word once, ``tokens`` each occurrence.
    normalized
        Apply signed square root and normalize to unit length.
    seed
        Random seed of ICA and the mixture.
    """

    KIND: ClassVar[str] = "fisher-vectors"

    vectors: WordVectors
    components: int = COMPONENTS
    family: Family = "hybrid"
    ica: bool = True
    scales: bool = True
    count: CountedBy = "words"
    normalized: bool = True
    seed: int = 0
    ica_: ICA | None = field(default=None, init=False)
    mixture_: Mixture | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.count not in ("words", "tokens"):
            raise DeixisError(f"Fisher vectors: count must be 'words' or 'tokens', not {self.count!r}")

    @property
    def dimension(self) -> int:
        """Number of components times the dimension of the word vectors, doubled with scales."""
        return self._components.locations.size * (2 if self.scales else 1)

    @property
    def _components(self) -> Components:
        return fitted(fitted(self.mixture_, self).components_, self)

    def fit(self, sentences: Sequence[Text]) -> Self:
        """Fit ICA and the mixture to the known words of the sentences."""
        rows, counts = token_counts(sentences, self.vectors)
        if not len(rows):
            raise DeixisError(f"Fisher vectors: none of the words of {len(sentences):,} sentences has a vector")
        weights = counts.astype(np.float64) if self.count == "tokens" else np.ones(len(rows))
        word_vectors = self.vectors.take(rows)
        self.ica_ = ICA(seed=self.seed).fit(word_vectors, weights) if self.ica else None
        points = self.ica_.transform(word_vectors) if self.ica_ else word_vectors
        # Clusters of raw or ICA vectors are mostly single rare words; clusters of directions are not.
        directions = to_unit_length(word_vectors.copy())
        components = min(self.components, len(rows))
        self.mixture_ = Mixture(components, self.family, seed=self.seed).fit(points, weights, like=directions)
        return self

    def transform(self, sentences: Sequence[Text]) -> Floats:
        """Return one Fisher vector per sentence; zeros if no word is known.

        The location part comes first, component by component, then the scale part in the same order.
        """
        return stack_chunks(map(self._transform_chunk, chunks_of(sentences)), (len(sentences), self.dimension))

    def _transform_chunk(self, sentences: Sequence[Text]) -> Floats:
        learned = self._components
        rows = np.empty((len(sentences), self.dimension), dtype=np.float32)
        means = WordMeans.of(sentences, self.vectors)
        points = self.vectors.take(means.rows)
        points = self.ica_.transform(points) if self.ica_ else points
        posteriors = fitted(self.mixture_, self).posteriors(points)
        width = points.shape[1]
        for k in range(len(learned.weights)):
            location, scale = gradients(learned, k, points, posteriors[:, k])
            rows[:, k * width : (k + 1) * width] = means(location)
            if self.scales:
                start = learned.locations.size + k * width
                rows[:, start : start + width] = means(scale)
        if self.normalized:
            signs = np.signbit(rows)
            np.sqrt(np.abs(rows, out=rows), out=rows)
            np.negative(rows, out=rows, where=signs)
            to_unit_length(rows)
        return rows

    def to_artifact(self) -> Artifact:
        parts = {"vectors": self.vectors.to_artifact(), "mixture": fitted(self.mixture_, self).to_artifact()}
        if self.ica_ is not None:
            parts["ica"] = self.ica_.to_artifact()
        return Artifact(self.KIND, settings_of(self), parts=parts)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        features = cls(WordVectors.from_artifact(artifact.parts["vectors"]), **artifact.settings)
        features.mixture_ = Mixture.from_artifact(artifact.parts["mixture"])
        features.ica_ = ICA.from_artifact(artifact.parts["ica"]) if features.ica else None
        words, mixed = features.vectors.dimension, features._components.locations.shape[1]
        unmixing = fitted(features.ica_.unmixing_, features).shape if features.ica_ else (words, words)
        if unmixing != (mixed, words):
            raise ValueError(f"word vectors of {words}, ICA and a mixture of {mixed} do not match")
        return features


def gmm_fisher_vectors(vectors: WordVectors, components: int = COMPONENTS) -> FisherVectors:
    """Text features of Flickr30k Entities (E9): gradients of the means of 30 Gaussians, 300 × 30 = 9,000."""
    return FisherVectors(vectors, components=components, family="gaussian", ica=False, scales=False)


def gradients(learned: Components, k: int, points: Floats, posteriors: Floats) -> tuple[Floats, Floats]:
    """Return the gradients of points (n, D) with respect to location and scale of component k; see the module."""
    z = (points - learned.locations[k]) / learned.scales[k]
    distance = np.abs(z)
    laplacian = learned.laplacian[k]
    factors = (posteriors / np.sqrt(learned.weights[k]))[:, None]
    signs = np.where(distance > MEDIAN_TOLERANCE, np.sign(z), np.float32(0))
    location = np.where(laplacian, signs, z) * factors
    scale = np.where(laplacian, distance - 1, (distance**2 - 1) / np.sqrt(np.float32(2))) * factors
    return location, scale
