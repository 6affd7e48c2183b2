"""How like sentences are to each of many captions, by BLEU and by CIDEr-D, with one caption at a time as reference.

Words become numbers, and an n-gram is the number of the n-gram that is a word shorter with that of its last word, so
that all n-grams of all captions are counted by sorting. An n-gram that a sentence has twice is two pieces, the first
and the second of it: n-grams in common, counted as often as both sentences have them, are then pieces in common, which
a product of sparse matrices counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from deixis.evaluation.captions.coded import LONGEST

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

_SIGMA = 6.0
_WORD_BITS = 31
"""An n-gram's code: the number of the shorter one, and in so many bits the number of its last word."""


class CaptionSimilarity:
    """How like other sentences are to each of the captions it was made of.

    Parameters
    ----------
    captions
        For each photo the words of its captions. Rare n-grams are those in the captions of few of these photos.

    Examples
    --------
    >>> like = CaptionSimilarity([[["a", "dog"], ["a", "red", "dog"]], [["two", "cats"]]])
    >>> like.bleu([["a", "dog"]], np.arange(3)).round(2).tolist()
    [[1.0, 0.51, 0.0]]
    >>> like.cider([["a", "dog"]], np.arange(3)).round(2).tolist()
    [[5.0, 2.01, 0.0]]
    """

    def __init__(self, captions: Sequence[Sequence[Sequence[str]]]) -> None:
        sentences = [words for photo in captions for words in photo]
        photo_of = np.repeat(np.arange(len(captions)), [len(photo) for photo in captions])
        distinct = dict.fromkeys(chain.from_iterable(sentences))
        self._number = {word: number for number, word in enumerate(distinct)}
        self._lengths = np.array([len(words) for words in sentences], dtype=np.int64)
        self._log_photos = float(np.log(max(1, len(captions))))
        self._known: list[_Known] = []
        self._pieces: list[Any] = []
        self._weights: list[Any] = []
        for codes, rows in self._read(sentences):
            self._known.append(_Known.of(codes, rows, photo_of))
            found = self._counted(len(self._known) - 1, codes, rows, len(sentences))
            worth = found.count * found.idf**2 / found.norm[found.row]
            self._pieces.append(self._matrix(found, np.ones(len(found.row))))
            self._weights.append(self._matrix(found, worth))

    def bleu(self, sentences: Sequence[Sequence[str]], captions: Numbers) -> Floats:
        """BLEU-4 of each sentence (row) with each of some captions (columns) as its only reference.

        Of two words and more, precisions are (right + 1) / (all + 1), after Lin and Och (2004): few pairs of captions
        have four words in a row in common, and without that all others would be 0.
        """
        length = np.array([len(words) for words in sentences], dtype=np.float64)[:, None]
        logs = np.zeros((len(sentences), len(captions)))
        for n, (codes, rows) in enumerate(self._read(sentences)):
            found = self._counted(n, codes, rows, len(sentences))
            ours = self._matrix(found, np.ones(len(found.row)))
            right = np.asarray((ours @ self._pieces[n][captions].T).todense())
            smooth = 1.0 if n else 0.0
            with np.errstate(divide="ignore", invalid="ignore"):
                logs += np.nan_to_num(np.log((right + smooth) / (np.maximum(length - n, 0) + smooth)), nan=-np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            brevity = np.minimum(0, 1 - np.nan_to_num(self._lengths[captions] / length, posinf=np.inf))
        return np.asarray(np.exp(logs / LONGEST + brevity))

    def cider(self, sentences: Sequence[Sequence[str]], captions: Numbers) -> Floats:
        """CIDEr-D of each sentence (row) with each of some captions (columns) as its only reference: 0 to 10."""
        total = np.zeros((len(sentences), len(captions)))
        for n, (codes, rows) in enumerate(self._read(sentences)):
            found = self._counted(n, codes, rows, len(sentences))
            ours = self._matrix(found, 1 / found.norm[found.row])
            total += np.asarray((ours @ self._weights[n][captions].T).todense())
        length = np.array([max(0, len(words) - 1) for words in sentences])[:, None]
        longer = length - np.maximum(0, self._lengths[captions] - 1)
        return np.asarray(10 / LONGEST * total * np.exp(-(longer**2) / (2 * _SIGMA**2)))

    def _read(self, sentences: Sequence[Sequence[str]]) -> Iterator[tuple[Numbers, Numbers]]:
        """For n-grams of one word, of two and so on: the code of each, and its sentence.

        Codes of a length are numbered by what is known of it when the next length is asked for.
        """
        words = _numbered(sentences, self._number)
        lengths = np.array([len(each) for each in sentences], dtype=np.int64)
        rows = np.repeat(np.arange(len(sentences)), lengths)
        last = np.cumsum(lengths)[rows] - 1  # of the sentence that each word is in
        begin, gram = np.arange(len(words)), np.zeros(len(words), dtype=np.int64)
        for n in range(LONGEST):
            goes_on = begin + n <= last[begin]
            begin, gram = begin[goes_on], gram[goes_on]
            codes = gram << _WORD_BITS | words[begin + n]
            yield codes, rows[begin]
            gram = self._known[n].numbered(codes)

    def _counted(self, n: int, codes: Numbers, rows: Numbers, sentences: int) -> _Counted:
        """The pieces of sentences, those that no caption has among them."""
        known = self._known[n]
        grams = known.numbered(codes)
        order = np.lexsort((grams, rows))
        grams, rows = grams[order], rows[order]
        first = np.flatnonzero(np.diff(grams, prepend=-1) | np.diff(rows, prepend=-1))
        counts = np.diff(first, append=len(grams))
        count = np.repeat(counts, counts)
        before = np.arange(len(grams)) - np.repeat(first, counts)
        photos = np.append(known.photos, 1)[np.minimum(grams, len(known.photos))]  # 1 for what no caption has
        idf = self._log_photos - np.log(photos)
        squares = np.bincount(rows[first], (counts * idf[first]) ** 2, sentences)
        # A sentence of nothing but what every photo has is of no length: whatever is divided by it is 0.
        norm = np.where(squares > 0, np.sqrt(squares), np.inf)
        return _Counted(rows, grams, before, count, idf, norm, known)

    def _matrix(self, found: _Counted, values: Floats) -> Any:
        """A row for each sentence, a column for each piece that captions have."""
        room = found.known.room
        there = found.gram < len(room) - 1
        row, gram, before, values = found.row[there], found.gram[there], found.before[there], values[there]
        fits = before < room[gram + 1] - room[gram]
        place = row[fits], (room[gram] + before)[fits]
        return sparse.csr_array((values[fits], place), shape=(len(found.norm), int(room[-1])))


@dataclass(frozen=True)
class _Known:
    """The n-grams of one length that captions have.

    Attributes
    ----------
    codes
        Sorted.
    photos
        For each n-gram, how many photos have it in a caption.
    room
        Where the pieces of each n-gram begin, as many as a caption has of it at most, and the end.
    """

    codes: Numbers
    photos: Numbers
    room: Numbers

    @classmethod
    def of(cls, codes: Numbers, rows: Numbers, photo_of_row: Numbers) -> _Known:
        """What captions have."""
        distinct, grams = np.unique(codes, return_inverse=True)
        kinds = 1 + max(len(photo_of_row), int(photo_of_row.max(initial=0)))  # more than captions, and than photos
        in_photos = np.unique(grams * kinds + photo_of_row[rows]) // kinds
        in_captions, counts = np.unique(grams * kinds + rows, return_counts=True)
        most = np.zeros(len(distinct), dtype=np.int64)
        np.maximum.at(most, in_captions // kinds, counts)
        return cls(distinct, np.bincount(in_photos, minlength=len(distinct)), np.concatenate([[0], np.cumsum(most)]))

    def numbered(self, codes: Numbers) -> Numbers:
        """The number of each n-gram; those that no caption has are numbered from there on, alike ones alike."""
        place = np.searchsorted(self.codes, codes)
        known = np.zeros(len(codes), dtype=bool)
        inside = place < len(self.codes)
        known[inside] = self.codes[place[inside]] == codes[inside]
        found = np.where(known, place, 0)
        found[~known] = len(self.codes) + np.unique(codes[~known], return_inverse=True)[1]
        return found


@dataclass(frozen=True)
class _Counted:
    """The pieces of sentences, sorted by sentence and n-gram.

    Attributes
    ----------
    row, gram, before
        For each piece its sentence, its n-gram, and how many of that the sentence has before it.
    count, idf
        How many of it the sentence has, and how rare it is.
    norm
        For each sentence the length of its vector of counts times idf.
    known
        What captions have.
    """

    row: Numbers
    gram: Numbers
    before: Numbers
    count: Numbers
    idf: Floats
    norm: Floats
    known: _Known


def _numbered(sentences: Sequence[Sequence[str]], known: Mapping[str, int]) -> Numbers:
    """The numbers of all words, sentence after sentence; words that no caption has are numbered from there on."""
    strange: dict[str, int] = {}
    found = [
        known[word] if word in known else len(known) + strange.setdefault(word, len(strange))
        for words in sentences
        for word in words
    ]
    return np.array(found, dtype=np.int64)
