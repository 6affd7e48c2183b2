"""The word vectors inside a spaCy pipeline's folder, read without spaCy.

A pipeline keeps a matrix (``vocab/vectors``, a .npy file), a MessagePack map from the hash of a word to its row
(``vocab/key2row``) and all its words (``vocab/strings.json``). The hash is MurmurHash64A (Austin Appleby, public
domain) with seed 1.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DeixisError
from deixis.language.saved import damaged

MAX_BYTES = 256 * 2**20
_SYMBOLS = {
    "agent": 401, "cop": 411, "mark": 423, "meta": 424, "number": 432, "possessive": 441, "prep": 443, "root": 449,
}  # fmt: skip
"""Words that are also names of spaCy 3's own: it numbers them, and does not list them. The lower-case English ones."""

_MIX = np.uint64(0xC6A4A7935BD1E995)
_SHIFT = np.uint64(47)
_UNSIGNED_BYTES = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}


def read_spacy_folder(folder: Path) -> tuple[list[str], NDArray[np.int64], NDArray[np.float32]]:
    """The words that have a vector, the row of each, and the matrix (memory-mapped).

    Parameters
    ----------
    folder
        The pipeline's, which holds ``vocab``.
    """
    vocabulary = folder / "vocab"
    for name in ("vectors", "key2row", "strings.json"):
        path = vocabulary / name
        if not path.is_file():
            raise DeixisError(
                f"{folder}: neither saved word vectors nor a spaCy pipeline with vectors (no vocab/{name})"
            )
        if path.stat().st_size > (2**35 if name == "vectors" else MAX_BYTES):
            raise DeixisError(f"{path}: too large to be read")
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
    return [words[place] for place in known], rows[known], matrix


def _row_of_hash(packed: bytes) -> dict[int, int]:
    """Read a MessagePack map from unsigned integers to unsigned integers; nothing else is understood."""
    if packed[:1] != b"\xdf":
        raise ValueError("not a MessagePack map of more than 65,535 words")
    place = 5

    def number() -> int:
        nonlocal place
        mark = packed[place]
        if mark < 0x80:
            place += 1
            return mark
        end = place + 1 + _UNSIGNED_BYTES[mark]
        if end > len(packed):
            raise EOFError("it ends in the middle of a number")
        value = int.from_bytes(packed[place + 1 : end], "big")
        place = end
        return value

    return {number(): number() for _ in range(int.from_bytes(packed[1:5], "big"))}


def hash_words(words: Sequence[str]) -> NDArray[np.uint64]:
    """The 64-bit hash that spaCy gives each word.

    Examples
    --------
    >>> hash_words(["coffee"])  # as in spaCy's documentation
    array([3197928453018144401], dtype=uint64)
    """
    encoded = [word.encode("utf-8", errors="surrogatepass") for word in words]
    lengths = np.fromiter((len(word) for word in encoded), dtype=np.int64, count=len(encoded))
    hashes = np.zeros(len(encoded), dtype=np.uint64)
    for length in np.unique(lengths):
        places = np.flatnonzero(lengths == length)
        joined = b"".join(encoded[place] for place in places)
        hashes[places] = _murmur(np.frombuffer(joined, dtype=np.uint8).reshape(len(places), int(length)))
    return hashes


def _murmur(strings: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """MurmurHash64A with seed 1 of strings of equal length, one in each row."""
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
