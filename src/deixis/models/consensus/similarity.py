"""Similarity of sentences and captions (m-RNN, section 8.2): BLEU and CIDEr of every pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from deixis.evaluation.captions.metrics import SCALE, SIGMA
from deixis.evaluation.captions.ngrams import MAX_NGRAM

Floats = NDArray[np.float64]
IntArray = NDArray[np.int64]

_WORD_BITS = 31
"""Code of an n-gram: the number of its first n − 1 words, then the id of its last word in this many bits."""


class CaptionSimilarity:
    """Similarity of any sentences to a fixed set of captions.

    Every occurrence of an n-gram in a caption is a column of a sparse matrix, so that clipped counts are dot products:
    the i-th occurrence in a sentence matches the i-th occurrence in a caption. `captions` are those of each photo, as
    words. Document frequencies are counted over these photos.

    Examples
    --------
    >>> similarity = CaptionSimilarity([[["a", "dog"], ["a", "red", "dog"]], [["two", "cats"]]])
    >>> similarity.bleu([["a", "dog"]], np.arange(3)).round(2).tolist()
    [[1.0, 0.51, 0.0]]
    >>> similarity.cider([["a", "dog"]], np.arange(3)).round(2).tolist()
    [[5.0, 2.01, 0.0]]
    """

    def __init__(self, captions: Sequence[Sequence[Sequence[str]]]) -> None:
        sentences = [words for photo in captions for words in photo]
        photo_of = np.repeat(np.arange(len(captions)), [len(photo) for photo in captions])
        distinct = dict.fromkeys(chain.from_iterable(sentences))
        self._ids = {word: number for number, word in enumerate(distinct)}
        self._lengths = np.array([len(words) for words in sentences], dtype=np.int64)
        self._log_photos = float(np.log(max(1, len(captions))))
        self._known: list[_KnownNgrams] = []
        self._counts: list[Any] = []
        self._weights: list[Any] = []
        for codes, rows in self._ngrams(sentences):
            self._known.append(_KnownNgrams.of(codes, rows, photo_of))
            found = self._occurrences(len(self._known) - 1, codes, rows, len(sentences))
            weights = found.count * found.idf**2 / found.norm[found.row]
            self._counts.append(self._matrix(found, np.ones(len(found.row))))
            self._weights.append(self._matrix(found, weights))

    def bleu(self, sentences: Sequence[Sequence[str]], captions: IntArray) -> Floats:
        """BLEU-4 of each sentence (row) with each of these captions (column) as its only reference.

        Precisions of n-grams longer than one word are (matches + 1) / (n-grams + 1), after Lin and Och (2004): few
        pairs share four words in a row, and without smoothing all others would be 0.
        """
        length = np.array([len(words) for words in sentences], dtype=np.float64)[:, None]
        logs = np.zeros((len(sentences), len(captions)))
        for n, (codes, rows) in enumerate(self._ngrams(sentences)):
            found = self._occurrences(n, codes, rows, len(sentences))
            ours = self._matrix(found, np.ones(len(found.row)))
            matches = np.asarray((ours @ self._counts[n][captions].T).todense())
            smooth = 1.0 if n else 0.0
            with np.errstate(divide="ignore", invalid="ignore"):
                logs += np.nan_to_num(np.log((matches + smooth) / (np.maximum(length - n, 0) + smooth)), nan=-np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            brevity = np.minimum(0, 1 - np.nan_to_num(self._lengths[captions] / length, posinf=np.inf))
        return np.asarray(np.exp(logs / MAX_NGRAM + brevity))

    def cider(self, sentences: Sequence[Sequence[str]], captions: IntArray) -> Floats:
        """CIDEr-D (0 to 10) of each sentence (row) with each of these captions (column) as its only reference."""
        total = np.zeros((len(sentences), len(captions)))
        for n, (codes, rows) in enumerate(self._ngrams(sentences)):
            found = self._occurrences(n, codes, rows, len(sentences))
            ours = self._matrix(found, 1 / found.norm[found.row])
            total += np.asarray((ours @ self._weights[n][captions].T).todense())
        bigrams = np.array([max(0, len(words) - 1) for words in sentences])[:, None]
        difference = bigrams - np.maximum(0, self._lengths[captions] - 1)
        return np.asarray(SCALE / MAX_NGRAM * total * np.exp(-(difference**2) / (2 * SIGMA**2)))

    def _ngrams(self, sentences: Sequence[Sequence[str]]) -> Iterator[tuple[IntArray, IntArray]]:
        """For n = 1, 2, …: the code of each n-gram, and its sentence.

        Before it continues with n + 1, the n-grams of length n must be in `_known`.
        """
        words = _word_ids(sentences, self._ids)
        lengths = np.array([len(each) for each in sentences], dtype=np.int64)
        rows = np.repeat(np.arange(len(sentences)), lengths)
        last = np.cumsum(lengths)[rows] - 1  # last word of the sentence that each word is in
        first, prefix = np.arange(len(words)), np.zeros(len(words), dtype=np.int64)
        for n in range(MAX_NGRAM):
            fits = first + n <= last[first]
            first, prefix = first[fits], prefix[fits]
            codes = prefix << _WORD_BITS | words[first + n]
            yield codes, rows[first]
            prefix = self._known[n].numbers(codes)

    def _occurrences(self, n: int, codes: IntArray, rows: IntArray, sentences: int) -> _Occurrences:
        known = self._known[n]
        ngrams = known.numbers(codes)
        order = np.lexsort((ngrams, rows))
        ngrams, rows = ngrams[order], rows[order]
        first = np.flatnonzero(np.diff(ngrams, prepend=-1) | np.diff(rows, prepend=-1))
        counts = np.diff(first, append=len(ngrams))
        count = np.repeat(counts, counts)
        rank = np.arange(len(ngrams)) - np.repeat(first, counts)
        photos = np.append(known.photos, 1)[np.minimum(ngrams, len(known.photos))]  # 1 if no caption has it
        idf = self._log_photos - np.log(photos)
        squares = np.bincount(rows[first], (counts * idf[first]) ** 2, sentences)
        # A sentence of n-grams that every photo has is a vector of length 0: all its similarities are 0.
        norm = np.where(squares > 0, np.sqrt(squares), np.inf)
        return _Occurrences(rows, ngrams, rank, count, idf, norm, known)

    def _matrix(self, found: _Occurrences, values: Floats) -> Any:
        """A sparse matrix: one row per sentence, one column per occurrence that a caption has."""
        columns = found.known.columns
        there = found.ngram < len(columns) - 1
        row, ngram, rank, values = found.row[there], found.ngram[there], found.rank[there], values[there]
        fits = rank < columns[ngram + 1] - columns[ngram]
        cells = row[fits], (columns[ngram] + rank)[fits]
        return sparse.csr_array((values[fits], cells), shape=(len(found.norm), int(columns[-1])))


@dataclass(frozen=True)
class _KnownNgrams:
    """The n-grams of one length that captions have.

    Attributes
    ----------
    codes
        Sorted.
    photos
        Number of photos that have each n-gram in a caption.
    columns
        The first column of each n-gram, which has as many as its highest count in a caption; and the number of columns.
    """

    codes: IntArray
    photos: IntArray
    columns: IntArray

    @classmethod
    def of(cls, codes: IntArray, rows: IntArray, photo_of_row: IntArray) -> _KnownNgrams:
        distinct, ngrams = np.unique(codes, return_inverse=True)
        base = 1 + max(len(photo_of_row), int(photo_of_row.max(initial=0)))  # above all numbers of captions and photos
        in_photos = np.unique(ngrams * base + photo_of_row[rows]) // base
        in_captions, counts = np.unique(ngrams * base + rows, return_counts=True)
        highest = np.zeros(len(distinct), dtype=np.int64)
        np.maximum.at(highest, in_captions // base, counts)
        photos = np.bincount(in_photos, minlength=len(distinct))
        return cls(distinct, photos, np.concatenate([[0], np.cumsum(highest)]))

    def numbers(self, codes: IntArray) -> IntArray:
        """The number of each n-gram; those that no caption has get higher ones, equal n-grams the same."""
        index = np.searchsorted(self.codes, codes)
        known = np.zeros(len(codes), dtype=bool)
        inside = index < len(self.codes)
        known[inside] = self.codes[index[inside]] == codes[inside]
        found = np.where(known, index, 0)
        found[~known] = len(self.codes) + np.unique(codes[~known], return_inverse=True)[1]
        return found


@dataclass(frozen=True)
class _Occurrences:
    """Occurrences of n-grams of one length in sentences, sorted by sentence and n-gram.

    Attributes
    ----------
    row, ngram, rank
        The sentence, the n-gram, and the number of earlier occurrences in the sentence.
    count, idf
        Occurrences in the sentence, and inverse document frequency.
    norm
        For each sentence the length of its vector of count · idf.
    known
        The n-grams of captions.
    """

    row: IntArray
    ngram: IntArray
    rank: IntArray
    count: IntArray
    idf: Floats
    norm: Floats
    known: _KnownNgrams


def _word_ids(sentences: Sequence[Sequence[str]], known: Mapping[str, int]) -> IntArray:
    """Ids of all words, sentence after sentence; words that no caption has get higher ids."""
    unknown: dict[str, int] = {}
    found = [
        known[word] if word in known else len(known) + unknown.setdefault(word, len(unknown))
        for words in sentences
        for word in words
    ]
    return np.array(found, dtype=np.int64)
