"""Which photos of a data set show what a query says, as far as the captions of the photos tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from deixis.evaluation.captions.meteor_words import senses, stem
from deixis.tasks.search.seeing import content_words
from deixis.tokens import tokenize
from deixis.tokens import words as words_of_tokens

SHARE = 2 / 3
"""Of the words of a query that a photo's captions must hold, besides all of the things it names."""

Mask = NDArray[np.bool_]


class Relevance:
    """Looks queries up in the captions of photos.

    A photo shows what a query says if its captions, taken together, hold the last word of every phrase of the query,
    which is the thing as a rule, and at least two thirds of its other words. Words are the same if their stems are, or
    if WordNet has a sense that both have. Nobody's captions say all that a photo shows, so this errs by saying no.

    Parameters
    ----------
    captions
        Of each photo.

    Examples
    --------
    >>> photos = Relevance([["A dog runs.", "A brown puppy."], ["Two cats on a mat."]])
    >>> photos.of("brown dogs", ["brown dogs"]).tolist(), photos.of("a dog and a cat", ["a dog", "a cat"]).tolist()
    ([True, False], [False, False])
    """

    def __init__(self, captions: Sequence[Iterable[str]]) -> None:
        self.count = len(captions)
        self._holding: dict[str, Mask] = {}
        by_word: dict[str, Mask] = {}
        for place, of_photo in enumerate(captions):
            for word in {word for caption in of_photo for word in words_of(caption)}:
                by_word.setdefault(word, np.zeros(self.count, dtype=bool))[place] = True
        self._by_meaning: dict[object, Mask] = {}
        for word, held in by_word.items():
            for meaning in _meanings(word):
                self._by_meaning[meaning] = self._by_meaning.get(meaning, held) | held

    def of(self, query: str, phrases: Iterable[str]) -> Mask:
        """Which photos show what a query with these phrases says: (photos,)."""
        words = words_of(query)
        if not words:
            return np.zeros(self.count, dtype=bool)
        held = np.stack([self.holding(word) for word in words])
        shown = held.mean(axis=0) >= SHARE - 1e-9
        things = {last for phrase in phrases for last in words_of(phrase)[-1:]}
        for thing in things:
            shown &= self.holding(thing)
        return np.asarray(shown)

    def holding(self, word: str) -> Mask:
        """Which photos have a caption with the word, or one that means the same."""
        if word not in self._holding:
            none = np.zeros(self.count, dtype=bool)
            found = [self._by_meaning.get(meaning, none) for meaning in _meanings(word)]
            self._holding[word] = np.logical_or.reduce([none, *found])
        return self._holding[word]


def words_of(text: str) -> list[str]:
    """The words of a text that say something.

    Examples
    --------
    >>> words_of("Two dogs in the snow.")
    ['dogs', 'snow']
    """
    return content_words(words_of_tokens(tokenize(text)))


def _meanings(word: str) -> set[object]:
    return {f"stem {stem(word)}", *senses(word)}
