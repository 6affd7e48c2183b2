"""A first guess for mixtures: k-means with spread-out first centres (k-means++, Arthur and Vassilvitskii, 2007)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from deixis.language.features.base import Floats

Doubles = NDArray[np.float64]
_STEPS = 20


def nearest_centres(vectors: Floats, shares: Doubles, clusters: int, seed: int) -> NDArray[np.intp]:
    """Which of so many clusters each vector belongs to; no cluster is empty as long as vectors differ.

    Examples
    --------
    >>> sides = np.array([[0.0], [9.0], [0.1], [9.1]], dtype=np.float32)
    >>> found = nearest_centres(sides, np.full(4, 0.25), 2, seed=0)
    >>> bool(found[0] == found[2] != found[1] == found[3])
    True
    """
    centres = _spread_out(vectors, shares, clusters, np.random.default_rng(seed))
    nearest = _nearest(vectors, centres)
    for _ in range(_STEPS):
        belongs = np.zeros((len(vectors), clusters))
        belongs[np.arange(len(vectors)), nearest] = shares
        totals = belongs.sum(axis=0)
        kept = totals > 0
        centres[kept] = (belongs.T @ vectors)[kept] / totals[kept, None]
        before, nearest = nearest, _nearest(vectors, centres)
        if np.array_equal(before, nearest):
            break
    return nearest


def _spread_out(vectors: Floats, shares: Doubles, clusters: int, rng: np.random.Generator) -> Doubles:
    """Centres drawn one after the other, each likelier the farther it is from those before it."""
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
