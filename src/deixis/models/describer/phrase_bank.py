"""The phrases that regions are described with, and how often they occur in captions."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np

from deixis.arrays import Floats
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.language.sentence import Sentence, parse_sentences
from deixis.tokens import words

MAX_WORDS = 6
MIN_COUNT = 3
"""Longer and rarer phrases are left out."""

FUNCTION_WORDS = frozenset(
    (
        *("a", "an", "the", "some", "his", "her", "its", "their", "our", "your", "my", "this", "that", "these"),
        *("those", "other", "others", "another", "one", "ones", "each", "both", "it", "something", "someone"),
    )
)
"""Words that do not change the meaning of a phrase ("a dog", "the dog") and mean nothing alone."""

LONG_WORDS = (4, 14)
"""Fewest and most words of a long phrase."""

LONG_MIN_COUNT = 2
"""Number of photos that a long phrase must be said of."""

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
    def from_photos(cls, photos: Iterable[Photo], *, min_count: int = MIN_COUNT) -> PhraseBank:
        """Count the noun phrases of captions.

        If a photo has boxes, only phrases whose chain has one are counted; captions without mentions are parsed.
        Phrases without content ("one", "the other") and long or rare ones are left out.
        """
        counted: Counter[str] = Counter()
        for photo in photos:
            counted.update(
                phrase
                for phrase in _phrases_of(photo)
                if len(phrase.split()) <= MAX_WORDS and not FUNCTION_WORDS.issuperset(phrase.split())
            )
        kept = [(phrase, count) for phrase, count in counted.most_common() if count >= min_count]
        if not kept:
            raise DeixisError(f"no noun phrase of at most {MAX_WORDS} words occurs {min_count} times in these captions")
        return cls(*zip(*kept, strict=True))

    @classmethod
    def long_from_photos(cls, photos: Iterable[Photo], *, min_count: int = LONG_MIN_COUNT) -> PhraseBank:
        """Count the noun phrases with a prepositional phrase or a clause: "a man in a red hat", "a dog with a stick".

        Captions are parsed. Counts are numbers of photos, so that no phrase is the words of one person.
        """
        counted: Counter[str] = Counter()
        for photo in photos:
            sentences = [Sentence.from_caption(caption) for caption in photo.sentences]
            parse_sentences(sentences)
            counted.update({phrase for sentence in sentences for phrase in long_phrases(sentence)})
        kept = [(phrase, count) for phrase, count in counted.most_common() if count >= min_count]
        if not kept:
            raise DeixisError(f"no long noun phrase occurs in {min_count} of these photos")
        return cls(*zip(*kept, strict=True))

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


def long_phrases(sentence: Sentence) -> list[str]:
    """The noun phrases of a sentence that begin with a visible thing and say more about it.

    Examples
    --------
    >>> long_phrases(Sentence("A man in a red hat and a woman sit on something soft."))
    ['a man in a red hat']
    """
    first = {phrase.start: phrase for phrase in sentence.phrases}
    found = []
    for phrase in sentence.nested_phrases:
        head = first[phrase.start]
        text, start = _normalized(phrase.text), _normalized(head.text)
        if phrase.end == head.end or not LONG_WORDS[0] <= len(text.split()) <= LONG_WORDS[1]:
            continue
        if any(child.label == "CC" for child in phrase.node.children):  # lists several things
            continue
        follows = sentence.tags[head.end]
        names_thing = not FUNCTION_WORDS.issuperset(start.split())
        if names_thing and (follows in ("IN", "TO") or follows.startswith("VB")):
            found.append(text)
    return found


def _phrases_of(photo: Photo) -> Iterator[str]:
    shown = {chain for box in photo.boxes for chain in box.chains}
    for caption in photo.captions:
        if not caption.related:
            continue
        if not caption.mentions:
            yield from (_normalized(phrase.text) for phrase in Sentence.from_caption(caption).phrases)
        for mention in caption.mentions:
            if mention.chain is not None and (mention.chain in shown or not photo.boxes):
                yield _normalized(caption.phrase(mention))


def _normalized(phrase: str) -> str:
    """In lower case and without punctuation; "man 's" becomes "man's"."""
    return " ".join(words(phrase)).replace(" 's", "'s").replace(" '", "'")


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
