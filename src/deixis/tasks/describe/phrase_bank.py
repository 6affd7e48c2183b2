"""The phrases that a region may be described with: a plain list, each with how often people said it."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from deixis.data.records import Caption, Photo
from deixis.errors import DeixisError
from deixis.files.atomic import new_file
from deixis.language.features.base import Floats
from deixis.language.sentence import Sentence
from deixis.tokens import words

MOST_WORDS = 6
LEAST = 3
"""How often a phrase must have been said to be kept."""

EMPTY_WORDS = frozenset(
    (
        *("a", "an", "the", "some", "his", "her", "its", "their", "our", "your", "my", "this", "that", "these"),
        *("those", "other", "others", "another", "one", "ones", "each", "both", "it", "something", "someone"),
    )
)
"""Words that make no other phrase of one, "a dog" and "the dog" say the same, and that say nothing alone."""

_LARGEST = 64 << 20
"""Bytes of a list as it is read; a compressed file may claim to hold any number."""


@dataclass(frozen=True)
class PhraseBank:
    """Phrases and how often each was said.

    Attributes
    ----------
    phrases
        In lower case, each once.
    counts
        Of each, 1 or more.

    Examples
    --------
    >>> bank = PhraseBank(("a man", "a red bus"), (30, 10))
    >>> bank.log_shares().round(2)
    array([-0.29, -1.39], dtype=float32)
    """

    phrases: tuple[str, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.phrases:
            raise DeixisError("a phrase bank without phrases describes nothing")
        if len(self.phrases) != len(self.counts) or min(self.counts) < 1:
            raise DeixisError(f"{len(self.phrases):,} phrases need as many counts of 1 or more")

    def __len__(self) -> int:
        """How many phrases there are."""
        return len(self.phrases)

    def log_shares(self) -> Floats:
        """Of each phrase, the logarithm of its share of all that was said."""
        counts = np.array(self.counts, dtype=np.float64)
        return np.asarray(np.log(counts / counts.sum()), dtype=np.float32)

    @classmethod
    def of_photos(cls, photos: Iterable[Photo], *, most_words: int = MOST_WORDS, least: int = LEAST) -> PhraseBank:
        """Count the noun phrases of captions.

        Where a photo has boxes, only phrases whose thing has one count; captions without mentions are parsed. Phrases
        that say nothing alone ("one", "the other") are left out.

        Parameters
        ----------
        photos
            Of the training split, or what is said of others is given away.
        most_words
            Longer phrases are left out.
        least
            So are those that occur less often.

        Examples
        --------
        >>> said = [Photo(str(n), (Caption.from_text("A dog chases a red ball."),)) for n in range(3)]
        >>> PhraseBank.of_photos(said)
        PhraseBank(phrases=('a dog', 'a red ball'), counts=(3, 3))
        """
        counted: Counter[str] = Counter()
        for photo in photos:
            counted.update(phrase for phrase in _said_of(photo) if _says_something(phrase, most_words))
        kept = [(phrase, count) for phrase, count in counted.most_common() if count >= least]
        if not kept:
            raise DeixisError(f"no noun phrase of at most {most_words} words occurs {least} times in these captions")
        return cls(*zip(*kept, strict=True))

    @classmethod
    def read(cls, path: str | PathLike[str]) -> PhraseBank:
        r"""Read a list: one phrase a line and, if it is known, how often it was said, after a tab.

        A phrase without a count was said once; lines with nothing on them are passed over; files that end in .gz are
        compressed. Phrases that occur twice are added up.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "bank.txt"
        ...     _ = file.write_text("A red bus\t12\n\nour dog Rex\n")
        ...     PhraseBank.read(file)
        PhraseBank(phrases=('a red bus', 'our dog rex'), counts=(12, 1))
        """
        file = Path(path)
        counted: Counter[str] = Counter()
        for number, line in enumerate(_text_of(file).splitlines(), start=1):
            text, _, count = line.partition("\t")
            phrase = " ".join(text.lower().split())
            if phrase:
                counted[phrase] += _count(count.strip(), f"{file}: line {number}")
            elif count.strip():
                raise DeixisError(f"{file}: line {number} has a count, but no phrase before it")
        if not counted:
            raise DeixisError(f"{file}: holds no phrase; give one on each line")
        return cls(tuple(counted), tuple(counted.values()))

    def save(self, path: str | PathLike[str]) -> None:
        """Write a list that `read` reads, compressed if its name ends in .gz."""
        text = "".join(f"{phrase}\t{count}\n" for phrase, count in zip(self.phrases, self.counts, strict=True))
        data = text.encode()
        with new_file(path) as unfinished:
            # Without the time of writing, the same bank is the same file.
            unfinished.write_bytes(gzip.compress(data, mtime=0) if Path(path).suffix == ".gz" else data)


def _said_of(photo: Photo) -> Iterator[str]:
    shown = {chain for box in photo.boxes for chain in box.chains}
    for caption in photo.captions:
        if not caption.related:
            continue
        if not caption.mentions:
            yield from _parsed(caption)
            continue
        for mention in caption.mentions:
            if mention.chain is not None and (mention.chain in shown or not photo.boxes):
                yield _written(caption.phrase(mention))


def _parsed(caption: Caption) -> Iterator[str]:
    for phrase in Sentence.of_caption(caption).phrases:
        yield _written(phrase.text)


def _written(phrase: str) -> str:
    """In lower case, without punctuation, and a man's hand as people write it, not in tokens."""
    return " ".join(words(phrase)).replace(" 's", "'s").replace(" '", "'")


def _says_something(phrase: str, most_words: int) -> bool:
    words_of_phrase = phrase.split()
    return len(words_of_phrase) <= most_words and not EMPTY_WORDS.issuperset(words_of_phrase)


def _count(text: str, where: str) -> int:
    if not text:
        return 1
    if not (text.isascii() and text.isdigit() and int(text[:18]) > 0):
        raise DeixisError(f"{where}: after the tab stands {text!r}, which is no count of 1 or more")
    return int(text[:18])


def _text_of(file: Path) -> str:
    try:
        if file.suffix == ".gz":
            with gzip.open(file) as opened:
                data = opened.read(_LARGEST + 1)
        else:
            with file.open("rb") as plain:
                data = plain.read(_LARGEST + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DeixisError(f"{file}: is damaged, or not compressed by gzip as its name says") from None
    if len(data) > _LARGEST:
        raise DeixisError(f"{file}: holds more than {_LARGEST >> 20} MB; that is no list of phrases")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DeixisError(f"{file}: is not text in UTF-8") from None
