"""Files of word vectors: GloVe text, word2vec text and word2vec binary, read with limits and one line for a fault."""

from __future__ import annotations

import gzip
import re
import zlib
from io import BufferedReader
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DeixisError

MAX_WORDS = 10_000_000
MAX_DIMENSION = 4096
MAX_WORD_BYTES = 2000
"""The longest word; those of GoogleNews reach 98 bytes."""

MAX_LINE_BYTES = MAX_WORD_BYTES + 32 * MAX_DIMENSION

_HEADER = re.compile(rb"([0-9]{1,12}) ([0-9]{1,6})\s*\n")
_FIRST_BYTES = 1 << 16
_GROWTH = 65_536

Floats = NDArray[np.float32]
_File = gzip.GzipFile | BufferedReader


def read_vector_file(path: Path, limit: int | None = None) -> tuple[list[str], Floats]:
    """Words and their vectors, from a file of any of the three kinds, plain or gzip.

    Parameters
    ----------
    path
        The file.
    limit
        At most so many words; None for all.
    """
    try:
        with _opened(path) as file:
            first = file.read(_FIRST_BYTES)
        header = _HEADER.match(first)
        with _opened(path) as file:
            if header is None:
                return _read_text(path, file, None, limit)
            file.readline()
            stated = int(header[1]), int(header[2])
            _check_size(path, *stated)
            read = _read_text if _is_text(first[header.end() :]) else _read_binary
            return read(path, file, stated, limit)
    except (OSError, EOFError, zlib.error) as error:
        raise DeixisError(f"{path}: cannot be read ({error})") from error


def _opened(path: Path) -> _File:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else path.open("rb")


def _is_text(after_header: bytes) -> bool:
    """Whether the first vector is written in digits."""
    numbers = after_header.split(b"\n", 1)[0].split(b" ")[1:]
    try:
        return bool([float(number) for number in numbers if number.strip()])
    except ValueError:
        return False


def _check_size(path: Path, words: int, dimension: int) -> None:
    if not 0 < dimension <= MAX_DIMENSION:
        raise DeixisError(f"{path}: {dimension} dimensions; from 1 to {MAX_DIMENSION:,} can be read")
    if words > MAX_WORDS:
        raise DeixisError(f"{path}: states {words:,} words; at most {MAX_WORDS:,} can be read")


class _Table:
    """Rows that grow as they are read, so that a header's word is never taken for how much memory to use."""

    def __init__(self, path: Path, dimension: int) -> None:
        self.path = path
        self.words: list[str] = []
        self._blocks: list[Floats] = []
        self._block = np.empty((0, dimension), dtype=np.float32)

    def add(self, word: str, vector: Floats | list[float]) -> None:
        place = len(self.words) % _GROWTH
        if place == 0:
            self._block = np.empty((_GROWTH, self._block.shape[1]), dtype=np.float32)
            self._blocks.append(self._block)
        self._block[place] = vector
        self.words.append(word)

    def finish(self) -> tuple[list[str], Floats]:
        if not self.words:
            raise DeixisError(f"{self.path}: holds no word vectors")
        last = (len(self.words) - 1) % _GROWTH + 1
        matrix = np.concatenate([*self._blocks[:-1], self._blocks[-1][:last]])
        bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
        if len(bad):
            raise DeixisError(f"{self.path}: the vector of word {bad[0] + 1} ({self.words[bad[0]]!r}) is not finite")
        return self.words, matrix


def _read_text(path: Path, file: _File, stated: tuple[int, int] | None, limit: int | None) -> tuple[list[str], Floats]:
    table, dimension = None, stated[1] if stated else 0
    wanted = min(limit if limit is not None else MAX_WORDS, stated[0] if stated else MAX_WORDS)
    number = 1 if stated else 0
    while (table is None or len(table.words) < wanted) and (line := file.readline(MAX_LINE_BYTES)):
        number += 1
        if not line.strip():
            continue
        fields = line.rstrip(b"\r\n ").split(b" ")
        dimension = dimension or len(fields) - 1
        if table is None:
            _check_size(path, 0, dimension)
            table = _Table(path, dimension)
        table.add(*_parsed(path, number, fields, dimension))
    if stated and limit is None and (table is None or len(table.words) < stated[0]):
        raise DeixisError(f"{path}: ends after {len(table.words) if table else 0:,} of {stated[0]:,} words")
    return (table or _Table(path, max(dimension, 1))).finish()


def _parsed(path: Path, number: int, fields: list[bytes], dimension: int) -> tuple[str, list[float]]:
    if len(fields) <= dimension:
        raise DeixisError(f"{path}: line {number} has {len(fields)} fields, not a word and {dimension} numbers")
    word = b" ".join(fields[:-dimension])  # some words of GloVe hold spaces
    try:
        return word.decode("utf-8", errors="replace"), [float(field) for field in fields[-dimension:]]
    except ValueError as error:
        raise DeixisError(f"{path}: line {number} is not a word and {dimension} numbers ({str(error)[:80]})") from None


def _read_binary(path: Path, file: _File, stated: tuple[int, int], limit: int | None) -> tuple[list[str], Floats]:
    count, dimension = stated
    table = _Table(path, dimension)
    buffer, place = b"", 0
    needed = MAX_WORD_BYTES + 4 * dimension
    for number in range(1, min(count, limit if limit is not None else count) + 1):
        if len(buffer) - place < needed:
            buffer, place = buffer[place:] + file.read(needed + (1 << 20)), 0
        space = buffer.find(b" ", place, place + MAX_WORD_BYTES)
        vector_end = space + 1 + 4 * dimension
        if space < 0 and len(buffer) - place >= MAX_WORD_BYTES:
            raise DeixisError(f"{path}: word {number} is longer than {MAX_WORD_BYTES} bytes; not a word2vec file?")
        if space < 0 or vector_end > len(buffer):
            raise DeixisError(f"{path}: ends within word {number} of {count:,}; it may be truncated")
        word = buffer[place:space].lstrip(b"\n").decode("utf-8", errors="replace")
        table.add(word, np.frombuffer(buffer, dtype="<f4", count=dimension, offset=space + 1))
        place = vector_end
    return table.finish()
