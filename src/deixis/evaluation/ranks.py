"""The rank of the best correct answer of every query, by counting instead of sorting.

The rows and the columns of a score matrix are both queries, for example photos and sentences. The correct answers
(positives) are pairs of a row and a column. The rank of a row is

    1 + the number of wrong columns whose score is at least that of its best correct column,

and likewise for a column. Equal scores therefore count against the system (a constant matrix ranks nothing first), and
correct answers do not lower each other's rank.

Both directions are counted in one pass, in blocks of rows that stay in the processor's cache, so that the scores can be
in a file or computed on demand.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deixis.arrays import AnyArray, BoolArray, FloatArray, IntArray
from deixis.errors import DeixisError
from deixis.evaluation.score_matrix import Scores, as_blocks, as_comparable, check_finite, gather, iterate_blocks

TIE_RULE = "pessimistic: a wrong answer with the score of the best right one is ranked before it"

_BYTES_IN_CACHE = 3 << 18
_CELLS_PER_TASK = 1 << 22
_ROWS_PER_TASK = 255
"""A byte counts up to 255."""


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
    rank_of_row = np.empty(height)
    rank_of_column = np.ones(width if columns else 0)
    for begin, block in iterate_blocks(blocks):
        end = begin + len(block)
        here = slice(*np.searchsorted(not_wrong.rows, [begin, end]))
        row, column, is_right = not_wrong.rows[here] - begin, not_wrong.columns[here], right[here]
        value = as_comparable(block[row, column])
        row_best = _best(row[is_right], value[is_right], len(block))
        at_least_row, at_least_column = _count_at_least(block, begin, row_best, column_best)
        rank_of_row[begin:end] = 1 + at_least_row - _tally(row[value >= row_best[row]], len(block))
        if column_best is not None:
            rank_of_column += at_least_column - _tally(column[value >= column_best[column]], width)
    rank_of_row[_tally(positives.rows, height) == 0] = np.nan
    if columns:
        rank_of_column[_tally(positives.columns, width) == 0] = np.nan
    return Ranks(rank_of_row, rank_of_column)


def shortlist_ranks(scores: Scores, positives: Pairs, shortlists: Sequence[npt.ArrayLike]) -> FloatArray:
    """Rank the best positive of every row among the candidates of its own shortlist.

    The rank is inf if no positive is in the shortlist, and nan if the query has no positive.
    """
    blocks = as_blocks(scores)
    height, width = blocks.shape
    row, column = _flat_shortlists(shortlists, height, width)
    value = gather(blocks, row, column)
    right = np.isin(row * width + column, positives.cells(width))
    best = _best(row[right], value[right], height)
    rank = 1 + _tally(row[~right & (value >= best[row])], height).astype(np.float64)
    rank[_tally(row[right], height) == 0] = np.inf
    rank[_tally(positives.rows, height) == 0] = np.nan
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


def _count_at_least(
    block: AnyArray, first_row: int, row_best: AnyArray, column_best: AnyArray | None
) -> tuple[IntArray, IntArray]:
    """Count the scores of each row and of each column that are at least its best positive."""
    height, width = block.shape
    step = min(_ROWS_PER_TASK, max(1, _CELLS_PER_TASK // width))
    by_row = np.empty(height, dtype=np.int64)
    by_column = np.zeros(0 if column_best is None else width, dtype=np.int64)

    def count(begin: int) -> AnyArray:
        rows = slice(begin, min(begin + step, height))
        scores = as_comparable(block[rows])
        return _count_rows(scores, first_row + begin, row_best[rows], column_best, by_row[rows])

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for counts in pool.map(count, range(0, height, step)):
            by_column += counts
    return by_row, by_column


def _count_rows(
    scores: AnyArray, first_row: int, row_best: AnyArray, column_best: AnyArray | None, by_row: IntArray
) -> npt.NDArray[np.uint8]:
    """Count at most 255 rows: into `by_row`, and by column into bytes, which are fastest to add."""
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
