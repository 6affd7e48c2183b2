"""Score matrices, higher is better: in memory, in a file, or computed a few rows at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis.errors import DeixisError

IntArray = npt.NDArray[np.int64]
AnyArray = npt.NDArray[Any]

_FLOATS = (np.float16, np.float32, np.float64)
_CELLS_OF_A_CHECK = 1 << 22
_CELLS_OF_A_BLOCK = 1 << 24


@dataclass(frozen=True)
class ScoreBlocks:
    """Scores that are computed when they are asked for, so that they need never lie in memory at once.

    Attributes
    ----------
    shape
        The number of rows and of columns.
    rows
        Given `begin` and `end`, the scores of these rows in all columns. It is asked for each block twice when both
        directions are ranked, and must answer the same.
    rows_at_once
        How many rows to ask for; without it, as many as make some 17 million scores.

    Examples
    --------
    >>> photos, sentences = np.eye(3), np.eye(3)[[0, 0, 1, 2]]
    >>> scores = ScoreBlocks((3, 4), lambda begin, end: photos[begin:end] @ sentences.T)
    >>> scores.rows(0, 1).tolist()
    [[1.0, 1.0, 0.0, 0.0]]
    """

    shape: tuple[int, int]
    rows: Callable[[int, int], AnyArray]
    rows_at_once: int | None = None


Scores = npt.ArrayLike | ScoreBlocks


def as_blocks(scores: Scores) -> ScoreBlocks:
    """Any scores as blocks; what is no matrix of plain numbers is an error."""
    if isinstance(scores, ScoreBlocks):
        return scores
    try:
        matrix = np.asarray(scores)
    except ValueError as error:
        raise DeixisError("scores: the rows of a matrix must be equally long") from error
    check_matrix(matrix, "scores")
    height, width = matrix.shape
    # A slice costs nothing, so there is no reason to cut what is already there.
    return ScoreBlocks((height, width), lambda begin, end: matrix[begin:end], rows_at_once=height)


def check_matrix(matrix: AnyArray, name: str) -> None:
    """Refuse what cannot be scores, whatever its values."""
    if matrix.ndim != 2:
        raise DeixisError(f"{name}: scores have two dimensions, this has {matrix.ndim}")
    if matrix.dtype.kind not in "iu" and matrix.dtype.newbyteorder("=") not in _FLOATS:
        raise DeixisError(f"{name}: scores are whole numbers or float16, float32 or float64, not {matrix.dtype}")
    if 0 in matrix.shape:
        raise DeixisError(f"{name}: no scores in a matrix of {matrix.shape[0]} × {matrix.shape[1]}")


def scores_from_file(path: str | os.PathLike[str]) -> AnyArray:
    """Open a `.npy` file of scores without reading it into memory, and check that every score is finite.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder) / "scores.npy", np.eye(3, dtype=np.float32))
    ...     scores_from_file(Path(folder) / "scores.npy").shape
    (3, 3)
    """
    try:
        with np.errstate(over="ignore"):
            matrix: AnyArray = np.lib.format.open_memmap(Path(path), mode="r")
    except OSError as error:
        raise DeixisError(f"{path}: {error.strerror or 'cannot be opened'}") from error
    except Exception as error:  # a damaged header raises whatever Python's tokenizer and parser raise
        raise DeixisError(f"{path}: not a whole .npy file of plain numbers") from error
    check_matrix(matrix, str(path))
    step = max(1, _CELLS_OF_A_CHECK // matrix.shape[1])
    for begin in range(0, len(matrix), step):
        check_finite(matrix[begin : begin + step], begin, str(path))
    return matrix


def blocks_of(scores: ScoreBlocks) -> Iterator[tuple[int, AnyArray]]:
    """Each block of rows with the number of its first row."""
    height, width = scores.shape
    step = scores.rows_at_once or max(1, _CELLS_OF_A_BLOCK // max(1, width))
    for begin in range(0, height, step):
        end = min(begin + step, height)
        block = np.asarray(scores.rows(begin, end))
        if block.shape != (end - begin, width):
            raise DeixisError(f"scores: rows {begin} to {end} came as {block.shape}, not {(end - begin, width)}")
        check_matrix(block, "scores")
        yield begin, block


def gather(scores: ScoreBlocks, rows: IntArray, columns: IntArray) -> AnyArray:
    """The scores of cells in any order."""
    order = np.argsort(rows, kind="stable")
    sorted_rows = rows[order]
    values = []
    for begin, block in blocks_of(scores):
        here = order[slice(*np.searchsorted(sorted_rows, [begin, begin + len(block)]))]
        value = comparable(block[rows[here] - begin, columns[here]])
        _check_cells_finite(value, rows[here], columns[here])
        values.append(value)
    gathered = np.concatenate(values)
    back = np.empty_like(gathered)
    back[order] = gathered
    return back


def comparable(values: AnyArray) -> AnyArray:
    """The same numbers in a type that processors compare quickly, in rows that lie in one piece."""
    wanted = np.dtype(np.float32) if values.dtype.kind == "f" and values.itemsize == 2 else values.dtype
    return np.ascontiguousarray(values, dtype=wanted.newbyteorder("="))


def check_finite(scores: AnyArray, first_row: int, name: str) -> None:
    """Name the first score that is nan or infinite; `first_row` is the number of the first row given."""
    if scores.dtype.kind == "f" and not np.isfinite(scores).all():
        row, column = np.argwhere(~np.isfinite(scores))[0]
        raise DeixisError(
            f"{name}: the score in row {first_row + row}, column {column} (from 0) is {scores[row, column]}"
        )


def _check_cells_finite(values: AnyArray, rows: IntArray, columns: IntArray) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        at = np.flatnonzero(~np.isfinite(values))[0]
        raise DeixisError(f"scores: the score in row {rows[at]}, column {columns[at]} (from 0) is {values[at]}")
