"""Mixtures of Gaussians, of Laplacians, or of both (HGLMM), fitted by expectation maximization.

The hybrid mixture is that of Klein, Lev, Sadeh and Wolf, *Associating Neural Word Embeddings with Deep Image
Representations using Fisher Vectors* (CVPR 2015): every dimension of every component is a Gaussian or a Laplacian,
whichever has the higher likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.language.features.base import fitted
from deixis.storage.artifacts import Artifact

Doubles = NDArray[np.float64]
_KMEANS_STEPS = 20


def cluster(vectors: Floats, shares: Doubles, clusters: int, seed: int) -> NDArray[np.intp]:
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


def _initial_centres(vectors: Floats, shares: Doubles, clusters: int, rng: np.random.Generator) -> Doubles:
    """Initial centres of k-means++."""
    chosen = [int(rng.choice(len(vectors), p=shares))]
    distances = _squared(vectors, vectors[chosen[0]])
    while len(chosen) < clusters:
        mass = shares * distances
        mass = mass if mass.sum() > 0 else shares
        chosen.append(int(rng.choice(len(vectors), p=mass / mass.sum())))
        distances = np.minimum(distances, _squared(vectors, vectors[chosen[-1]]))
    return vectors[chosen].astype(np.float64)


def _squared(vectors: Floats, centre: Floats) -> Doubles:
    away = vectors - centre
    distances: Doubles = np.einsum("ij,ij->i", away, away, dtype=np.float64)
    return distances


def _nearest(vectors: Floats, centres: Doubles) -> NDArray[np.intp]:
    # |x − c|² without |x|², which is the same for every centre.
    nearest: NDArray[np.intp] = np.argmin(np.sum(centres**2, axis=1) - 2 * (vectors @ centres.T), axis=1)
    return nearest


Family = Literal["gaussian", "laplacian", "hybrid"]

FAMILIES: tuple[Family, ...] = ("gaussian", "laplacian", "hybrid")
_ROWS_PER_BATCH = 1024
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
        """Return the log of weight times density, for each vector and component."""
        logs = np.empty((len(vectors), len(self.weights)))
        constants = np.log(self.weights) - np.sum(
            np.log(self.scales) + np.where(self.laplacian, np.log(2), np.log(2 * np.pi) / 2), axis=1, dtype=np.float64
        )
        for start in range(0, len(vectors), _ROWS_PER_BATCH):
            part = vectors[start : start + _ROWS_PER_BATCH]
            for k, constant in enumerate(constants):
                away = np.abs(part - self.locations[k])
                away /= self.scales[k]
                laplacian = self.laplacian[k].astype(np.float32)
                logs[start : start + _ROWS_PER_BATCH, k] = constant - away @ laplacian
                away *= away
                logs[start : start + _ROWS_PER_BATCH, k] -= away @ ((1 - laplacian) / 2)
        return logs


class Mixture:
    """A mixture of products of one-dimensional Gaussians and Laplacians.

    EM stops after `iterations` steps, or when the mean log-likelihood rises by less than `tolerance`. No scale is below
    `smallest_scale` times the deviation of the dimension over all data, so that no component collapses.
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
            raise DeixisError(f"mixture: family {family!r} does not exist; choose {', '.join(FAMILIES)}")
        self.components = components
        self.family: Family = family
        self.iterations = iterations
        self.tolerance = tolerance
        self.smallest_scale = smallest_scale
        self.seed = seed
        self.components_: Components | None = None
        self.log_likelihoods_: list[float] = []

    def fit(self, vectors: Floats, weights: Doubles | None = None, like: Floats | None = None) -> Self:
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
            if len(self.log_likelihoods_) > 1 and self._last_gain() < self.tolerance:
                break
            learned = self._maximize(vectors, posteriors * shares[:, None], smallest, learned)
        return self

    def _last_gain(self) -> float:
        return self.log_likelihoods_[-1] - self.log_likelihoods_[-2]

    def _maximize(self, vectors: Floats, mass: Doubles, smallest: Doubles, previous: Components | None) -> Components:
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
        self, vectors: Doubles, mass: Doubles, smallest: Doubles
    ) -> tuple[Doubles, Doubles, NDArray[np.bool_]]:
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
        settings = {
            "components": self.components,
            "family": self.family,
            "iterations": self.iterations,
            "tolerance": self.tolerance,
            "smallest_scale": self.smallest_scale,
            "seed": self.seed,
        }
        return Artifact("mixture", settings, dict(vars(fitted(self.components_, self))))

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        mixture = cls(**artifact.settings)
        learned = Components(**{name: np.asarray(array) for name, array in artifact.arrays.items()})
        shape = (mixture.components, *learned.locations.shape[1:])
        if not learned.locations.shape == learned.scales.shape == learned.laplacian.shape == shape:
            raise ValueError("the parameters of the mixture have different shapes")
        mixture.components_ = learned
        return mixture


def _expect(components: Components, vectors: Floats) -> tuple[Doubles, Doubles]:
    """The log-likelihood of each vector, and the posterior of each component (E step)."""
    logs = components.log_joint(vectors)
    highest = logs.max(axis=1, keepdims=True)
    likelihoods = highest + np.log(np.exp(logs - highest).sum(axis=1, keepdims=True))
    return likelihoods[:, 0], np.exp(logs - likelihoods)


def weighted_medians(vectors: Doubles, shares: Doubles) -> Doubles:
    """Return the lower weighted median of each column: the first value at which half the weight is reached."""
    order = np.argsort(vectors, axis=0, kind="stable")
    reached = np.cumsum(shares[order], axis=0)
    middle = np.argmax(reached >= reached[-1] / 2, axis=0)
    columns = np.arange(vectors.shape[1])
    medians: Doubles = vectors[order[middle, columns], columns]
    return medians
