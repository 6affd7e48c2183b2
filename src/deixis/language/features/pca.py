"""Principal components of data that comes in chunks, in float32.

The covariance is gathered chunk by chunk: d² numbers, whatever the number of rows. Up to `EXACT` dimensions its
eigenvectors are computed as they are. Beyond, that would take too long, and a random start is multiplied with the
covariance a few times instead (Halko, Martinsson and Tropp, 2011). Either way the components are orthonormal,
uncorrelated on the data, and the variance they leave out is exactly the total less theirs; the random way leaves out a
little more than the least possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from deixis.errors import DeixisError
from deixis.language.features.base import Floats, fitted
from deixis.language.saved import Saved

EXACT = 4000


class PCA:
    """Principal component analysis.

    Parameters
    ----------
    dimension
        Components to keep.
    steps
        Of the random way: more steps come nearer to the exact answer.
    exact
        Whether to take the exact way; None decides by the number of dimensions.
    seed
        Of the random start.

    Attributes
    ----------
    mean_ : array of float32, (d,)
    components_ : array of float32, (dimension, d)
        Orthonormal rows, those with most variance first.
    variances_ : array of float32, (dimension,)
        Of the data along each component.
    total_variance_ : float
        Of the data along all directions.

    Examples
    --------
    >>> line = np.arange(6, dtype=np.float32)[:, None] * np.array([[3, 4]], dtype=np.float32)
    >>> PCA(1).fit([line[:3], line[3:]]).components_.round(3)
    array([[0.6, 0.8]], dtype=float32)
    """

    def __init__(self, dimension: int, *, steps: int = 2, exact: bool | None = None, seed: int = 0) -> None:
        self.dimension = dimension
        self.steps = steps
        self.exact = exact
        self.seed = seed
        self.mean_: Floats | None = None
        self.components_: Floats | None = None
        self.variances_: Floats | None = None
        self.total_variance_ = 0.0

    def fit(self, chunks: Iterable[Floats]) -> Self:
        """Learn from rows that come in chunks, each seen once."""
        count, mean, covariance = _covariance(chunks)
        size = len(mean)
        if self.dimension > min(count - 1, size):
            raise DeixisError(
                f"PCA: {self.dimension:,} components cannot be had from {count:,} rows of {size:,} numbers; "
                f"ask for at most {min(count - 1, size):,}, learn from more texts, or take other text features"
            )
        self.total_variance_ = float(np.trace(covariance, dtype=np.float64))
        exact = size <= EXACT if self.exact is None else self.exact
        variances, directions = self._exact(covariance) if exact else self._random(covariance)
        self.mean_ = mean
        self.variances_ = variances[::-1]
        self.components_ = _same_signs(np.ascontiguousarray(directions.T[::-1]))
        return self

    def _exact(self, covariance: Floats) -> tuple[Floats, Floats]:
        size = len(covariance)
        return _eigh(covariance, [size - self.dimension, size - 1])

    def _random(self, covariance: Floats) -> tuple[Floats, Floats]:
        """Eigenvalues and eigenvectors of the covariance within a subspace that holds most of the variance."""
        start = np.random.default_rng(self.seed).standard_normal((self.dimension, len(covariance)), dtype=np.float32)
        basis = start.T
        for _ in range(self.steps):
            basis = _orthonormal(_times(covariance, basis))
        within = linalg.blas.sgemm(1.0, basis, _times(covariance, basis), trans_a=True)
        variances, turn = _eigh(within, None)
        return variances, linalg.blas.sgemm(1.0, basis, turn)

    def transform(self, rows: Floats) -> Floats:
        """The components of each row."""
        reduced = (rows - fitted(self.mean_, self)) @ fitted(self.components_, self).T
        return np.asarray(reduced, dtype=np.float32)

    def restore(self, reduced: Floats) -> Floats:
        """The rows that `transform` made these of, less what was left out."""
        rows = reduced @ fitted(self.components_, self) + fitted(self.mean_, self)
        return np.asarray(rows, dtype=np.float32)

    def saved(self) -> Saved:
        """What is to be kept."""
        settings = {"dimension": self.dimension, "steps": self.steps, "exact": self.exact, "seed": self.seed}
        learned = {
            "mean": fitted(self.mean_, self),
            "components": fitted(self.components_, self),
            "variances": fitted(self.variances_, self),
            "total_variance": np.array(self.total_variance_),
        }
        return Saved("pca", settings, learned)

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave; the components stay on disk until used."""
        settings = dict(saved.settings)
        pca = cls(settings.pop("dimension"), **settings)
        pca.mean_, pca.components_ = np.asarray(saved.arrays["mean"]), saved.arrays["components"]
        pca.variances_, pca.total_variance_ = (
            np.asarray(saved.arrays["variances"]),
            float(saved.arrays["total_variance"]),
        )
        if pca.components_.shape != (pca.dimension, len(pca.mean_)):
            raise ValueError(f"components of shape {pca.components_.shape} for {len(pca.mean_)} dimensions")
        return pca


def _covariance(chunks: Iterable[Floats]) -> tuple[int, Floats, Floats]:
    """The number of rows, their mean, and the upper triangle of their covariance."""
    count, shift = 0, np.zeros(0, dtype=np.float32)
    total, products = np.zeros(0), np.zeros((0, 0), dtype=np.float32)
    for chunk in chunks:
        if count == 0:
            # Any shift gives the same covariance; one near the mean keeps float32 from losing digits.
            shift = chunk.mean(axis=0, dtype=np.float64).astype(np.float32)
            total = np.zeros(len(shift))
            products = np.zeros((len(shift), len(shift)), dtype=np.float32, order="F")
        shifted = chunk - shift
        products = linalg.blas.ssyrk(1.0, shifted.T, beta=1.0, c=products, overwrite_c=True)
        total += shifted.sum(axis=0, dtype=np.float64)
        count += len(chunk)
    if count == 0:
        raise DeixisError("PCA: no rows to learn from")
    away = np.asarray(total / count, dtype=np.float32)
    products = linalg.blas.ssyr(-float(count), away, a=products, overwrite_a=True)
    products /= np.float32(count)
    return count, shift + away, products


def _times(covariance: Floats, basis: Floats) -> Floats:
    product: Floats = linalg.blas.ssymm(1.0, covariance, basis)
    return product


def _orthonormal(columns: Floats) -> Floats:
    basis: Floats = linalg.qr(columns, mode="economic", overwrite_a=True, check_finite=False)[0]
    return basis


def _eigh(symmetric: Floats, subset: list[int] | None) -> tuple[Floats, Floats]:
    """Eigenvalues, smallest first, and eigenvectors; `symmetric` is lost. Only its upper triangle is read."""
    values: Floats
    vectors: Floats
    values, vectors = linalg.eigh(
        symmetric, lower=False, subset_by_index=subset, driver="evr", overwrite_a=True, check_finite=False
    )
    return values, vectors


def _same_signs(components: Floats) -> Floats:
    """Make the largest number of each component positive: eigenvectors have no sign of their own."""
    largest = np.argmax(np.abs(components), axis=1)
    signs: NDArray[np.float32] = np.sign(components[np.arange(len(components)), largest])
    components *= signs[:, None]
    return components
