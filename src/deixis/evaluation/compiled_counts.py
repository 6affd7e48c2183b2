"""Counting scores in one pass over memory, compiled by numba, which is optional (`pip install deixis[fast]`).

numpy needs a pass each for the check, the comparison and the count; compiled, all happen while a score is in a
register. Four rows go side by side, which is much quicker than one after another: memory delivers several streams
better than one, and a column's best score and its count are fetched once for the four.

The loop runs on the caller's threads and lets other threads of Python run: numba's own threads end the process when two
callers use them at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from deixis.evaluation.scores import AnyArray, IntArray, check_finite

if getattr(numba.config, "DISABLE_JIT", 0):
    raise ImportError("numba is told not to compile (NUMBA_DISABLE_JIT), and Python's own loop would take minutes")

ROWS_AT_ONCE = 4

_TYPES = (np.float32, np.float64)
# Sums may be added up in any order, which is what makes them quick. That nothing is nan or infinite is not promised:
# the compiler would then drop the very check that the sums are for.
_FREEDOM = {"reassoc", "nsz"}


def can_count(scores: AnyArray, row_best: AnyArray, column_best: AnyArray | None) -> bool:
    """Whether the loop takes these arrays: of one floating type, as another loop is compiled for every mixture."""
    types = {each.dtype for each in (scores, row_best, column_best) if each is not None}
    return len(types) == 1 and scores.dtype in _TYPES


def count_rows(
    scores: AnyArray, first_row: int, row_best: AnyArray, column_best: AnyArray | None, by_row: IntArray
) -> AnyArray:
    """Count a number of rows that four divides: into `by_row`, and by column into what is returned.

    Examples
    --------
    >>> by_row = np.zeros(4, dtype=np.int64)
    >>> scores = np.array([[1, 2], [3, 4], [5, 6], [7, 8]], dtype=np.float32)
    >>> count_rows(scores, 0, scores[:, 1].copy(), scores[1], by_row).tolist(), by_row.tolist()
    ([3, 3], [1, 1, 1, 1])
    """
    by_column = np.zeros(0 if column_best is None else scores.shape[1], dtype=np.int32)
    suspect = _count(scores, row_best, column_best, by_row, by_column)
    # A sum that overflows is no proof, so each score is looked at then.
    if suspect < len(scores):
        check_finite(scores[suspect:], first_row + suspect, "scores")
    return by_column


def _compiled(function: Callable[..., int]) -> Callable[..., int]:
    """Compile at the first call, and keep the result for the next process where there is a folder to keep it in."""
    options: dict[str, Any] = {"nogil": True, "fastmath": _FREEDOM}
    not_kept: Callable[..., int] = numba.njit(**options)(function)
    try:
        kept: Callable[..., int] = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder that it may write
        return not_kept

    def call(*arrays: AnyArray | None) -> int:
        try:
            return kept(*arrays)
        except Exception:  # what is kept is damaged, or the disk is full: neither may stand in the way of a score
            return not_kept(*arrays)

    return call


@_compiled
def _count(
    scores: AnyArray, row_best: AnyArray, column_best: AnyArray | None, by_row: IntArray, by_column: AnyArray
) -> int:
    """Count, and return the first row from which on a score may not be finite; the number of rows if all are."""
    height, width = scores.shape
    suspect: int = height
    for row in range(0, height, ROWS_AT_ONCE):
        best_a, best_b, best_c, best_d = row_best[row], row_best[row + 1], row_best[row + 2], row_best[row + 3]
        count_a = count_b = count_c = count_d = 0
        total = scores.dtype.type(0)
        for column in range(width):
            a, b = scores[row, column], scores[row + 1, column]
            c, d = scores[row + 2, column], scores[row + 3, column]
            total += (a + b) + (c + d)
            count_a += a >= best_a
            count_b += b >= best_b
            count_c += c >= best_c
            count_d += d >= best_d
            if column_best is not None:
                best = column_best[column]
                by_column[column] += (a >= best) + (b >= best) + (c >= best) + (d >= best)
        by_row[row], by_row[row + 1], by_row[row + 2], by_row[row + 3] = count_a, count_b, count_c, count_d
        # Not isfinite: it takes the number from itself, and where sums may be reordered that is always nought.
        if suspect == height and not -np.inf < total < np.inf:
            suspect = row
    return suspect
