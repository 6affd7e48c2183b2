"""A penalty of self-critical training for words that nobody says about the photo."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deixis.arrays import BoolArray, FloatArray, IntArray
from deixis.evaluation.captions.agreement import WordMatcher
from deixis.language.tagger import tag
from deixis.language.vocabulary import Vocabulary
from deixis.language.words import content_word_indices

_OTHER_WORDS = 0.5
"""What a wrong verb, adjective or number costs, if a wrong noun costs 1."""


class WrongWordPenalty:
    """Counts the nouns of sampled sentences that no caption of the photo has, and half of such other content words.

    Words match as in `deixis.evaluation.captions.agreement`: by stem or by WordNet sense. Whether a word is a noun or
    another content word is decided once: by what it is most often in the captions.
    """

    def __init__(self, references: Sequence[Sequence[Sequence[str]]], vocabulary: Vocabulary) -> None:
        self._cost = _costs([words for captions in references for words in captions], vocabulary)
        matcher = WordMatcher(vocabulary.words)
        self._size = len(self._cost)
        pairs = [
            photo * self._size + word
            for photo, captions in enumerate(references)
            for word in matcher.matches(map(" ".join, captions))
        ]
        self._said = np.sort(np.array(pairs, dtype=np.int64))

    def __call__(self, words: IntArray, photos: IntArray) -> FloatArray:
        """The penalty of each sentence (n, length), for the photo of a row of the references."""
        codes = photos[:, None] * self._size + words
        return np.asarray(np.where(self._is_said(codes), 0, self._cost[words]).sum(axis=1))

    def _is_said(self, codes: IntArray) -> BoolArray:
        if not len(self._said):
            return np.zeros(codes.shape, dtype=bool)
        nearest = np.minimum(np.searchsorted(self._said, codes), len(self._said) - 1)
        return np.asarray(self._said[nearest] == codes)


def _costs(captions: Sequence[Sequence[str]], vocabulary: Vocabulary) -> FloatArray:
    """What a wrong word costs, for each word of the network; words without content and tokens cost nothing."""
    number = {word: index for index, word in enumerate(vocabulary.words)}
    counts = np.zeros((len(number) + 3, 3), dtype=np.int64)  # no content, noun, other
    for words in captions:
        tags = tag(words)
        content = set(content_word_indices(words, tags))
        for index, word in enumerate(words):
            if word in number:
                counts[number[word], 0 if index not in content else 1 if tags[index][:2] == "NN" else 2] += 1
    return np.asarray(np.array([0, 1, _OTHER_WORDS])[counts.argmax(axis=1)])
