"""Fisher vectors of sentences, and the ICA of their word vectors.

A Fisher vector is the gradient of the mean log-likelihood of the words of a sentence with respect to the locations and
the scales of a mixture, each divided by the square root of its Fisher information (Perronnin, Sánchez and Mensink, ECCV
2010; for Laplacians Klein et al., CVPR 2015). With z = (x − location) / scale, posterior γ and weight λ, a word x adds

=========  ================  ========================
dimension  location          scale
=========  ================  ========================
Gaussian   γ z / √λ          γ (z² − 1) / √(2 λ)
Laplacian  γ sign(z) / √λ    γ (abs(z) − 1) / √λ
=========  ================  ========================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats, to_unit_length
from deixis.errors import DeixisError
from deixis.language.features.base import Text, chunks_of, fitted, token_counts, word_shares
from deixis.language.features.mixtures import Components, Family, Mixture
from deixis.language.vectors import WordVectors
from deixis.storage.artifacts import Artifact, Storable

Weights = NDArray[np.float64]
_TINY = 1e-8
_ROWS_PER_BATCH = 8192


class ICA:
    """Symmetric FastICA with the contrast log cosh (Hyvärinen, 1999)."""

    def __init__(self, iterations: int = 200, tolerance: float = 1e-4, seed: int = 0) -> None:
        self.iterations = iterations
        self.tolerance = tolerance
        self.seed = seed
        self.mean_: Floats | None = None
        self.unmixing_: Floats | None = None
        self.iterations_ = 0

    def fit(self, vectors: Floats, weights: Weights | None = None) -> Self:
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

    def _rotate(self, white: Floats, shares: Floats) -> NDArray[np.float64]:
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
        """Return the components of each row."""
        components = (vectors - fitted(self.mean_, self)) @ fitted(self.unmixing_, self).T
        return np.asarray(components, dtype=np.float32)

    def to_artifact(self) -> Artifact:
        learned = {"mean": fitted(self.mean_, self), "unmixing": fitted(self.unmixing_, self)}
        settings = {"iterations": self.iterations, "tolerance": self.tolerance, "seed": self.seed}
        return Artifact("ica", settings, learned)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        ica = cls(**artifact.settings)
        ica.mean_, ica.unmixing_ = np.asarray(artifact.arrays["mean"]), np.asarray(artifact.arrays["unmixing"])
        if ica.unmixing_.shape[1:] != ica.mean_.shape:
            raise ValueError(f"components of shape {ica.unmixing_.shape} do not fit a mean of {ica.mean_.shape}")
        return ica


def _fixed_point(white: Floats, shares: Floats, rotation: NDArray[np.float64]) -> NDArray[np.float64]:
    """One step of FastICA: E[x g(w·x)] − E[g'(w·x)] w for every component w, with g = tanh."""
    transposed = rotation.astype(np.float32).T
    expectation = np.zeros_like(rotation)
    slopes = np.zeros(len(rotation))
    for start in range(0, len(white), _ROWS_PER_BATCH):
        part, share = white[start : start + _ROWS_PER_BATCH], shares[start : start + _ROWS_PER_BATCH]
        activation = np.tanh(part @ transposed)
        expectation += (activation * share[:, None]).T @ part
        slopes += share @ (1 - activation * activation)
    return expectation - slopes[:, None] * rotation


def _orthogonal(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest orthogonal matrix."""
    squared, directions = np.linalg.eigh(matrix @ matrix.T)
    nearest: NDArray[np.float64] = (
        (directions / np.sqrt(np.maximum(squared, _TINY * squared[-1]))) @ directions.T @ matrix
    )
    return nearest


Count = Literal["words", "tokens"]

MEDIAN_TOLERANCE = 1e-4
"""Within this many deviations of the median of a Laplacian the sign is 0. The median is the value of one word, and
rounding must not decide its sign."""


class FisherVectors(Storable):
    """Fisher vectors of sentences over a mixture fitted to word vectors.

    Parameters
    ----------
    vectors
        Word vectors.
    components, family
        Settings of the mixture.
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

    KIND = "fisher-vectors"

    def __init__(
        self,
        vectors: WordVectors,
        *,
        components: int = 30,
        family: Family = "hybrid",
        ica: bool = True,
        scales: bool = True,
        count: Count = "words",
        normalized: bool = True,
        seed: int = 0,
    ) -> None:
        if count not in ("words", "tokens"):
            raise DeixisError(f"Fisher vectors: count must be 'words' or 'tokens', not {count!r}")
        self.vectors = vectors
        self.components = components
        self.family: Family = family
        self.ica = ica
        self.scales = scales
        self.count: Count = count
        self.normalized = normalized
        self.seed = seed
        self.ica_: ICA | None = None
        self.mixture_: Mixture | None = None

    @property
    def dimension(self) -> int:
        """Number of components times the dimension of the word vectors, doubled with scales."""
        learned = fitted(fitted(self.mixture_, self).components_, self)
        return learned.locations.size * (2 if self.scales else 1)

    def fit(self, sentences: Sequence[Text]) -> Self:
        """Fit ICA and the mixture to the known words of the sentences."""
        rows, counts = token_counts(sentences, self.vectors)
        if not len(rows):
            raise DeixisError(f"Fisher vectors: none of the words of {len(sentences):,} sentences has a vector")
        weights = counts.astype(np.float64) if self.count == "tokens" else np.ones(len(rows))
        word_vectors = np.asarray(self.vectors.matrix[rows])
        self.ica_ = ICA(seed=self.seed).fit(word_vectors, weights) if self.ica else None
        points = self.ica_.transform(word_vectors) if self.ica_ else word_vectors
        # Clusters of raw or ICA vectors are mostly single rare words; clusters of directions are not.
        directions = to_unit_length(word_vectors.copy())
        self.mixture_ = Mixture(self.components, self.family, seed=self.seed).fit(points, weights, like=directions)
        return self

    def transform(self, sentences: Sequence[Text]) -> Floats:
        """Return one Fisher vector per sentence; zeros if no word is known.

        The location part comes first, component by component, then the scale part in the same order.
        """
        rows = np.empty((len(sentences), self.dimension), dtype=np.float32)
        done = 0
        for chunk in chunks_of(sentences):
            self._fill(rows[done : done + len(chunk)], chunk)
            done += len(chunk)
        return rows

    def _fill(self, rows: Floats, sentences: Sequence[Text]) -> None:
        mixture = fitted(self.mixture_, self)
        learned = fitted(mixture.components_, self)
        used, shares = word_shares(sentences, self.vectors)
        points = np.asarray(self.vectors.matrix[used])
        points = self.ica_.transform(points) if self.ica_ else points
        posteriors = mixture.posteriors(points)
        width = points.shape[1]
        for k in range(len(learned.weights)):
            location, scale = gradients(learned, k, points, posteriors[:, k])
            rows[:, k * width : (k + 1) * width] = shares @ location
            if self.scales:
                start = learned.locations.size + k * width
                rows[:, start : start + width] = shares @ scale
        if self.normalized:
            signs = np.signbit(rows)
            np.sqrt(np.abs(rows, out=rows), out=rows)
            np.negative(rows, out=rows, where=signs)
            to_unit_length(rows)

    def to_artifact(self) -> Artifact:
        parts = {"vectors": self.vectors.to_artifact(), "mixture": fitted(self.mixture_, self).to_artifact()}
        if self.ica_ is not None:
            parts["ica"] = self.ica_.to_artifact()
        return Artifact(self.KIND, self._settings(), parts=parts)

    def _settings(self) -> dict[str, Any]:
        names = ("components", "family", "ica", "scales", "count", "normalized", "seed")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        features = cls(WordVectors.from_artifact(artifact.parts["vectors"]), **artifact.settings)
        features.mixture_ = Mixture.from_artifact(artifact.parts["mixture"])
        features.ica_ = ICA.from_artifact(artifact.parts["ica"]) if features.ica else None
        features._check()
        return features

    def _check(self) -> None:
        ica = fitted(self.ica_, self).to_artifact().arrays["unmixing"].shape if self.ica else None
        into, out = (ica[1], ica[0]) if ica else (self.vectors.dimension, self.vectors.dimension)
        mixed = fitted(fitted(self.mixture_, self).components_, self).locations.shape[1]
        if into != self.vectors.dimension or out != mixed:
            raise ValueError(f"word vectors of {self.vectors.dimension}, ICA and a mixture of {mixed} do not match")


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
