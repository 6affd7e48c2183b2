"""Independent component analysis: vectors turned so that their numbers depend on each other as little as possible."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from deixis.language.features.base import Floats, fitted
from deixis.language.saved import Saved

Weights = NDArray[np.float64]
_TINY = 1e-8
_ROWS = 8192


class ICA:
    """FastICA with the contrast log cosh, all components together (Hyvärinen, 1999).

    Parameters
    ----------
    iterations
        At most so many.
    tolerance
        Done when every component's direction changes by less than this: 1 − abs(cosine).
    seed
        Of the random start.

    Attributes
    ----------
    mean_, unmixing_ : arrays of float32
        The components of x are ``unmixing_ @ (x − mean_)``; they have mean 0, variance 1 and no correlation.
    iterations_ : int
        How many were needed.

    Examples
    --------
    >>> sources = np.random.default_rng(0).laplace(size=(2000, 2)).astype(np.float32)
    >>> mixed = sources @ np.array([[1, 0.5], [0.3, 1]], dtype=np.float32)
    >>> found = ICA().fit(mixed).transform(mixed)
    >>> bool(np.abs(np.corrcoef(found.T, sources.T)[:2, 2:]).max(axis=1).min() > 0.99)
    True
    """

    def __init__(self, iterations: int = 200, tolerance: float = 1e-4, seed: int = 0) -> None:
        self.iterations = iterations
        self.tolerance = tolerance
        self.seed = seed
        self.mean_: Floats | None = None
        self.unmixing_: Floats | None = None
        self.iterations_ = 0

    def fit(self, vectors: Floats, weights: Weights | None = None) -> Self:
        """Learn from vectors, one in each row, each counted `weights` times. Directions without variance go."""
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
        """The components of each row."""
        components = (vectors - fitted(self.mean_, self)) @ fitted(self.unmixing_, self).T
        return np.asarray(components, dtype=np.float32)

    def saved(self) -> Saved:
        """What is to be kept."""
        learned = {"mean": fitted(self.mean_, self), "unmixing": fitted(self.unmixing_, self)}
        settings = {"iterations": self.iterations, "tolerance": self.tolerance, "seed": self.seed}
        return Saved("ica", settings, learned)

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        ica = cls(**saved.settings)
        ica.mean_, ica.unmixing_ = np.asarray(saved.arrays["mean"]), np.asarray(saved.arrays["unmixing"])
        if ica.unmixing_.shape[1:] != ica.mean_.shape:
            raise ValueError(f"components of shape {ica.unmixing_.shape} do not fit a mean of {ica.mean_.shape}")
        return ica


def _fixed_point(white: Floats, shares: Floats, rotation: NDArray[np.float64]) -> NDArray[np.float64]:
    """One step of FastICA: E[x g(w·x)] − E[g'(w·x)] w for every component w, with g = tanh."""
    turned = rotation.astype(np.float32).T
    pulled = np.zeros_like(rotation)
    slopes = np.zeros(len(rotation))
    for start in range(0, len(white), _ROWS):
        part, share = white[start : start + _ROWS], shares[start : start + _ROWS]
        bent = np.tanh(part @ turned)
        pulled += (bent * share[:, None]).T @ part
        slopes += share @ (1 - bent * bent)
    return pulled - slopes[:, None] * rotation


def _orthogonal(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The orthogonal matrix nearest to this one."""
    squared, directions = np.linalg.eigh(matrix @ matrix.T)
    nearest: NDArray[np.float64] = (
        (directions / np.sqrt(np.maximum(squared, _TINY * squared[-1]))) @ directions.T @ matrix
    )
    return nearest
