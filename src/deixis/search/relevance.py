"""Relevance by captions: which photos show what a query says, as far as their captions tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DatasetError
from deixis.language.words import senses, stem
from deixis.search.query import content_words
from deixis.tokens import tokenize
from deixis.tokens import words as words_of_tokens

MIN_WORD_SHARE = 2 / 3
"""Fraction of the words of a query that the captions of a relevant photo must contain."""

Mask = NDArray[np.bool_]


class Relevance:
    """Decides from captions which photos are relevant to a query.

    A photo is relevant if its captions together contain the last word of every phrase of the query, usually the object,
    and at least two thirds of all its words. Words match if they share a stem or a WordNet sense. Captions do not
    mention everything, so some relevant photos are missed.

    Parameters
    ----------
    captions
        Captions of each photo.

    Examples
    --------
    >>> photos = Relevance([["A dog runs.", "A brown puppy."], ["Two cats on a mat."]])
    >>> photos.of("brown dogs", ["brown dogs"]).tolist(), photos.of("a dog and a cat", ["a dog", "a cat"]).tolist()
    ([True, False], [False, False])
    """

    def __init__(self, captions: Sequence[Iterable[str]]) -> None:
        self.count = len(captions)
        self._with_word: dict[str, Mask] = {}
        by_word: dict[str, Mask] = {}
        for index, of_photo in enumerate(captions):
            for word in {word for caption in of_photo for word in words_of(caption)}:
                by_word.setdefault(word, np.zeros(self.count, dtype=bool))[index] = True
        self._by_meaning: dict[object, Mask] = {}
        for word, photos in by_word.items():
            for meaning in _meanings(word):
                self._by_meaning[meaning] = self._by_meaning.get(meaning, photos) | photos

    def of(self, query: str, phrases: Iterable[str]) -> Mask:
        """Return which photos are relevant to a query with these phrases: (photos,)."""
        words = words_of(query)
        if not words:
            return np.zeros(self.count, dtype=bool)
        present = np.stack([self.with_word(word) for word in words])
        relevant = present.mean(axis=0) >= MIN_WORD_SHARE - 1e-9
        objects = {last for phrase in phrases for last in words_of(phrase)[-1:]}
        for name in objects:
            relevant &= self.with_word(name)
        return np.asarray(relevant)

    def with_word(self, word: str) -> Mask:
        """Return which photos have a caption with the word or a synonym."""
        if word not in self._with_word:
            none = np.zeros(self.count, dtype=bool)
            found = [self._by_meaning.get(meaning, none) for meaning in _meanings(word)]
            self._with_word[word] = np.logical_or.reduce([none, *found])
        return self._with_word[word]

    def has_absent_word(self, text: str) -> bool:
        """Return whether a content word of a text, and its synonyms, are in no caption."""
        return any(not self.with_word(word).any() for word in words_of(text))


def words_of(text: str) -> list[str]:
    """Return the content words of a text.

    Examples
    --------
    >>> words_of("Two dogs in the snow.")
    ['dogs', 'snow']
    """
    return content_words(words_of_tokens(tokenize(text)))


def _meanings(word: str) -> set[object]:
    return {f"stem {stem(word)}", *senses(word)}


class NamedThings:
    """Finds the photos with a caption that names a thing, given the phrases that would name it.

    A phrase matches by the stems of its words, next to each other. With ``=`` in front it matches exactly; with ``-``
    it is hidden before the others are matched.

    Parameters
    ----------
    captions
        Captions of each photo.

    Examples
    --------
    >>> photos = NamedThings([["Two dogs run."], ["A hot dog.", "Food."], ["Ripe oranges."], ["An orange cat."]])
    >>> photos.of("dog, puppy, -hot dog").tolist(), photos.of("=oranges").tolist()
    ([True, False, False, False], [False, False, True, False])
    """

    def __init__(self, captions: Iterable[Iterable[str]]) -> None:
        self._words = [[_padded(_words(caption)) for caption in of_photo] for of_photo in captions]
        self._stems = [[_padded(map(stem, caption.split())) for caption in of_photo] for of_photo in self._words]

    def of(self, phrases: str) -> Mask:
        """Return which photos have a caption with one of the comma-separated phrases: (photos,)."""
        listed = [phrase.strip() for phrase in phrases.split(",")]
        hidden = [_stemmed(phrase[1:]) for phrase in listed if phrase.startswith("-")]
        exact = [phrase[1:] for phrase in listed if phrase.startswith("=")]
        by_stem = [_stemmed(phrase) for phrase in listed if phrase[:1] not in ("-", "=")]

        def is_named(words: str, stems: str) -> bool:
            for phrase in hidden:
                stems = stems.replace(phrase, " | ")
            return any(phrase in stems for phrase in by_stem) or any(
                _padded(_words(phrase)) in words and _stemmed(phrase) in stems for phrase in exact
            )

        captions = (zip(*pair, strict=True) for pair in zip(self._words, self._stems, strict=True))
        return np.array([any(is_named(*caption) for caption in of_photo) for of_photo in captions], dtype=bool)


def _words(text: str) -> list[str]:
    return words_of_tokens(tokenize(text.lower()))


def _stemmed(phrase: str) -> str:
    return _padded(map(stem, _words(phrase)))


def _padded(words: Iterable[str]) -> str:
    return f" {' '.join(words)} "


def read_absent_list(file: Path, captions: Iterable[Iterable[str]], *, skip_named: bool = False) -> list[str]:
    """Read queries for things that no caption names, from lines of the form "query | phrase, phrase".

    Parameters
    ----------
    file
        Text file. Empty lines and lines that start with ``#`` are skipped.
    captions
        Captions of each photo.
    skip_named
        Leave out queries whose thing is named in a caption. By default they are an error.

    Returns
    -------
    list of str
        The queries.
    """
    named, found = NamedThings(captions), []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        query, _, phrases = (part.strip() for part in line.partition("|"))
        if not query or not phrases:
            raise DatasetError(f"{file}: line {number} must have the form 'query | thing, synonym'")
        if not named.of(phrases).any():
            found.append(query)
        elif not skip_named:
            raise DatasetError(f"{file}: line {number}: {phrases!r} is in a caption")
    return found
