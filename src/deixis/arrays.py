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
Codes = NDArray[np.int8]
"""Numbers rounded to whole steps; see `quantize`."""

LARGEST_CODE = 127


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


def best_matching(gain: NDArray[Any]) -> tuple[IntArray, IntArray]:
    """Return rows and columns of the one-to-one matching with the largest total gain.

    Examples
    --------
    >>> [each.tolist() for each in best_matching(np.array([[1, 2], [0, 3]]))]
    [[0, 1], [0, 1]]
    """
    from scipy.optimize import linear_sum_assignment  # slow import

    rows, columns = linear_sum_assignment(gain, maximize=True)
    return rows, columns


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


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Return probabilities along the last axis, in the precision of the scores.

    Examples
    --------
    >>> softmax(np.array([[1000.0, 1000.0], [-1000.0, 0.0]])).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def code_step(values: NDArray[Any], axis: int | None = None) -> FloatArray:
    """Return the step that makes the largest value, of all or along an axis, the largest code; 1 if all are zero."""
    step = np.abs(values).max(axis=axis, initial=0).astype(np.float64) / LARGEST_CODE
    return np.asarray(np.where(step > 0, step, 1))


def quantize(values: NDArray[Any], step: ArrayLike, largest: int = LARGEST_CODE) -> Codes:
    """Round to whole steps, as int8; `step` is a number, or one for each row, or has the shape of a row or column.

    Examples
    --------
    >>> values = np.array([[1.0, -0.5], [0.0, 0.0]])
    >>> codes = quantize(values, code_step(values, axis=1))
    >>> codes.tolist(), dequantize(codes, code_step(values, axis=1)).round(2).tolist()
    ([[127, -64], [0, 0]], [[1.0, -0.5], [0.0, 0.0]])
    """
    steps = np.asarray(values) / _for_rows(step, values.ndim)
    np.rint(steps, out=steps)
    return np.clip(steps, -largest, largest, out=steps).astype(np.int8)


def dequantize(codes: NDArray[Any], step: ArrayLike, zero_point: ArrayLike | None = None) -> Floats:
    """Return the values of codes; `step` and `zero_point` as of `quantize`."""
    values: Floats = codes.astype(np.float32)
    if zero_point is not None:
        values -= _for_rows(zero_point, codes.ndim)
    values *= _for_rows(step, codes.ndim)
    return values


def _for_rows(numbers: ArrayLike, dimensions: int) -> Floats:
    """Add axes at the end, so that each number applies to a row."""
    found = np.asarray(numbers, dtype=np.float32)
    return found.reshape(found.shape + (1,) * (dimensions - found.ndim))
