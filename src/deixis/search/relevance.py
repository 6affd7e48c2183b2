"""Relevance by captions: which photos show what a query says, as far as their captions tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from deixis.arrays import BoolArray
from deixis.language.words import senses, stem
from deixis.search.query import content_words
from deixis.tokens import tokenize
from deixis.tokens import words as words_of_tokens

MIN_WORD_SHARE = 2 / 3
"""Fraction of the words of a query that the captions of a relevant photo must contain."""


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
        self._with_word: dict[str, BoolArray] = {}
        by_word: dict[str, BoolArray] = {}
        for index, of_photo in enumerate(captions):
            for word in {word for caption in of_photo for word in words_of(caption)}:
                by_word.setdefault(word, np.zeros(self.count, dtype=bool))[index] = True
        self._by_meaning: dict[object, BoolArray] = {}
        for word, photos in by_word.items():
            for meaning in _meanings(word):
                self._by_meaning[meaning] = self._by_meaning.get(meaning, photos) | photos

    def of(self, query: str, phrases: Iterable[str]) -> BoolArray:
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

    def with_word(self, word: str) -> BoolArray:
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
