"""Photos whose captions name a thing."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from deixis.arrays import BoolArray
from deixis.language.words import stem
from deixis.tokens import tokenize, words


class NamedThings:
    """Finds the photos with a caption that names a thing, given the phrases that would name it.

    A phrase matches by the stems of its words, next to each other. With ``=`` in front it matches exactly; with ``-``
    it is hidden before the others are matched.
    """

    def __init__(self, captions: Iterable[Iterable[str]]) -> None:
        self._words = [[_padded(_words(caption)) for caption in of_photo] for of_photo in captions]
        self._stems = [[_padded(map(stem, caption.split())) for caption in of_photo] for of_photo in self._words]

    def of(self, phrases: str) -> BoolArray:
        """Return which photos have a caption with one of the comma-separated phrases: (photos,)."""
        listed = [phrase.strip() for phrase in phrases.split(",")]
        hidden = [_stemmed(phrase[1:]) for phrase in listed if phrase.startswith("-")]
        exact = [phrase[1:] for phrase in listed if phrase.startswith("=")]
        by_stem = [_stemmed(phrase) for phrase in listed if phrase[:1] not in ("-", "=")]

        def is_named(text: str, stems: str) -> bool:
            for phrase in hidden:
                stems = stems.replace(phrase, " | ")
            return any(phrase in stems for phrase in by_stem) or any(
                _padded(_words(phrase)) in text and _stemmed(phrase) in stems for phrase in exact
            )

        captions = (zip(*pair, strict=True) for pair in zip(self._words, self._stems, strict=True))
        return np.array([any(is_named(*caption) for caption in of_photo) for of_photo in captions], dtype=bool)

    def near(self, first: str, second: str, gap: int = 2) -> BoolArray:
        """Return which photos have a caption with two phrases at most `gap` words apart, by stems: (photos,)."""
        begin, end = _stemmed(first).strip(), _stemmed(second).strip()
        pattern = re.compile(rf" {re.escape(begin)} (?:\S+ ){{0,{gap}}}{re.escape(end)} ")
        return np.array([any(map(pattern.search, of_photo)) for of_photo in self._stems], dtype=bool)


def _words(text: str) -> list[str]:
    return words(tokenize(text.lower()))


def _stemmed(phrase: str) -> str:
    return _padded(map(stem, _words(phrase)))


def _padded(parts: Iterable[str]) -> str:
    return f" {' '.join(parts)} "
