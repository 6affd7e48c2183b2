"""Captions as integer arrays: word ids, n-gram ids, and the count of each n-gram in each sentence.

All sentences are in one flat array. The candidates come first, one per photo, so that the index of a candidate is the
index of its photo; the references follow, photo by photo. The sorting and grouping helpers here are several times
faster than `np.unique` and `np.lexsort` on such arrays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from deixis.arrays import AnyArray, BoolArray, FloatArray, IntArray
from deixis.errors import DatasetError
from deixis.tokens import words

_BITS = 63


class Numbering(defaultdict[str, int]):
    """A dictionary that gives each new word the next number."""

    def __init__(self) -> None:
        super().__init__(self.__len__)

    def encode(self, words: Iterable[str]) -> IntArray:
        """Return the numbers of words."""
        return np.array(list(map(self.__getitem__, words)), dtype=np.int64)


def distinct(values: IntArray) -> IntArray:
    """Return the sorted distinct values."""
    ordered = np.sort(values)
    return ordered[is_new(ordered)]


def count_distinct(values: IntArray) -> tuple[IntArray, IntArray]:
    """Return the sorted distinct values and the number of occurrences of each."""
    ordered = np.sort(values)
    begins = np.flatnonzero(is_new(ordered))
    return ordered[begins], np.diff(begins, append=len(ordered))


def number_distinct(values: IntArray) -> tuple[IntArray, int]:
    """Return the rank of each value among the distinct ones, and the number of distinct values."""
    order = order_by(values)
    rank = np.cumsum(is_new(values[order])) - 1
    numbers = np.empty_like(rank)
    numbers[order] = rank
    return numbers, int(rank[-1]) + 1 if len(rank) else 0


def order_by(*columns: IntArray) -> IntArray:
    """Return the stable order that sorts rows by the first column, then by the second and so on.

    Columns that fit into one 63-bit number are sorted as one, which is much faster than `np.lexsort`.
    """
    n = len(columns[0])
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    shifted = [column - column.min() for column in columns]
    widths = [int(column.max()).bit_length() for column in shifted]
    index_width = (n - 1).bit_length()
    if sum(widths) + index_width > _BITS:
        return np.lexsort(columns[::-1])
    key = shifted[0]
    for column, width in zip(shifted[1:], widths[1:], strict=True):
        key = key << width | column
    key = key << index_width | np.arange(n)
    return np.asarray(np.sort(key) & ((1 << index_width) - 1))


def sum_by_group(groups: IntArray, values: IntArray | FloatArray, n: int) -> FloatArray:
    """Return the sum of the values of each of n groups."""
    return np.bincount(groups, values, n).astype(np.float64, copy=False)


def first_of_run(ordered: IntArray) -> IntArray:
    """Return, for each of some sorted values, the index of the first equal value."""
    return np.maximum.accumulate(np.where(is_new(ordered), np.arange(len(ordered)), 0))


def is_new(*columns: AnyArray) -> BoolArray:
    """Return whether each row differs from the row before it."""
    new = np.ones(len(columns[0]), dtype=bool)
    new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return new


MAX_NGRAM = 4
"""Maximum length of the n-grams of BLEU and CIDEr."""


@dataclass(frozen=True, eq=False)
class Ngrams:
    """The n-grams of one length."""

    # One entry for each distinct n-gram of each sentence, by sentence and then by gram
    sentence: IntArray
    gram: IntArray
    count: IntArray
    kinds: int  # number of distinct n-grams in all sentences
    # The two entries of each n-gram that a reference shares with the candidate of its photo
    of_candidate: IntArray
    of_reference: IntArray


@dataclass(frozen=True, eq=False)
class CaptionSet:
    """One candidate caption and one or more references for each photo, as words."""

    photos: tuple[str, ...]  # photo ids, in the order of all per-photo values
    # The words of each sentence, as `deixis.tokens.words` returns them
    candidates: Sequence[Sequence[str]]
    references: Sequence[Sequence[Sequence[str]]]

    @cached_property
    def photo_of_reference(self) -> IntArray:
        """Index of the photo of each reference."""
        return np.repeat(np.arange(len(self.photos)), [len(each) for each in self.references])

    @cached_property
    def photo_of_sentence(self) -> IntArray:
        """Index of the photo of each sentence, candidates first."""
        return np.concatenate([np.arange(len(self.photos)), self.photo_of_reference])

    @cached_property
    def lengths(self) -> IntArray:
        """Number of words of each sentence, candidates first."""
        return np.array([len(sentence) for sentence in self.sentences()], dtype=np.int64)

    @cached_property
    def encoded(self) -> tuple[Numbering, IntArray]:
        """The number of each distinct word, and the words of all sentences, candidates first, as numbers."""
        ids = Numbering()
        return ids, ids.encode(chain.from_iterable(self.sentences()))

    @cached_property
    def ngrams(self) -> tuple[Ngrams, ...]:
        """The n-grams of one to four words."""
        ids, word = self.encoded
        sentence = np.repeat(np.arange(len(self.lengths)), self.lengths)
        left = np.repeat(np.cumsum(self.lengths), self.lengths) - np.arange(len(word))
        found = []
        start, gram, kinds = np.arange(len(word)), word, len(ids)
        for n in range(1, MAX_NGRAM + 1):
            if n > 1:
                stays = left[start] >= n
                start, gram = start[stays], gram[stays]
                gram, kinds = number_distinct(gram * len(ids) + word[start + n - 1])
            found.append(self._count_ngrams(sentence[start], gram, kinds))
        return tuple(found)

    def sentences(self) -> Iterator[Sequence[str]]:
        """Iterate over all sentences, candidates first."""
        return chain(self.candidates, chain.from_iterable(self.references))

    def _count_ngrams(self, sentence: IntArray, gram: IntArray, kinds: int) -> Ngrams:
        """Count each n-gram in each sentence, and find those that references share with their candidate."""
        codes, count = count_distinct(sentence * max(1, kinds) + gram)
        sentence, gram = np.divmod(codes, max(1, kinds))
        first_reference = int(np.searchsorted(sentence, len(self.photos)))
        shared_codes = self.photo_of_sentence[sentence[first_reference:]] * max(1, kinds) + gram[first_reference:]
        candidates = codes[:first_reference]
        position = np.searchsorted(candidates, shared_codes)
        shared = (
            np.flatnonzero(candidates[np.minimum(position, first_reference - 1)] == shared_codes)
            if first_reference
            else position[:0]
        )
        return Ngrams(sentence, gram, count, kinds, position[shared], first_reference + shared)


def caption_set(candidates: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> CaptionSet:
    """Tokenize the candidate and the references of each photo.

    Raises `DatasetError` unless every photo has one candidate and at least one reference.
    """
    if not references:
        raise DatasetError("captions: no photo has references")
    _check_same_photos(candidates, references)
    for photo, texts in references.items():
        if isinstance(texts, str) or not texts:
            raise DatasetError(f"photo {photo}: the references must be a list of one or more sentences")
    photos = tuple(references)
    return CaptionSet(
        photos,
        [_tokenize(photo, candidates[photo], "candidate") for photo in photos],
        [[_tokenize(photo, text, "reference") for text in references[photo]] for photo in photos],
    )


def _check_same_photos(candidates: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> None:
    missing = [photo for photo in references if photo not in candidates]
    if missing:
        raise DatasetError(
            f"photo {missing[0]} has no candidate caption ({len(missing)} of {len(references)} photos have none)"
        )
    unknown = [photo for photo in candidates if photo not in references]
    if unknown:
        raise DatasetError(f"photo {unknown[0]} has a candidate caption but no references ({len(unknown)} such photos)")


def _tokenize(photo: str, text: object, what: str) -> list[str]:
    if not isinstance(text, str):
        raise DatasetError(f"photo {photo}: the {what} must be text, not {text!r}")
    return words(text)
