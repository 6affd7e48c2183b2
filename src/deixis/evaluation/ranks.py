"""The rank of the best correct answer of every query, by counting instead of sorting.

The rows and the columns of a score matrix are both queries, for example photos and sentences. The correct answers
(positives) are pairs of a row and a column. The rank of a row is

    1 + the number of wrong columns whose score is at least that of its best correct column,

and likewise for a column. Equal scores therefore count against the system (a constant matrix ranks nothing first), and
correct answers do not lower each other's rank.

Both directions are counted in one pass, in blocks of rows that stay in the processor's cache, so that the scores can be
in a file or computed on demand. With numba (`pip install deixis[fast]`), a compiled loop counts large matrices.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis.arrays import AnyArray, BoolArray, FloatArray, IntArray
from deixis.errors import DeixisError
from deixis.evaluation.score_matrix import (
    Scores,
    as_blocks,
    as_comparable,
    check_finite,
    gather,
    iterate_blocks,
)

TIE_RULE = "pessimistic: a wrong answer with the score of the best right one is ranked before it"

_BYTES_IN_CACHE = 3 << 18
_CELLS_PER_TASK = 1 << 22
# A byte counts up to 255, and the compiled loop takes four rows at a time.
_ROWS_PER_TASK = 252
_ROWS_AT_ONCE = 4
# Loading numba takes longer than it saves on one matrix of this size. Computing that matrix takes much longer still,
# and every further matrix takes less than half the time.
_CELLS_WORTH_COMPILING = 50_000_000

# Arguments: scores, index of the first row, best positive of each row and of each column, output for the row counts.
# Returns the column counts.
RowCounter = Callable[[AnyArray, int, AnyArray, AnyArray | None, IntArray], AnyArray]


@dataclass(frozen=True)
class Pairs:
    """Distinct cells of a score matrix, sorted by row."""

    rows: IntArray
    columns: IntArray

    def cells(self, width: int) -> IntArray:
        """The flat index of each pair, increasing."""
        return self.rows * width + self.columns


@dataclass(frozen=True, eq=False)
class Ranks:
    """The rank of every row and of every column as a query; nan for a query without a correct answer."""

    rows: FloatArray
    columns: FloatArray


def make_pairs(rows: npt.ArrayLike, columns: npt.ArrayLike, shape: tuple[int, int]) -> Pairs:
    """Sort pairs and drop duplicates."""
    row_array, column_array = as_indices(rows, "rows"), as_indices(columns, "columns")
    if row_array.shape != column_array.shape:
        raise DeixisError(f"pairs: {len(row_array)} rows but {len(column_array)} columns")
    for name, values, size in (("row", row_array, shape[0]), ("column", column_array, shape[1])):
        outside = np.flatnonzero((values < 0) | (values >= size))
        if outside.size:
            at = outside[0]
            raise DeixisError(f"pairs: pair {at} has {name} {values[at]}, but there are {size} {name}s")
    cells = np.sort(row_array * shape[1] + column_array)
    cells = cells[np.diff(cells, prepend=-1) > 0]
    return Pairs(cells // shape[1], cells % shape[1])


def positive_pairs(photo_of_sentence: npt.ArrayLike, photos: int | None = None) -> Pairs:
    """Return the positive pairs of photos (rows) and sentences (columns)."""
    owners = as_indices(photo_of_sentence, "photo_of_sentence")
    count = photos if photos is not None else int(owners.max(initial=-1)) + 1
    outside = np.flatnonzero((owners < 0) | (owners >= count))
    if outside.size:
        at = outside[0]
        raise DeixisError(
            f"photo_of_sentence: sentence {at} belongs to photo {owners[at]}, but there are {count} photos"
        )
    return make_pairs(owners, np.arange(len(owners)), (count, len(owners)))


def compute_ranks(scores: Scores, positives: Pairs, ignored: Pairs | None = None, *, columns: bool = True) -> Ranks:
    """Rank the best positive of every row and every column in one pass over the scores.

    `ignored` cells are neither correct nor wrong, such as a sentence and itself. Without `columns`, their ranks are
    empty, and each block of `ScoreBlocks` is requested once.
    """
    blocks = as_blocks(scores)
    height, width = blocks.shape
    not_wrong, right = _not_wrong(positives, ignored, width)
    column_best = None
    if columns:
        column_best = _best(positives.columns, gather(blocks, positives.rows, positives.columns), width)
    count_rows = _fastest_counter(height * width)
    rank_of_row = np.empty(height)
    rank_of_column = np.ones(width if columns else 0)
    for begin, block in iterate_blocks(blocks):
        end = begin + len(block)
        here = slice(*np.searchsorted(not_wrong.rows, [begin, end]))
        row, column, is_right = not_wrong.rows[here] - begin, not_wrong.columns[here], right[here]
        value = as_comparable(block[row, column])
        row_best = _best(row[is_right], value[is_right], len(block))
        at_least_row, at_least_column = _count_at_least(block, begin, row_best, column_best, count_rows)
        rank_of_row[begin:end] = 1 + at_least_row - _tally(row[value >= row_best[row]], len(block))
        if column_best is not None:
            rank_of_column += at_least_column - _tally(column[value >= column_best[column]], width)
    rank_of_row[_tally(positives.rows, height) == 0] = np.nan
    if columns:
        rank_of_column[_tally(positives.columns, width) == 0] = np.nan
    return Ranks(rank_of_row, rank_of_column)


def shortlist_ranks(
    scores: Scores, positives: Pairs, shortlists: Sequence[npt.ArrayLike], *, of_columns: bool = False
) -> FloatArray:
    """Rank the best positive of every row (or column) among the candidates of its own shortlist.

    The rank is inf if no positive is in the shortlist, and nan if the query has no positive.
    """
    blocks = as_blocks(scores)
    queries, candidates = blocks.shape[::-1] if of_columns else blocks.shape
    query, candidate = _flat_shortlists(shortlists, queries, candidates)
    row, column = (candidate, query) if of_columns else (query, candidate)
    value = gather(blocks, row, column)
    width = blocks.shape[1]
    right = np.isin(row * width + column, positives.cells(width))
    best = _best(query[right], value[right], queries)
    rank = 1 + _tally(query[~right & (value >= best[query])], queries).astype(np.float64)
    rank[_tally(query[right], queries) == 0] = np.inf
    rank[_tally(positives.columns if of_columns else positives.rows, queries) == 0] = np.nan
    return rank


def match_ranks(scores: Scores, positives: Pairs, shortlists: Sequence[npt.ArrayLike] | None = None) -> FloatArray:
    """Rank every positive, in the order of `positives`, in the list of its row: 1 is the first of the list.

    A wrong answer with the same score is ranked before it; the other positives have places of their own. The rank is
    inf if the positive is not in the shortlist of the row.
    """
    blocks = as_blocks(scores)
    height, width = blocks.shape
    if shortlists is not None:
        _flat_shortlists(shortlists, height, width)  # checks them
    ranks = np.empty(len(positives.rows))
    starts = np.searchsorted(positives.rows, np.arange(height + 1))
    for begin, block in iterate_blocks(blocks):
        for row in range(begin, begin + len(block)):
            here = slice(starts[row], starts[row + 1])
            values, columns = as_comparable(block[row - begin]), positives.columns[here]
            listed = np.arange(width) if shortlists is None else as_indices(shortlists[row], "shortlists")
            there = np.isin(columns, listed)
            wrong = np.sort(values[listed[~np.isin(listed, columns)]])
            right = values[columns[there]]
            place = np.empty(len(right))
            place[np.argsort(-right, kind="stable")] = np.arange(len(right))
            found = np.full(len(columns), np.inf)
            found[there] = 1 + place + len(wrong) - np.searchsorted(wrong, right)
            ranks[here] = found
    return ranks


def as_indices(values: npt.ArrayLike, name: str) -> IntArray:
    """Convert a list of indices to an array, or raise `DeixisError`."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise DeixisError(f"{name}: must be a list of integers")
    return array.astype(np.int64)


def _not_wrong(positives: Pairs, ignored: Pairs | None, width: int) -> tuple[Pairs, BoolArray]:
    """All cells that are not wrong answers, sorted by row, and a mask of the correct ones."""
    if ignored is None:
        return positives, np.ones(len(positives.rows), dtype=bool)
    right = positives.cells(width)
    cells = np.union1d(right, ignored.cells(width))
    return Pairs(cells // width, cells % width), np.isin(cells, right)


def _best(query: IntArray, value: AnyArray, queries: int) -> AnyArray:
    """The best value of each query; the lowest number of the type if it has none."""
    lowest = np.finfo(value.dtype).min if value.dtype.kind == "f" else np.iinfo(value.dtype).min
    best = np.full(queries, lowest, dtype=value.dtype)
    np.maximum.at(best, query, value)
    return best


def _tally(indices: IntArray, size: int) -> IntArray:
    return np.bincount(indices, minlength=size)


def _fastest_counter(cells: int) -> RowCounter:
    """The compiled loop for large matrices if numba is installed, otherwise numpy."""
    loop = _compiled_loop() if cells >= _CELLS_WORTH_COMPILING else None
    if loop is None:
        return _count_rows

    def count(
        scores: AnyArray, first_row: int, row_best: AnyArray, column_best: AnyArray | None, by_row: IntArray
    ) -> AnyArray:
        types = {each.dtype for each in (scores, row_best, column_best) if each is not None}
        cut = len(scores) // _ROWS_AT_ONCE * _ROWS_AT_ONCE
        if len(types) > 1 or scores.dtype not in (np.float32, np.float64):  # to limit the number of compiled versions
            cut = 0
        by_column = np.zeros(0 if column_best is None else scores.shape[1], dtype=np.int32)
        if cut:
            suspect = loop(scores[:cut], row_best[:cut], column_best, by_row[:cut], by_column)
            # The sum may have overflowed, so each score is tested.
            if suspect < cut:
                check_finite(scores[suspect:cut], first_row + suspect, "scores")
        by_column += _count_rows(scores[cut:], first_row + cut, row_best[cut:], column_best, by_row[cut:])
        return by_column

    return count


@cache
def _compiled_loop() -> Callable[..., int] | None:
    """Compile `_count_loop` on its first call, cached on disk if there is a writable folder; None without numba."""
    try:
        import numba
    except ImportError:
        return None
    if getattr(numba.config, "DISABLE_JIT", 0):  # the uncompiled loop would take minutes
        return None
    # Additions may be reordered, which makes sums fast. The compiler must not assume finite numbers: it would then drop
    # the check that the sums are for. numba's own threads abort the process when two callers use them at once, so the
    # loop runs in the caller's threads and releases the GIL.
    options: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "nsz"}}
    uncached: Callable[..., int] = numba.njit(**options)(_count_loop)
    try:
        cached: Callable[..., int] = numba.njit(cache=True, **options)(_count_loop)
    except RuntimeError:  # numba found no writable folder
        return uncached

    def call(*arrays: AnyArray | None) -> int:
        try:
            return cached(*arrays)
        except Exception:  # a damaged cache or a full disk must not prevent scoring
            return uncached(*arrays)

    return call


def _count_loop(
    scores: AnyArray, row_best: AnyArray, column_best: AnyArray | None, by_row: IntArray, by_column: AnyArray
) -> int:
    """Check, compare and count in one pass; return the first row whose scores may not be finite, or their number.

    Four rows together are much faster: memory delivers several streams better than one, and the best score and the
    count of a column are loaded once for the four.
    """
    height, width = scores.shape
    suspect: int = height
    for row in range(0, height, _ROWS_AT_ONCE):
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


def _count_at_least(
    block: AnyArray, first_row: int, row_best: AnyArray, column_best: AnyArray | None, count_rows: RowCounter
) -> tuple[IntArray, IntArray]:
    """Count the scores of each row and of each column that are at least its best positive."""
    height, width = block.shape
    step = min(_ROWS_PER_TASK, max(4, _CELLS_PER_TASK // width // 4 * 4))
    by_row = np.empty(height, dtype=np.int64)
    by_column = np.zeros(0 if column_best is None else width, dtype=np.int64)

    def count(begin: int) -> AnyArray:
        rows = slice(begin, min(begin + step, height))
        scores = as_comparable(block[rows])
        return count_rows(scores, first_row + begin, row_best[rows], column_best, by_row[rows])

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for counts in pool.map(count, range(0, height, step)):
            by_column += counts
    return by_row, by_column


def _count_rows(
    scores: AnyArray, first_row: int, row_best: AnyArray, column_best: AnyArray | None, by_row: IntArray
) -> npt.NDArray[np.uint8]:
    """Count at most 252 rows: into `by_row`, and by column into bytes, which are fastest to add."""
    height, width = scores.shape
    step = max(1, _BYTES_IN_CACHE // (width * scores.itemsize))
    by_column = np.zeros(0 if column_best is None else width, dtype=np.uint8)
    reached = np.empty((min(step, height), width), dtype=bool)
    for begin in range(0, height, step):
        panel = scores[begin : begin + step]
        flags = reached[: len(panel)]
        # A sum is faster than testing each score. It may overflow, so the scores are tested if it is not finite.
        if panel.dtype.kind == "f" and not np.isfinite(np.einsum("ij->", panel)):
            check_finite(panel, first_row + begin, "scores")
        np.greater_equal(panel, row_best[begin : begin + step, None], out=flags)
        for row, flags_of_row in enumerate(flags, start=begin):
            by_row[row] = np.count_nonzero(flags_of_row)
        if column_best is not None:
            np.greater_equal(panel, column_best, out=flags)
            by_column += np.add.reduce(flags.view(np.uint8), axis=0, dtype=np.uint8)
    return by_column


def _flat_shortlists(shortlists: Sequence[npt.ArrayLike], queries: int, candidates: int) -> tuple[IntArray, IntArray]:
    """Shortlists as flat arrays of queries and candidates."""
    if len(shortlists) != queries:
        raise DeixisError(f"shortlists: {len(shortlists)} lists for {queries} queries")
    lists = [as_indices(each, f"shortlists: list {at}") for at, each in enumerate(shortlists)]
    query = np.repeat(np.arange(queries), [len(each) for each in lists])
    candidate = np.concatenate(lists) if lists else np.empty(0, dtype=np.int64)
    outside = np.flatnonzero((candidate < 0) | (candidate >= candidates))
    if outside.size:
        at = outside[0]
        raise DeixisError(f"shortlists: list {query[at]} has candidate {candidate[at]}, but there are {candidates}")
    cells, times = np.unique(query * candidates + candidate, return_counts=True)
    if times.max(initial=0) > 1:
        twice = int(cells[np.argmax(times > 1)])
        raise DeixisError(f"shortlists: list {twice // candidates} has candidate {twice % candidates} twice")
    return query, candidate
