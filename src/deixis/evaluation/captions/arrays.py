"""Small array functions that the caption scores share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_BITS = 63


class Numbering(defaultdict[str, int]):
    """Give each new word the next number.

    Examples
    --------
    >>> ids = Numbering()
    >>> ids.of(["a", "dog", "a"]).tolist(), dict(ids)
    ([0, 1, 0], {'a': 0, 'dog': 1})
    """

    def __init__(self) -> None:
        super().__init__(self.__len__)

    def of(self, words: Iterable[str]) -> IntArray:
        """The numbers of words."""
        return np.array(list(map(self.__getitem__, words)), dtype=np.int64)


def distinct(values: IntArray) -> IntArray:
    """Sort values and leave each once. Several times faster than `np.unique`, which hashes.

    Examples
    --------
    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(values)
    return ordered[is_new(ordered)]


def counted(values: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct values, sorted, and how often each occurs.

    Examples
    --------
    >>> [each.tolist() for each in counted(np.array([3, 1, 3]))]
    [[1, 3], [1, 2]]
    """
    ordered = np.sort(values)
    begins = np.flatnonzero(is_new(ordered))
    return ordered[begins], np.diff(begins, append=len(ordered))


def numbered(values: IntArray) -> tuple[IntArray, int]:
    """For each value its place among the distinct ones, and how many of those there are.

    Examples
    --------
    >>> numbered(np.array([30, 10, 30]))
    (array([1, 0, 1]), 2)
    """
    order = order_by(values)
    place = np.cumsum(is_new(values[order])) - 1
    numbers = np.empty_like(place)
    numbers[order] = place
    return numbers, int(place[-1]) + 1 if len(place) else 0


def order_by(*columns: IntArray) -> IntArray:
    """The order that sorts rows by the first column, then by the second and so on; equal rows keep theirs.

    Columns that fit into one number together are sorted as such, which is much faster than `np.lexsort`.

    Examples
    --------
    >>> order_by(np.array([1, 0, 1, 1]), np.array([5, 5, -4, 5])).tolist()
    [1, 2, 0, 3]
    """
    n = len(columns[0])
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    shifted = [column - column.min() for column in columns]
    widths = [int(column.max()).bit_length() for column in shifted]
    place_width = (n - 1).bit_length()
    if sum(widths) + place_width > _BITS:
        return np.lexsort(columns[::-1])
    key = shifted[0]
    for column, width in zip(shifted[1:], widths[1:], strict=True):
        key = key << width | column
    key = key << place_width | np.arange(n)
    return np.asarray(np.sort(key) & ((1 << place_width) - 1))


def summed(groups: IntArray, values: IntArray | FloatArray, n: int) -> FloatArray:
    """The sum of the values of each of n groups.

    Examples
    --------
    >>> summed(np.array([0, 2, 0]), np.array([1, 2, 3]), 3).tolist()
    [4.0, 0.0, 2.0]
    """
    return np.bincount(groups, values, n).astype(np.float64, copy=False)


def runs(first: IntArray, count: IntArray) -> IntArray:
    """The numbers first, first + 1 … of each run, one run after another.

    Examples
    --------
    >>> runs(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(count)
    return np.asarray(np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - count), count))


def first_of_run(ordered: IntArray) -> IntArray:
    """For each of some sorted values, the place of the first that is equal to it.

    Examples
    --------
    >>> first_of_run(np.array([3, 3, 5])).tolist()
    [0, 0, 2]
    """
    return np.maximum.accumulate(np.where(is_new(ordered), np.arange(len(ordered)), 0))


def is_new(*columns: npt.NDArray[Any]) -> BoolArray:
    """Tell for each row whether it differs from the row before it.

    Examples
    --------
    >>> is_new(np.array([3, 3, 3]), np.array([1, 1, 2])).tolist()
    [True, False, True]
    """
    new = np.ones(len(columns[0]), dtype=bool)
    new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return new
