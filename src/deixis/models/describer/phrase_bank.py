"""The phrases that regions are described with, and how often they occur in captions."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from deixis.arrays import Floats
from deixis.errors import DeixisError

FUNCTION_WORDS = frozenset(
    (
        *("a", "an", "the", "some", "his", "her", "its", "their", "our", "your", "my", "this", "that", "these"),
        *("those", "other", "others", "another", "one", "ones", "each", "both", "it", "something", "someone"),
    )
)
"""Words that do not change the meaning of a phrase ("a dog", "the dog") and mean nothing alone."""

_MAX_BYTES = 64 << 20
"""Maximum size of a list, uncompressed: a small compressed file may expand to any size."""


@dataclass(frozen=True)
class PhraseBank:
    """Distinct phrases in lower case, and how often each occurs: at least once."""

    phrases: tuple[str, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.phrases:
            raise DeixisError("a phrase bank needs at least one phrase")
        if len(self.phrases) != len(self.counts) or min(self.counts) < 1:
            raise DeixisError(f"{len(self.phrases):,} phrases need as many counts, each at least 1")

    def __len__(self) -> int:
        return len(self.phrases)

    def log_frequencies(self) -> Floats:
        """Logarithm of the relative frequency of each phrase."""
        counts = np.array(self.counts, dtype=np.float64)
        return np.asarray(np.log(counts / counts.sum()), dtype=np.float32)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> PhraseBank:
        """Read a list: one phrase per line, optionally with its count after a tab.

        The count is 1 by default; empty lines are ignored; files that end in .gz are compressed. Counts of repeated
        phrases are added.
        """
        file = Path(path)
        counted: Counter[str] = Counter()
        for number, line in enumerate(_read_text(file).splitlines(), start=1):
            text, _, count = line.partition("\t")
            phrase = " ".join(text.lower().split())
            if phrase:
                counted[phrase] += _count(count.strip(), f"{file}: line {number}")
            elif count.strip():
                raise DeixisError(f"{file}: line {number} has a count, but no phrase")
        if not counted:
            raise DeixisError(f"{file}: holds no phrase; give one per line")
        return cls(tuple(counted), tuple(counted.values()))


def content_words(phrase: str) -> set[str]:
    """The words of a phrase without function words; all words if there are no others."""
    words = set(phrase.split())
    return words - FUNCTION_WORDS or words


def _count(text: str, where: str) -> int:
    if not text:
        return 1
    if not (text.isascii() and text.isdigit() and int(text[:18]) > 0):
        raise DeixisError(f"{where}: {text!r} after the tab is not a count of at least 1")
    return int(text[:18])


def _read_text(file: Path) -> str:
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DeixisError(f"{file}: is damaged, or not compressed by gzip") from None
    if len(data) > _MAX_BYTES:
        raise DeixisError(f"{file}: holds more than {_MAX_BYTES >> 20} MB; it is not a list of phrases")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DeixisError(f"{file}: is not UTF-8 text") from None
