"""N-grams of captions as integer arrays, and what sentences share with references: the core of BLEU and CIDEr.

The score CIDEr-D, the reward of self-critical training and consensus reranking compare sentences with `References`. The
sorting and grouping helpers here are several times faster than `np.unique` and `np.lexsort` on such arrays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from deixis.arrays import AnyArray, BoolArray, FloatArray, IntArray, expand_runs
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

    def look_up(self, words: Iterable[str]) -> IntArray:
        """Return the numbers of words; new words are not stored, and get higher numbers, equal words the same."""
        new = Numbering()
        return np.array([self[word] if word in self else len(self) + new[word] for word in words], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class EncodedSentences:
    """Sentences as word numbers in one flat array; sentence i is `words[begins[i] : begins[i + 1]]`."""

    words: IntArray
    lengths: IntArray

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]], encode: Callable[[Iterable[str]], IntArray]) -> EncodedSentences:
        """Encode sentences by a method of `Numbering`."""
        lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        return cls(encode(chain.from_iterable(sentences)), lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def begins(self) -> IntArray:
        """Index of the first word of each sentence, and the number of all words."""
        return np.append(0, np.cumsum(self.lengths))

    @property
    def sentence_of_word(self) -> IntArray:
        """Index of the sentence of each word."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def split(self, n: int) -> tuple[EncodedSentences, EncodedSentences]:
        """Return the first n sentences, and the others."""
        words = np.split(self.words, [self.begins[n]])
        return EncodedSentences(words[0], self.lengths[:n]), EncodedSentences(words[1], self.lengths[n:])


def distinct(values: IntArray) -> IntArray:
    """Return the sorted distinct values."""
    ordered = np.sort(values)
    return ordered[is_new(ordered)]


def count_distinct(values: IntArray) -> tuple[IntArray, IntArray]:
    """Return the sorted distinct values and the number of occurrences of each."""
    ordered = np.sort(values)
    begins = np.flatnonzero(is_new(ordered))
    return ordered[begins], np.diff(begins, append=len(ordered))


def number_distinct(values: IntArray) -> tuple[IntArray, IntArray]:
    """Return the sorted distinct values, and the rank of each value among them."""
    order = order_by(values)
    ordered = values[order]
    new = is_new(ordered)
    numbers = np.empty_like(order)
    numbers[order] = np.cumsum(new) - 1
    return ordered[new], numbers


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


def search(ordered: IntArray, values: IntArray) -> tuple[IntArray, BoolArray]:
    """Return the index of each value among sorted distinct ones, and whether it is there."""
    if not len(ordered):
        return np.zeros_like(values), np.zeros(len(values), dtype=bool)
    index = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
    return index, ordered[index] == values


class Postings:
    """Entries sorted by key, so that one search finds all entries of a key; of equal keys, the first comes first."""

    def __init__(self, key: IntArray, *columns: IntArray) -> None:
        order = order_by(key)
        ordered = key[order]
        self._columns = [column[order] for column in columns]
        self._first = np.flatnonzero(is_new(ordered))
        self._keys, self._count = ordered[self._first], np.diff(self._first, append=len(ordered))

    def find(self, key: IntArray) -> tuple[IntArray, ...]:
        """Return the index of each key that is there, once for each of its entries, and the columns of these."""
        index, there = search(self._keys, key)
        rows = np.flatnonzero(there)
        count = self._count[index[rows]]
        found = expand_runs(self._first[index[rows]], count)
        return np.repeat(rows, count), *(column[found] for column in self._columns)


MAX_NGRAM = 4
"""Maximum length of the n-grams of BLEU and CIDEr."""

CIDER_SCALE = 10 / MAX_NGRAM
"""CIDEr is ten times the mean similarity over the lengths of n-grams."""

_SIGMA = 6.0

_WORD_BITS = 24
"""Code of an n-gram: the number of its first n - 1 words, then its last word in this many bits."""


@dataclass(frozen=True, eq=False)
class NgramCounts:
    """The n-grams of one length in sentences: one entry for each distinct n-gram of each, by sentence and n-gram."""

    sentence: IntArray
    gram: IntArray
    count: IntArray


class _ReferenceNgrams:
    """The n-grams of one length in references, and their weights in CIDEr."""

    def __init__(self, known: IntArray, counts: NgramCounts, photo: IntArray, photos: int) -> None:
        self._known, self.counts = known, counts
        per_reference = np.bincount(counts.sentence, minlength=len(photo))
        self._entries = np.cumsum(per_reference) - per_reference, per_reference
        self._keys = self.keys(photo[counts.sentence], counts.gram)
        frequency = np.bincount(distinct(self._keys) % (len(known) + 1), minlength=len(known) + 1)
        self._idf = np.log(max(1, photos)) - np.log(np.maximum(1, frequency))
        self.weight, self.norm = self.weights(counts, len(photo))

    def numbers(self, codes: IntArray) -> IntArray:
        """Return the number of each n-gram; those of no reference get higher ones, equal n-grams the same."""
        number, there = search(self._known, codes)
        other = np.flatnonzero(~there)
        number[other] = len(self._known) + number_distinct(codes[other])[1]
        return number

    def keys(self, group: IntArray, gram: IntArray) -> IntArray:
        """Return one number for a group and an n-gram; all n-grams of no reference have the same."""
        return group * (len(self._known) + 1) + np.minimum(gram, len(self._known))

    def weights(self, counts: NgramCounts, sentences: int) -> tuple[FloatArray, FloatArray]:
        """Return count times idf of each entry, and the length of the vector of each sentence."""
        weight = counts.count * self._idf[np.minimum(counts.gram, len(self._known))]
        return weight, np.sqrt(sum_by_group(counts.sentence, weight**2, sentences))

    @cached_property
    def by_photo(self) -> Postings:
        """All entries by photo and n-gram, with their reference."""
        return Postings(self._keys, np.arange(len(self._keys)), self.counts.sentence)

    def of(self, references: IntArray) -> Postings:
        """Return the entries of some references by n-gram, with their index in `references`."""
        first, count = (each[references] for each in self._entries)
        entry = expand_runs(first, count)
        return Postings(self.counts.gram[entry], entry, np.repeat(np.arange(len(references)), count))


class References:
    """Captions of photos, which sentences are compared with. Document frequencies are counted over the photos.

    `photo` is the photo of each caption, in ascending order.
    """

    def __init__(self, captions: EncodedSentences, photo: IntArray, photos: int) -> None:
        self.lengths = captions.lengths
        self.per_photo = np.bincount(photo, minlength=photos)
        self._first = np.cumsum(self.per_photo) - self.per_photo
        known: list[IntArray] = []

        def number(n: int, codes: IntArray) -> IntArray:
            kinds, numbers = number_distinct(codes)
            known.append(kinds)
            return numbers

        counts = _count_ngrams(captions, number)
        self.ngrams = [_ReferenceNgrams(*each, photo, photos) for each in zip(known, counts, strict=True)]

    def compare_by_photo(self, sentences: EncodedSentences, photos: IntArray) -> NgramComparison:
        """Compare each sentence with all captions of its photo; the pairs are sorted by sentence and caption."""
        count, first = self.per_photo[photos], self._first[photos]
        pairs = np.repeat(np.arange(len(sentences)), count), expand_runs(first, count)
        offset = np.cumsum(count) - count - first
        return self._compare(sentences, pairs, offset, photos, [each.by_photo for each in self.ngrams])

    def compare_all(self, sentences: EncodedSentences, captions: IntArray) -> NgramComparison:
        """Compare each sentence with each of some captions; the pairs are a matrix of sentences × captions."""
        rows = np.arange(len(sentences))
        pairs = np.repeat(rows, len(captions)), np.tile(captions, len(rows))
        postings = [each.of(captions) for each in self.ngrams]
        return self._compare(sentences, pairs, rows * len(captions), np.zeros_like(rows), postings)

    def _compare(
        self,
        sentences: EncodedSentences,
        pairs: tuple[IntArray, IntArray],
        offset: IntArray,
        group: IntArray,
        postings: Sequence[Postings],
    ) -> NgramComparison:
        """Find the n-grams that pairs share: of keys of a sentence's group, in pair offset of the sentence + column."""
        counts = _count_ngrams(sentences, lambda n, codes: self.ngrams[n].numbers(codes))
        shared = []
        for ngrams, own, entries in zip(self.ngrams, counts, postings, strict=True):
            ours, theirs, column = entries.find(ngrams.keys(group[own.sentence], own.gram))
            shared.append(_Shared(offset[own.sentence[ours]] + column, ours, theirs))
        return NgramComparison(self, sentences.lengths, counts, *pairs, tuple(shared))


@dataclass(frozen=True, eq=False)
class _Shared:
    """The n-grams of one length that the sentence and the caption of a pair share."""

    pair: IntArray
    own: IntArray  # entry of the sentence
    theirs: IntArray  # entry of the caption


@dataclass(frozen=True, eq=False)
class NgramComparison:
    """Pairs of a sentence and a reference, and the n-grams that they share."""

    references: References
    lengths: IntArray  # of the sentences
    counts: tuple[NgramCounts, ...]  # n-grams of the sentences, of 1 to 4 words
    sentence: IntArray  # of each pair
    reference: IntArray
    shared: tuple[_Shared, ...]

    def common_counts(self, n: int) -> tuple[_Shared, IntArray]:
        """Return the shared n-grams of n words, and how often the sentence may match each in the reference."""
        shared = self.shared[n - 1]
        theirs = self.references.ngrams[n - 1].counts.count[shared.theirs]
        return shared, np.minimum(self.counts[n - 1].count[shared.own], theirs)

    def cider(self, *, clipped: bool = True) -> FloatArray:
        """Return the CIDEr-D of each pair, without `CIDER_SCALE`; or CIDEr, without clipping and length penalty."""
        total = np.zeros(len(self.sentence))
        for ngrams, counts, shared in zip(self.references.ngrams, self.counts, self.shared, strict=True):
            weight, norm = ngrams.weights(counts, len(self.lengths))
            ours, theirs = weight[shared.own], ngrams.weight[shared.theirs]
            products = sum_by_group(shared.pair, (np.minimum(ours, theirs) if clipped else ours) * theirs, len(total))
            norms = norm[self.sentence] * ngrams.norm[self.reference]
            total += np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
        if clipped:
            longer = np.maximum(1, self.lengths)[self.sentence] - np.maximum(1, self.references.lengths)[self.reference]
            total *= np.exp(-(longer**2) / (2 * _SIGMA**2))
        return total


def _count_ngrams(sentences: EncodedSentences, number: Callable[[int, IntArray], IntArray]) -> tuple[NgramCounts, ...]:
    """Count the n-grams of 1 to `MAX_NGRAM` words in each sentence; `number` turns codes, of n - 1, into numbers."""
    words, sentence = sentences.words, sentences.sentence_of_word
    end = sentences.begins[1:][sentence]
    start, gram = np.arange(len(words)), np.zeros(len(words), dtype=np.int64)
    found = []
    for n in range(MAX_NGRAM):
        fits = start + n < end[start]
        start, gram = start[fits], gram[fits]
        gram = number(n, gram << _WORD_BITS | words[start + n])
        width = int(gram.max(initial=0)).bit_length()
        codes, count = count_distinct(sentence[start] << width | gram)
        found.append(NgramCounts(codes >> width, codes & ((1 << width) - 1), count))
    return tuple(found)


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

    @property
    def lengths(self) -> IntArray:
        """Number of words of each sentence, candidates first."""
        return self.encoded[1].lengths

    @cached_property
    def encoded(self) -> tuple[Numbering, EncodedSentences]:
        """The number of each distinct word, and all sentences, candidates first."""
        ids = Numbering()
        return ids, EncodedSentences.of([*self.candidates, *chain.from_iterable(self.references)], ids.encode)

    @cached_property
    def comparison(self) -> NgramComparison:
        """Each candidate compared with the references of its photo; one pair for each reference."""
        n_photos = len(self.photos)
        candidates, references = self.encoded[1].split(n_photos)
        compared = References(references, self.photo_of_reference, n_photos)
        return compared.compare_by_photo(candidates, np.arange(n_photos))


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
