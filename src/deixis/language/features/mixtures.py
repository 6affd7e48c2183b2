"""Mixtures of Gaussians, of Laplacians, or of both, fitted by expectation maximisation.

The hybrid mixture is that of Klein, Lev, Sadeh and Wolf, *Associating Neural Word Embeddings with Deep Image
Representations using Fisher Vectors* (CVPR 2015): every dimension of every component is a Gaussian or a Laplacian,
whichever makes its share of the data likelier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DeixisError
from deixis.language.features.base import Floats, fitted
from deixis.language.features.clusters import nearest_centres
from deixis.language.saved import Saved

Family = Literal["gaussian", "laplacian", "hybrid"]
Doubles = NDArray[np.float64]

FAMILIES: tuple[Family, ...] = ("gaussian", "laplacian", "hybrid")
_ROWS = 1024
_NEGLIGIBLE = 1e-10


@dataclass(frozen=True)
class Components:
    """The parameters of a mixture of K components in D dimensions.

    Attributes
    ----------
    weights : array of float32, (K,)
    locations : array of float32, (K, D)
        Means of Gaussians, medians of Laplacians.
    scales : array of float32, (K, D)
        Standard deviations of Gaussians, mean absolute deviations of Laplacians.
    laplacian : array of bool, (K, D)
    """

    weights: Floats
    locations: Floats
    scales: Floats
    laplacian: NDArray[np.bool_]

    def log_joint(self, vectors: Floats) -> Doubles:
        """The logarithm of weight times density, for each vector and component."""
        logs = np.empty((len(vectors), len(self.weights)))
        constants = np.log(self.weights) - np.sum(
            np.log(self.scales) + np.where(self.laplacian, np.log(2), np.log(2 * np.pi) / 2), axis=1, dtype=np.float64
        )
        for start in range(0, len(vectors), _ROWS):
            part = vectors[start : start + _ROWS]
            for k, constant in enumerate(constants):
                away = np.abs(part - self.locations[k])
                away /= self.scales[k]
                laplacian = self.laplacian[k].astype(np.float32)
                logs[start : start + _ROWS, k] = constant - away @ laplacian
                away *= away
                logs[start : start + _ROWS, k] -= away @ ((1 - laplacian) / 2)
        return logs


class Mixture:
    """A mixture of products of one-dimensional Gaussians and Laplacians.

    Parameters
    ----------
    components
        How many.
    family
        ``gaussian``, ``laplacian``, or ``hybrid``: each dimension of each component as the data likes it better.
    iterations, tolerance
        EM stops after so many steps, or when the mean log-likelihood of a vector rises by less.
    smallest_scale
        No scale becomes smaller than this share of the dimension's deviation over all the data, so that no component
        shrinks to a point.
    seed
        Of the first centres.

    Attributes
    ----------
    components_ : Components
    log_likelihoods_ : list of float
        The mean over the vectors before each step, and after the last one. It never falls.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> data = np.concatenate([rng.normal(-5, 1, (200, 1)), rng.laplace(5, 1, (200, 1))]).astype(np.float32)
    >>> mixture = Mixture(components=2).fit(data)
    >>> mixture.components_.laplacian[np.argsort(mixture.components_.locations[:, 0]), 0]
    array([False,  True])
    """

    def __init__(
        self,
        components: int = 30,
        family: Family = "hybrid",
        *,
        iterations: int = 100,
        tolerance: float = 0.01,
        smallest_scale: float = 0.01,
        seed: int = 0,
    ) -> None:
        if family not in FAMILIES:
            raise DeixisError(f"mixture: family {family!r} is none of {', '.join(FAMILIES)}")
        self.components = components
        self.family: Family = family
        self.iterations = iterations
        self.tolerance = tolerance
        self.smallest_scale = smallest_scale
        self.seed = seed
        self.components_: Components | None = None
        self.log_likelihoods_: list[float] = []

    def fit(self, vectors: Floats, weights: Doubles | None = None, like: Floats | None = None) -> Self:
        """Learn from vectors, one in each row, each counted `weights` times.

        The first components are clusters of `like`, where it is given: other vectors of the same things.
        """
        if len(vectors) < self.components:
            raise DeixisError(
                f"mixture: {self.components} components need as many distinct words; there are {len(vectors)}"
            )
        shares = np.full(len(vectors), 1 / len(vectors)) if weights is None else weights / weights.sum()
        overall = np.sqrt(np.maximum(shares @ (vectors - shares @ vectors) ** 2, np.finfo(np.float32).tiny))
        smallest = self.smallest_scale * overall
        belongs = np.eye(self.components)[
            nearest_centres(vectors if like is None else like, shares, self.components, self.seed)
        ]
        learned = self._maximise(vectors, belongs * shares[:, None], smallest, None)
        self.log_likelihoods_ = []
        for _ in range(self.iterations + 1):
            likelihoods, posteriors = _expect(learned, vectors)
            self.components_ = learned
            self.log_likelihoods_.append(float(shares @ likelihoods))
            if len(self.log_likelihoods_) > 1 and self._rose_by() < self.tolerance:
                break
            learned = self._maximise(vectors, posteriors * shares[:, None], smallest, learned)
        return self

    def _rose_by(self) -> float:
        return self.log_likelihoods_[-1] - self.log_likelihoods_[-2]

    def _maximise(self, vectors: Floats, mass: Doubles, smallest: Doubles, before: Components | None) -> Components:
        """The likeliest parameters, where `mass` says how much of each vector each component has."""
        totals = mass.sum(axis=0)
        fits = []
        for k, total in enumerate(totals):
            heavy = mass[:, k] > _NEGLIGIBLE * total
            if not heavy.any() and before is not None:
                fits.append((before.locations[k], before.scales[k], before.laplacian[k]))
            else:
                fits.append(self._fit_one(vectors[heavy].astype(np.float64), mass[heavy, k], smallest))
        locations, scales, laplacian = (np.stack(column) for column in zip(*fits, strict=True))
        weights = np.maximum(totals / totals.sum(), np.finfo(np.float32).tiny)
        return Components(
            weights.astype(np.float32), locations.astype(np.float32), scales.astype(np.float32), laplacian
        )

    def _fit_one(
        self, vectors: Doubles, mass: Doubles, smallest: Doubles
    ) -> tuple[Doubles, Doubles, NDArray[np.bool_]]:
        """Locations, scales and which dimensions are Laplacian, for one component."""
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
        """The probability of each component given each vector; rows sum to 1."""
        return _expect(fitted(self.components_, self), vectors)[1].astype(np.float32)

    def saved(self) -> Saved:
        """What is to be kept."""
        settings = {
            "components": self.components,
            "family": self.family,
            "iterations": self.iterations,
            "tolerance": self.tolerance,
            "smallest_scale": self.smallest_scale,
            "seed": self.seed,
        }
        return Saved("mixture", settings, dict(vars(fitted(self.components_, self))))

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        mixture = cls(**saved.settings)
        learned = Components(**{name: np.asarray(array) for name, array in saved.arrays.items()})
        shape = (mixture.components, *learned.locations.shape[1:])
        if not learned.locations.shape == learned.scales.shape == learned.laplacian.shape == shape:
            raise ValueError("the parameters of the mixture do not fit each other")
        mixture.components_ = learned
        return mixture


def _expect(components: Components, vectors: Floats) -> tuple[Doubles, Doubles]:
    """The log-likelihood of each vector, and the posterior of each component."""
    logs = components.log_joint(vectors)
    highest = logs.max(axis=1, keepdims=True)
    likelihoods = highest + np.log(np.exp(logs - highest).sum(axis=1, keepdims=True))
    return likelihoods[:, 0], np.exp(logs - likelihoods)


def weighted_medians(vectors: Doubles, shares: Doubles) -> Doubles:
    """The lower weighted median of each column: the first value at which half the weight is reached.

    Examples
    --------
    >>> weighted_medians(np.array([[1.0], [2.0], [9.0]]), np.array([0.2, 0.2, 0.6]))
    array([9.])
    """
    order = np.argsort(vectors, axis=0, kind="stable")
    reached = np.cumsum(shares[order], axis=0)
    middle = np.argmax(reached >= reached[-1] / 2, axis=0)
    columns = np.arange(vectors.shape[1])
    medians: Doubles = vectors[order[middle, columns], columns]
    return medians
