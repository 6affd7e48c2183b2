"""Counting scores in one pass over memory, compiled by numba, which is optional (`pip install deixis[fast]`).

numpy needs one pass each for the check, the comparison and the count; the compiled loop does all three while a score is
in a register. It processes four rows together, which is much faster: memory delivers several streams better than one,
and the best score and the count of a column are loaded once for the four.

The loop runs in the caller's threads and releases the GIL. numba's own threads are not used, because they abort the
process when two callers use them at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from deixis.evaluation.score_matrix import AnyArray, IntArray, check_finite

if getattr(numba.config, "DISABLE_JIT", 0):
    raise ImportError("NUMBA_DISABLE_JIT is set, and the uncompiled loop would take minutes")

ROWS_AT_ONCE = 4

_TYPES = (np.float32, np.float64)
# Additions may be reordered, which makes sums fast. The compiler must not assume finite numbers: it would then drop
# the check that the sums are for.
_FAST_MATH = {"reassoc", "nsz"}


def can_count(scores: AnyArray, row_best: AnyArray, column_best: AnyArray | None) -> bool:
    """Whether the loop accepts these arrays: all float32 or all float64, to limit the number of compiled versions."""
    types = {each.dtype for each in (scores, row_best, column_best) if each is not None}
    return len(types) == 1 and scores.dtype in _TYPES


def count_rows(
    scores: AnyArray, first_row: int, row_best: AnyArray, column_best: AnyArray | None, by_row: IntArray
) -> AnyArray:
    """Count a multiple of four rows into `by_row`, and return the counts by column."""
    by_column = np.zeros(0 if column_best is None else scores.shape[1], dtype=np.int32)
    suspect = _count(scores, row_best, column_best, by_row, by_column)
    # The sum may have overflowed, so each score is tested.
    if suspect < len(scores):
        check_finite(scores[suspect:], first_row + suspect, "scores")
    return by_column


def _compiled(function: Callable[..., int]) -> Callable[..., int]:
    """Compile on the first call, and cache the result on disk if there is a writable folder."""
    options: dict[str, Any] = {"nogil": True, "fastmath": _FAST_MATH}
    uncached: Callable[..., int] = numba.njit(**options)(function)
    try:
        cached: Callable[..., int] = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no writable folder
        return uncached

    def call(*arrays: AnyArray | None) -> int:
        try:
            return cached(*arrays)
        except Exception:  # a damaged cache or a full disk must not prevent scoring
            return uncached(*arrays)

    return call


@_compiled
def _count(
    scores: AnyArray, row_best: AnyArray, column_best: AnyArray | None, by_row: IntArray, by_column: AnyArray
) -> int:
    """Count, and return the first row whose scores may not be finite; the number of rows if all are finite."""
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
        # Not isfinite, which subtracts the number from itself: with reordered sums the compiler makes that 0.
        if suspect == height and not -np.inf < total < np.inf:
            suspect = row
    return suspect
