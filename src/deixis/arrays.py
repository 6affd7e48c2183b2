"""Array types, and small array functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float32]
"""Feature vectors."""

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
AnyArray = NDArray[Any]


def to_unit_length(rows: Floats) -> Floats:
    """Divide each row by its Euclidean length, in place; rows of zeros stay zero.

    Examples
    --------
    >>> to_unit_length(np.array([[3, 4], [0, 0]], dtype=np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    rows /= np.where(lengths > 0, lengths, 1).astype(np.float32)[:, None]
    return rows


def expand_runs(first: NDArray[np.int64], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Concatenate the ranges ``first … first + count - 1``."""
    ends = np.cumsum(count)
    return np.asarray(np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - count), count))


def logistic(logits: ArrayLike) -> NDArray[Any]:
    """Return probabilities in the precision of the logits, without a warning for very negative ones.

    Examples
    --------
    >>> logistic([-1000.0, 0.0, 1000.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-np.asarray(logits))))
