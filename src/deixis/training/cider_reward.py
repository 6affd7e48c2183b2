"""CIDEr-D of made-up captions of training photos, fast enough to be asked at every step of learning.

The references do not change while learning, so that all that depends on them alone is computed once: the n-grams of
each photo's captions, how rare they are, and their weights. `deixis.evaluation.captions.cider` has the formula and
gives the same numbers. The end sign counts as a word here: a caption that stops after *a man in a* is then worth less.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from deixis.errors import DatasetError
from deixis.evaluation.captions.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    Numbering,
    counted,
    distinct,
    is_new,
    order_by,
    runs,
    summed,
)
from deixis.evaluation.captions.cider import SCALE, SIGMA
from deixis.evaluation.captions.coded import LONGEST
from deixis.language.vocabulary import Vocabulary

END = "</s>"
"""Stands for the end sign; no word of a caption has such a form."""

FREELY_REPEATED = 0.05
"""Words that people write twice in so many of the captions that hold them, as *a* or *in*, are repeated for nothing."""


class CiderReward:
    """Scores sentences that a network has drawn against the captions of their photos.

    Parameters
    ----------
    references
        For each photo the words of its captions; a photo without any is not asked for.
    vocabulary
        The words that the network writes, by its numbers.
    repeat_cost
        What each repetition of a word that people seldom repeat takes off: CIDEr-D minds *a man and a man* too little.

    Examples
    --------
    >>> known = Vocabulary(("a", "dog", "cat"), (3, 2, 1))
    >>> reward = CiderReward([[["a", "dog"]], [["a", "cat"]]], known)
    >>> end = len(known) + 1
    >>> reward(np.array([[0, 1, end], [0, 2, end]]), np.array([0, 0])).round(2).tolist()
    [7.5, 0.0]
    """

    def __init__(
        self, references: Sequence[Sequence[Sequence[str]]], vocabulary: Vocabulary, *, repeat_cost: float = 0.0
    ) -> None:
        self._photos = len(references)
        self._per_photo = np.array([len(each) for each in references], dtype=np.int64)
        if not self._per_photo.any():
            raise DatasetError("cider: there is no caption to compare with")
        # As the network numbers them: its words, the unknown word, the end and the start sign; then all other words.
        ids = Numbering()
        ids.of([*vocabulary.words, "<unknown>", END, "<start>"])
        self._end = ids[END]
        texts = [[*words, END] for words in chain.from_iterable(references)]
        lengths = np.array([len(words) for words in texts])
        written = np.full((len(texts), int(lengths.max())), -1)
        written[np.arange(written.shape[1]) < lengths[:, None]] = ids.of(chain.from_iterable(texts))
        self._kinds = len(ids)
        self._bigrams = np.maximum(0, lengths - 1)
        self._first = np.cumsum(self._per_photo) - self._per_photo
        photo_of = np.repeat(np.arange(self._photos), self._per_photo)
        self._orders = [
            _Order(*self._grams(written, n), photo_of, len(texts), self._photos) for n in range(1, LONGEST + 1)
        ]
        self._repeat_costs = repeat_cost * self._seldom_repeated(written)

    def __call__(self, words: IntArray, photos: IntArray) -> FloatArray:
        """CIDEr-D, from 0 to 10, of each sentence, less what its repetitions cost.

        Parameters
        ----------
        words
            (n, longest): the numbers that the network has written; what comes after the end sign does not count.
        photos
            (n,): the row of the photo of each among those that have references.
        """
        ended = np.cumsum(words == self._end, axis=1) - (words == self._end)
        words = np.where(ended > 0, -1, words)
        count = self._per_photo[photos]
        pair_sentence = np.repeat(np.arange(len(words)), count)
        pair_reference = runs(self._first[photos], count)
        first_pair = np.cumsum(count) - count
        total = np.zeros(len(pair_sentence))
        for n, order in enumerate(self._orders, start=1):
            sentence, gram, times = self._grams(words, n)
            weight = times * order.rarity_of(gram)
            norm = np.sqrt(summed(sentence, weight**2, len(words)))
            entry, reference = order.shared(gram, photos[sentence])
            theirs, ours = order.weight[reference], weight[entry]
            pair = first_pair[sentence[entry]] + order.sentence[reference] - self._first[photos[sentence[entry]]]
            products = summed(pair, np.minimum(ours, theirs) * theirs, len(total))
            norms = norm[pair_sentence] * order.norm[pair_reference]
            total += np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
        bigrams = np.maximum(0, (words >= 0).sum(1) - 1)
        total *= np.exp(-((bigrams[pair_sentence] - self._bigrams[pair_reference]) ** 2) / (2 * SIGMA**2))
        agreement = SCALE / LONGEST * summed(pair_sentence, total, len(words)) / count
        return np.asarray(agreement - self._cost_of_repeats(words))

    def _seldom_repeated(self, written: IntArray) -> BoolArray:
        """Of each word, by its number, whether people seldom write it twice in a caption."""
        _, word, times = self._grams(written, 1)
        captions, repeated = (np.bincount(some, minlength=self._kinds) for some in (word, word[times > 1]))
        return np.asarray(repeated < FREELY_REPEATED * captions)

    def _cost_of_repeats(self, words: IntArray) -> FloatArray:
        sentence, word, times = self._grams(words, 1)
        return summed(sentence, (times - 1) * self._repeat_costs[word], len(words))

    def _grams(self, words: IntArray, n: int) -> tuple[IntArray, IntArray, IntArray]:
        """For each different n-gram of each sentence: sentence, the n-gram as one number, and how often; in order."""
        places = max(0, words.shape[1] - n + 1)
        code = np.zeros((len(words), places), dtype=np.int64)
        for place in range(n):
            code = code * self._kinds + words[:, place : place + places]
        there = words[:, n - 1 : n - 1 + places] >= 0
        sentence, gram = np.nonzero(there)[0], code[there]
        order = order_by(sentence, gram)
        sentence, gram = sentence[order], gram[order]
        begins = np.flatnonzero(is_new(sentence, gram))
        return sentence[begins], gram[begins], np.diff(begins, append=len(gram))


class _Order:
    """The n-grams of one length in all references: how rare each is, and where it stands."""

    def __init__(
        self, sentence: IntArray, gram: IntArray, times: IntArray, photo_of: IntArray, texts: int, photos: int
    ) -> None:
        self.known = distinct(gram)
        number = np.searchsorted(self.known, gram)
        photo = photo_of[sentence]
        in_photo = distinct(photo * len(self.known) + number)
        frequency = np.bincount(in_photo % len(self.known), minlength=len(self.known))
        self._new = float(np.log(photos))
        self._rarity = self._new - np.log(frequency)
        weight = times * self._rarity[number]
        self.norm = np.sqrt(summed(sentence, weight**2, texts))
        # Entries of one n-gram and one photo stand together, so that they are found by one search.
        order = np.argsort(photo * len(self.known) + number, kind="stable")
        self.sentence, self.weight = sentence[order], weight[order]
        self._pairs, self._entries = counted((photo * len(self.known) + number)[order])
        self._first = np.cumsum(self._entries) - self._entries

    def rarity_of(self, gram: IntArray) -> FloatArray:
        """The weight of n-grams for being rare: log of the photos over those with the n-gram."""
        number, there = _found(self.known, gram)
        return np.where(there, self._rarity[number], self._new)

    def shared(self, gram: IntArray, photo: IntArray) -> tuple[IntArray, IntArray]:
        """For each n-gram that a caption of its photo has too: its place in `gram`, and the caption's entry."""
        number, there = _found(self.known, gram)
        place, paired = _found(self._pairs, photo * len(self.known) + number)
        rows = np.flatnonzero(there & paired)
        count = self._entries[place[rows]]
        return np.repeat(rows, count), runs(self._first[place[rows]], count)


def _found(ordered: IntArray, wanted: IntArray) -> tuple[IntArray, BoolArray]:
    """The place of each value among sorted ones, and whether it is there."""
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return place, ordered[place] == wanted
