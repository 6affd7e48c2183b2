"""PCA of text features, and the loader of saved text features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.language.features.base import (
    MeanVector,
    TextFeatures,
    TfIdf,
    fitted,
    settings_of,
    stack_chunks,
    transform_in_chunks,
)
from deixis.language.features.fisher import COMPONENTS, FisherVectors
from deixis.language.vectors import WordVectors
from deixis.storage.artifacts import Artifact, damaged, read_artifact
from deixis.tokens import Text

MAX_EXACT_DIMENSION = 4000

HGLMM_DIMENSION = 6000
"""Dimension of HGLMM Fisher vectors after PCA in the papers."""


@dataclass(eq=False)
class PCA:
    """Principal component analysis of data that comes in chunks.

    High dimensions use a randomized method with `steps` power iterations; `exact` overrides the choice. Components are
    orthonormal rows, sorted by descending variance.
    """

    dimension: int
    steps: int = 2
    exact: bool | None = None
    seed: int = 0
    mean_: Floats | None = field(default=None, init=False)
    components_: Floats | None = field(default=None, init=False)
    variances_: Floats | None = field(default=None, init=False)
    total_variance_: float = field(default=0.0, init=False)

    def fit(self, chunks: Iterable[Floats]) -> Self:
        """Fit to rows that come in chunks, in one pass."""
        count, mean, covariance = _covariance(chunks)
        size = len(mean)
        if self.dimension > min(count - 1, size):
            raise DeixisError(
                f"PCA: {self.dimension:,} components are too many for {count:,} rows of dimension {size:,}; "
                f"use at most {min(count - 1, size):,}, more training texts, or other text features"
            )
        self.total_variance_ = float(np.trace(covariance, dtype=np.float64))
        exact = size <= MAX_EXACT_DIMENSION if self.exact is None else self.exact
        variances, directions = (
            _eigh(covariance, [size - self.dimension, size - 1]) if exact else self._random(covariance)
        )
        self.mean_ = mean
        self.variances_ = variances[::-1]
        self.components_ = _fix_signs(np.ascontiguousarray(directions.T[::-1]))
        return self

    def _random(self, covariance: Floats) -> tuple[Floats, Floats]:
        """Eigenvalues and eigenvectors by randomized subspace iteration."""
        from scipy import linalg

        start = np.random.default_rng(self.seed).standard_normal((self.dimension, len(covariance)), dtype=np.float32)
        basis = start.T
        for _ in range(self.steps):
            basis = linalg.qr(_times(covariance, basis), mode="economic", overwrite_a=True, check_finite=False)[0]
        within = linalg.blas.sgemm(1.0, basis, _times(covariance, basis), trans_a=True)
        variances, turn = _eigh(within, None)
        return variances, linalg.blas.sgemm(1.0, basis, turn)

    def transform(self, rows: Floats) -> Floats:
        reduced = (rows - fitted(self.mean_, self)) @ fitted(self.components_, self).T
        return np.asarray(reduced, dtype=np.float32)

    def to_artifact(self) -> Artifact:
        learned = {
            "mean": fitted(self.mean_, self),
            "components": fitted(self.components_, self),
            "variances": fitted(self.variances_, self),
            "total_variance": np.array(self.total_variance_),
        }
        return Artifact("pca", settings_of(self), learned)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        pca = cls(**artifact.settings)
        arrays = artifact.arrays
        pca.mean_, pca.components_ = np.asarray(arrays["mean"]), arrays["components"]
        pca.variances_, pca.total_variance_ = np.asarray(arrays["variances"]), float(arrays["total_variance"])
        if pca.components_.shape != (pca.dimension, len(pca.mean_)):
            raise ValueError(f"components of shape {pca.components_.shape} for {len(pca.mean_)} dimensions")
        return pca


def _covariance(chunks: Iterable[Floats]) -> tuple[int, Floats, Floats]:
    """The number of rows, their mean, and the upper triangle of their covariance."""
    from scipy import linalg

    count, shift = 0, np.zeros(0, dtype=np.float32)
    total, products = np.zeros(0), np.zeros((0, 0), dtype=np.float32)
    for chunk in chunks:
        if count == 0:
            # Any shift gives the same covariance; a shift near the mean preserves float32 precision.
            shift = chunk.mean(axis=0, dtype=np.float64).astype(np.float32)
            total = np.zeros(len(shift))
            products = np.zeros((len(shift), len(shift)), dtype=np.float32, order="F")
        shifted = chunk - shift
        products = linalg.blas.ssyrk(1.0, shifted.T, beta=1.0, c=products, overwrite_c=True)
        total += shifted.sum(axis=0, dtype=np.float64)
        count += len(chunk)
    if count == 0:
        raise DeixisError("PCA: no rows to fit")
    away = np.asarray(total / count, dtype=np.float32)
    products = linalg.blas.ssyr(-float(count), away, a=products, overwrite_a=True)
    products /= np.float32(count)
    return count, shift + away, products


def _times(covariance: Floats, basis: Floats) -> Floats:
    from scipy import linalg

    product: Floats = linalg.blas.ssymm(1.0, covariance, basis)
    return product


def _eigh(symmetric: Floats, subset: list[int] | None) -> tuple[Floats, Floats]:
    """Ascending eigenvalues and eigenvectors of the upper triangle of `symmetric`, which is overwritten."""
    from scipy import linalg

    values: Floats
    vectors: Floats
    values, vectors = linalg.eigh(
        symmetric, lower=False, subset_by_index=subset, driver="evr", overwrite_a=True, check_finite=False
    )
    return values, vectors


def _fix_signs(components: Floats) -> Floats:
    """Make the largest element of each component positive, because the sign of eigenvectors is arbitrary."""
    largest = np.argmax(np.abs(components), axis=1)
    signs: NDArray[np.float32] = np.sign(components[np.arange(len(components)), largest])
    components *= signs[:, None]
    return components


class Reduced(TextFeatures):
    """Other text features, fitted together with PCA and reduced by it.

    `max_dimension` is reached only with more sentences and more features than that.
    """

    KIND = "reduced"

    def __init__(self, features: TextFeatures, max_dimension: int, *, seed: int = 0) -> None:
        self.features = features
        self.max_dimension = max_dimension
        self.seed = seed
        self.pca_ = PCA(max_dimension, seed=seed)

    @property
    def dimension(self) -> int:
        return self.pca_.dimension

    def fit(self, sentences: Sequence[Text]) -> Self:
        """Fit the features, then PCA to the features of the same sentences."""
        self.features.fit(sentences)
        dimension = max(min(self.max_dimension, len(sentences) - 1, self.features.dimension), 1)
        self.pca_ = PCA(dimension, seed=self.seed).fit(transform_in_chunks(self.features, sentences))
        return self

    def transform(self, sentences: Sequence[Text]) -> Floats:
        reduced = (self.pca_.transform(rows) for rows in transform_in_chunks(self.features, sentences))
        return stack_chunks(reduced, (len(sentences), self.dimension))

    def to_artifact(self) -> Artifact:
        settings = {"dimension": self.dimension, "seed": self.seed}
        return Artifact(
            self.KIND, settings, parts={"features": self.features.to_artifact(), "pca": self.pca_.to_artifact()}
        )

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        inner = features_from_artifact(artifact.parts["features"])
        features = cls(inner, artifact.settings["dimension"], seed=artifact.settings["seed"])
        features.pca_ = PCA.from_artifact(artifact.parts["pca"])
        learned = fitted(features.pca_.components_, features.pca_).shape
        if learned != (features.dimension, inner.dimension):
            raise ValueError(f"PCA of shape {learned} does not fit features of {inner.dimension}")
        return features


def hglmm_features(vectors: WordVectors, dimension: int = HGLMM_DIMENSION, components: int = COMPONENTS) -> Reduced:
    """Text features of the two-branch networks (T6): ICA, HGLMM, Fisher vectors of 18,000, PCA to 6,000."""
    return Reduced(FisherVectors(vectors, components=components), dimension)


_FROM_ARTIFACT: dict[str, Callable[[Artifact], TextFeatures]] = {
    MeanVector.KIND: MeanVector.from_artifact,
    TfIdf.KIND: TfIdf.from_artifact,
    FisherVectors.KIND: FisherVectors.from_artifact,
    Reduced.KIND: Reduced.from_artifact,
}


def load_features(folder: str | PathLike[str]) -> TextFeatures:
    """Read saved text features of any kind."""
    artifact = read_artifact(folder, mapped=True)
    with damaged(Path(folder)):
        return features_from_artifact(artifact)


def features_from_artifact(artifact: Artifact) -> TextFeatures:
    """Build any text features from the content that their `to_artifact` gave."""
    return _FROM_ARTIFACT[artifact.kind](artifact)
