"""Score matrices (higher is better): in memory, in a file, or computed in blocks of rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deixis.arrays import AnyArray, IntArray
from deixis.errors import DeixisError

_FLOATS = (np.float16, np.float32, np.float64)
_CELLS_PER_CHECK = 1 << 22
_CELLS_PER_BLOCK = 1 << 24


@dataclass(frozen=True)
class ScoreBlocks:
    """A score matrix that is computed in blocks of rows, so that it need not fit in memory."""

    shape: tuple[int, int]  # number of rows and columns
    # Function from `begin` and `end` to the scores of these rows. It is called twice for each block when both
    # directions are ranked, and must return the same scores.
    rows: Callable[[int, int], AnyArray]
    rows_at_once: int | None = None  # number of rows per block; by default as many as give about 17 million scores


Scores = npt.ArrayLike | ScoreBlocks


def as_blocks(scores: Scores) -> ScoreBlocks:
    """Convert any scores to blocks; raise `DeixisError` unless they are a matrix of numbers."""
    if isinstance(scores, ScoreBlocks):
        return scores
    try:
        matrix = np.asarray(scores)
    except ValueError as error:
        raise DeixisError("scores: the rows of the matrix have different lengths") from error
    check_matrix(matrix, "scores")
    height, width = matrix.shape
    # Slicing an array is free, so one block is enough.
    return ScoreBlocks((height, width), lambda begin, end: matrix[begin:end], rows_at_once=height)


def check_matrix(matrix: AnyArray, name: str) -> None:
    """Check the shape and the type of a score matrix."""
    if matrix.ndim != 2:
        raise DeixisError(f"{name}: scores need two dimensions, not {matrix.ndim}")
    if matrix.dtype.kind not in "iu" and matrix.dtype.newbyteorder("=") not in _FLOATS:
        raise DeixisError(f"{name}: scores must be integers, float16, float32 or float64, not {matrix.dtype}")
    if 0 in matrix.shape:
        raise DeixisError(f"{name}: the matrix is empty ({matrix.shape[0]} × {matrix.shape[1]})")


def open_scores(path: str | os.PathLike[str]) -> AnyArray:
    """Memory-map a `.npy` file of scores and check that every score is finite."""
    try:
        with np.errstate(over="ignore"):
            matrix: AnyArray = np.lib.format.open_memmap(Path(path), mode="r")
    except OSError as error:
        raise DeixisError(f"{path}: {error.strerror or 'cannot be opened'}") from error
    except Exception as error:  # a damaged header can raise any error of Python's tokenizer and parser
        raise DeixisError(f"{path}: not a complete .npy file of numbers") from error
    check_matrix(matrix, str(path))
    step = max(1, _CELLS_PER_CHECK // matrix.shape[1])
    for begin in range(0, len(matrix), step):
        check_finite(matrix[begin : begin + step], begin, str(path))
    return matrix


def iterate_blocks(scores: ScoreBlocks) -> Iterator[tuple[int, AnyArray]]:
    """Yield each block of rows with the index of its first row."""
    height, width = scores.shape
    step = scores.rows_at_once or max(1, _CELLS_PER_BLOCK // max(1, width))
    for begin in range(0, height, step):
        end = min(begin + step, height)
        block = np.asarray(scores.rows(begin, end))
        if block.shape != (end - begin, width):
            raise DeixisError(f"scores: rows {begin} to {end} have shape {block.shape}, not {(end - begin, width)}")
        check_matrix(block, "scores")
        yield begin, block


def gather(scores: ScoreBlocks, rows: IntArray, columns: IntArray) -> AnyArray:
    """Return the scores of cells in any order."""
    order = np.argsort(rows, kind="stable")
    sorted_rows = rows[order]
    values = []
    for begin, block in iterate_blocks(scores):
        here = order[slice(*np.searchsorted(sorted_rows, [begin, begin + len(block)]))]
        value = as_comparable(block[rows[here] - begin, columns[here]])
        _check_cells_finite(value, rows[here], columns[here])
        values.append(value)
    gathered = np.concatenate(values)
    back = np.empty_like(gathered)
    back[order] = gathered
    return back


def as_comparable(values: AnyArray) -> AnyArray:
    """Convert to a contiguous array of a type that processors compare fast."""
    dtype = np.dtype(np.float32) if values.dtype.kind == "f" and values.itemsize == 2 else values.dtype
    return np.ascontiguousarray(values, dtype=dtype.newbyteorder("="))


def check_finite(scores: AnyArray, first_row: int, name: str) -> None:
    """Raise `DeixisError` naming the first score that is not finite; `first_row` is the index of the first row."""
    if scores.dtype.kind == "f" and not np.isfinite(scores).all():
        row, column = np.argwhere(~np.isfinite(scores))[0]
        raise DeixisError(
            f"{name}: the score in row {first_row + row}, column {column} (from 0) is {scores[row, column]}"
        )


def _check_cells_finite(values: AnyArray, rows: IntArray, columns: IntArray) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        at = np.flatnonzero(~np.isfinite(values))[0]
        raise DeixisError(f"scores: the score in row {rows[at]}, column {columns[at]} (from 0) is {values[at]}")
