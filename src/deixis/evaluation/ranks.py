"""The rank of the best right answer of every query, counted, never sorted.

Scores are a matrix, higher is better, whose rows and columns are both queries: photos × sentences, say. The right
answers are pairs of a row and a column. A row's rank is

    1 + the number of wrong columns whose score is at least that of its best right column,

and a column's rank is the same with the words exchanged. So equal scores count against the system (a matrix of one
constant finds nothing first), and right answers never stand in each other's way.

Counting needs one look at each score. Both directions are counted in the same look, while the scores are in the
processor's cache, and a few rows at a time, so that scores may lie in a file or be computed on the way. Where numba is
installed, large matrices are counted by a compiled loop, with the same result.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deixis.errors import DeixisError
from deixis.evaluation.scores import (
    AnyArray,
    IntArray,
    ScoreBlocks,
    Scores,
    as_blocks,
    blocks_of,
    check_finite,
    comparable,
    gather,
)

FloatArray = npt.NDArray[np.float64]

TIE_RULE = "pessimistic: a wrong answer with the score of the best right one is ranked before it"

_BYTES_IN_CACHE = 3 << 18
_CELLS_OF_A_TASK = 1 << 22
# The most that a byte can count is 255, and the compiled loop takes four rows at once.
_ROWS_OF_A_TASK = 252
# To load numba takes longer than it then saves on one matrix of this size; but who has made so many scores has waited
# much longer for them, and of every further matrix it more than halves the time.
_CELLS_WORTH_COMPILING = 50_000_000

# Scores, the number of their first row, each row's and each column's best, and where to put the counts of the rows;
# the counts of the columns come back.
RowCounter = Callable[[AnyArray, int, AnyArray, AnyArray | None, IntArray], AnyArray]


@dataclass(frozen=True)
class Pairs:
    """Cells of a score matrix, each at most once, in the order of their rows."""

    rows: IntArray
    columns: IntArray

    def cells(self, width: int) -> IntArray:
        """Each pair as one number, increasing."""
        return self.rows * width + self.columns


@dataclass(frozen=True, eq=False)
class Ranks:
    """The rank of every row and of every column as a query; nan where a query has no right answer."""

    rows: FloatArray
    columns: FloatArray


def make_pairs(rows: npt.ArrayLike, columns: npt.ArrayLike, shape: tuple[int, int]) -> Pairs:
    """Sort pairs and drop those named twice.

    Examples
    --------
    >>> make_pairs([1, 0, 1], [2, 0, 2], shape=(2, 3))
    Pairs(rows=array([0, 1]), columns=array([0, 2]))
    """
    row_array, column_array = whole_numbers(rows, "rows"), whole_numbers(columns, "columns")
    if row_array.shape != column_array.shape:
        raise DeixisError(f"pairs: {len(row_array)} rows and {len(column_array)} columns do not pair up")
    for name, values, size in (("row", row_array, shape[0]), ("column", column_array, shape[1])):
        outside = np.flatnonzero((values < 0) | (values >= size))
        if outside.size:
            at = outside[0]
            raise DeixisError(f"pairs: pair {at} names {name} {values[at]}, but there are {size} {name}s")
    cells = np.sort(row_array * shape[1] + column_array)
    cells = cells[np.diff(cells, prepend=-1) > 0]
    return Pairs(cells // shape[1], cells % shape[1])


def pairs_of(photo_of_sentence: npt.ArrayLike, photos: int | None = None) -> Pairs:
    """The right pairs of photos (rows) and sentences (columns).

    Examples
    --------
    >>> pairs_of([0, 1, 0]).columns.tolist()
    [0, 2, 1]
    """
    owners = whole_numbers(photo_of_sentence, "photo_of_sentence")
    count = photos if photos is not None else int(owners.max(initial=-1)) + 1
    outside = np.flatnonzero((owners < 0) | (owners >= count))
    if outside.size:
        at = outside[0]
        raise DeixisError(
            f"photo_of_sentence: sentence {at} belongs to photo {owners[at]}, but there are {count} photos"
        )
    return make_pairs(owners, np.arange(len(owners)), (count, len(owners)))


def ranks(scores: Scores, positives: Pairs, ignored: Pairs | None = None, *, columns: bool = True) -> Ranks:
    """Rank every row's and every column's best positive in one look at the scores.

    Parameters
    ----------
    scores
        A matrix, a memory-mapped one, or `ScoreBlocks`; finite, higher is better.
    positives
        The right cells. A row and a column may have any number of them.
    ignored
        Cells that are neither right nor wrong: a sentence and itself.
    columns
        False leaves the columns' ranks empty, and asks `ScoreBlocks` for each block once only.

    Examples
    --------
    The second photo's own sentence has the same score as another one, and comes after it.

    >>> found = ranks([[0.9, 0.1], [0.5, 0.5]], pairs_of([0, 1]))
    >>> found.rows.tolist(), found.columns.tolist()
    ([1.0, 2.0], [1.0, 1.0])
    """
    blocks = as_blocks(scores)
    height, width = blocks.shape
    uncounted, right = _uncounted(positives, ignored, width)
    column_best = _best_of_columns(blocks, positives) if columns else None
    count_rows = _quickest_counter(height * width)
    rank_of_row = np.empty(height)
    rank_of_column = np.ones(width if columns else 0)
    for begin, block in blocks_of(blocks):
        end = begin + len(block)
        here = slice(*np.searchsorted(uncounted.rows, [begin, end]))
        row, column, is_right = uncounted.rows[here] - begin, uncounted.columns[here], right[here]
        value = comparable(block[row, column])
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
    """Rank every row's best positive (or every column's) among the candidates of its own shortlist only.

    Parameters
    ----------
    scores, positives
        As for `ranks`. Only the scores of candidates are looked at.
    shortlists
        For each query the indices of its candidates, none twice. They may differ in length.
    of_columns
        True when the queries are the columns and the candidates rows.

    Returns
    -------
    array
        The rank, inf where no positive is in the shortlist, nan where the query has no positive at all.

    Examples
    --------
    >>> scores = [[0.1, 0.9, 0.8], [0.3, 0.2, 0.1], [0.9, 0.8, 0.7]]
    >>> shortlist_ranks(scores, pairs_of([0, 1, 2]), [[0, 1], [1, 2], [0, 1]]).tolist()
    [2.0, 1.0, inf]
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


def whole_numbers(values: npt.ArrayLike, name: str) -> IntArray:
    """A list of indices as an array; anything else is an error."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise DeixisError(f"{name}: a plain list of whole numbers is needed")
    return array.astype(np.int64)


def _uncounted(positives: Pairs, ignored: Pairs | None, width: int) -> tuple[Pairs, npt.NDArray[np.bool_]]:
    """All cells that are not wrong answers, in the order of their rows, and which of them are right."""
    if ignored is None:
        return positives, np.ones(len(positives.rows), dtype=bool)
    right = positives.cells(width)
    cells = np.union1d(right, ignored.cells(width))
    return Pairs(cells // width, cells % width), np.isin(cells, right)


def _best_of_columns(scores: ScoreBlocks, positives: Pairs) -> AnyArray:
    """The score of each column's best positive."""
    return _best(positives.columns, gather(scores, positives.rows, positives.columns), scores.shape[1])


def _best(query: IntArray, value: AnyArray, queries: int) -> AnyArray:
    """The best value of each query; the lowest of its type where it has none."""
    lowest = np.finfo(value.dtype).min if value.dtype.kind == "f" else np.iinfo(value.dtype).min
    best = np.full(queries, lowest, dtype=value.dtype)
    np.maximum.at(best, query, value)
    return best


def _tally(indices: IntArray, size: int) -> IntArray:
    return np.bincount(indices, minlength=size)


def _quickest_counter(cells: int) -> RowCounter:
    """The compiled loop for many scores where numba is there, otherwise numpy."""
    if cells < _CELLS_WORTH_COMPILING:
        return _count_rows
    try:
        from deixis.evaluation import compiled_counts
    except ImportError:
        return _count_rows

    def count(
        scores: AnyArray, first_row: int, row_best: AnyArray, column_best: AnyArray | None, by_row: IntArray
    ) -> AnyArray:
        if not compiled_counts.can_count(scores, row_best, column_best):
            return _count_rows(scores, first_row, row_best, column_best, by_row)
        cut = len(scores) - len(scores) % compiled_counts.ROWS_AT_ONCE
        by_column = compiled_counts.count_rows(scores[:cut], first_row, row_best[:cut], column_best, by_row[:cut])
        by_column += _count_rows(scores[cut:], first_row + cut, row_best[cut:], column_best, by_row[cut:])
        return by_column

    return count


def _count_at_least(
    block: AnyArray, first_row: int, row_best: AnyArray, column_best: AnyArray | None, count_rows: RowCounter
) -> tuple[IntArray, IntArray]:
    """How many scores of each row and of each column reach the row's and the column's own best."""
    height, width = block.shape
    step = min(_ROWS_OF_A_TASK, max(4, _CELLS_OF_A_TASK // width // 4 * 4))
    by_row = np.empty(height, dtype=np.int64)
    by_column = np.zeros(0 if column_best is None else width, dtype=np.int64)

    def count(begin: int) -> AnyArray:
        rows = slice(begin, min(begin + step, height))
        scores = comparable(block[rows])
        return count_rows(scores, first_row + begin, row_best[rows], column_best, by_row[rows])

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for counts in pool.map(count, range(0, height, step)):
            by_column += counts
    return by_row, by_column


def _count_rows(
    scores: AnyArray, first_row: int, row_best: AnyArray, column_best: AnyArray | None, by_row: IntArray
) -> npt.NDArray[np.uint8]:
    """Count at most 252 rows: into `by_row`, and by column into bytes, which add up quickest."""
    height, width = scores.shape
    step = max(1, _BYTES_IN_CACHE // (width * scores.itemsize))
    by_column = np.zeros(0 if column_best is None else width, dtype=np.uint8)
    reached = np.empty((min(step, height), width), dtype=bool)
    for begin in range(0, height, step):
        panel = scores[begin : begin + step]
        flags = reached[: len(panel)]
        # A sum is quicker than a look at each score; one that overflows is no proof, so each is looked at then.
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
    """Shortlists as pairs of a query and a candidate."""
    if len(shortlists) != queries:
        raise DeixisError(f"shortlists: {len(shortlists)} lists for {queries} queries")
    lists = [whole_numbers(each, f"shortlists: list {at}") for at, each in enumerate(shortlists)]
    query = np.repeat(np.arange(queries), [len(each) for each in lists])
    candidate = np.concatenate(lists) if lists else np.empty(0, dtype=np.int64)
    outside = np.flatnonzero((candidate < 0) | (candidate >= candidates))
    if outside.size:
        at = outside[0]
        raise DeixisError(f"shortlists: list {query[at]} names candidate {candidate[at]}, but there are {candidates}")
    cells, times = np.unique(query * candidates + candidate, return_counts=True)
    if times.max(initial=0) > 1:
        twice = int(cells[np.argmax(times > 1)])
        raise DeixisError(f"shortlists: list {twice // candidates} names candidate {twice % candidates} twice")
    return query, candidate
