"""Captions as numbers: every word an id, every n-gram an id, and how often each sentence has each n-gram.

Sentences stand in one flat array. The candidates come first, one per photo, so that the number of a candidate
sentence is the number of its photo; then the references, photo after photo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from deixis.errors import DatasetError
from deixis.evaluation.captions.arrays import IntArray, Numbering, counted, numbered
from deixis.tokens import words

LONGEST = 4
"""BLEU and CIDEr count n-grams of one to four words."""


@dataclass(frozen=True, eq=False)
class Ngrams:
    """The n-grams of one length.

    Attributes
    ----------
    sentence, gram, count
        One entry for each distinct n-gram of each sentence, by sentence and then by gram.
    kinds
        The number of distinct n-grams in all sentences.
    of_candidate, of_reference
        For each n-gram that a reference shares with the candidate of its photo, the two entries.
    """

    sentence: IntArray
    gram: IntArray
    count: IntArray
    kinds: int
    of_candidate: IntArray
    of_reference: IntArray


@dataclass(frozen=True, eq=False)
class CaptionSet:
    """One candidate sentence and one or more references for each photo, as words.

    Attributes
    ----------
    photos
        Their ids, in the order of all per-photo values.
    candidates, references
        The words of each sentence, as `deixis.tokens.words` gives them.
    """

    photos: tuple[str, ...]
    candidates: Sequence[Sequence[str]]
    references: Sequence[Sequence[Sequence[str]]]

    @cached_property
    def photo_of_reference(self) -> IntArray:
        """For each reference, the number of its photo."""
        return np.repeat(np.arange(len(self.photos)), [len(each) for each in self.references])

    @cached_property
    def photo_of_sentence(self) -> IntArray:
        """For each sentence, candidates first, the number of its photo."""
        return np.concatenate([np.arange(len(self.photos)), self.photo_of_reference])

    @cached_property
    def lengths(self) -> IntArray:
        """The number of words of each sentence, candidates first."""
        return np.array([len(sentence) for sentence in self.sentences()], dtype=np.int64)

    @cached_property
    def coded(self) -> tuple[Numbering, IntArray]:
        """The number of each word that occurs, and the words of all sentences, candidates first, as numbers."""
        ids = Numbering()
        return ids, ids.of(chain.from_iterable(self.sentences()))

    @cached_property
    def ngrams(self) -> tuple[Ngrams, ...]:
        """The n-grams of one to four words."""
        ids, word = self.coded
        sentence = np.repeat(np.arange(len(self.lengths)), self.lengths)
        left = np.repeat(np.cumsum(self.lengths), self.lengths) - np.arange(len(word))
        found = []
        start, gram, kinds = np.arange(len(word)), word, len(ids)
        for n in range(1, LONGEST + 1):
            if n > 1:
                stays = left[start] >= n
                start, gram = start[stays], gram[stays]
                gram, kinds = numbered(gram * len(ids) + word[start + n - 1])
            found.append(self._counted(sentence[start], gram, kinds))
        return tuple(found)

    def sentences(self) -> Iterator[Sequence[str]]:
        """Give all sentences, candidates first."""
        return chain(self.candidates, chain.from_iterable(self.references))

    def _counted(self, sentence: IntArray, gram: IntArray, kinds: int) -> Ngrams:
        """Count each n-gram in each sentence, and find what references share with their candidate."""
        codes, count = counted(sentence * max(1, kinds) + gram)
        sentence, gram = np.divmod(codes, max(1, kinds))
        first_reference = int(np.searchsorted(sentence, len(self.photos)))
        wanted = self.photo_of_sentence[sentence[first_reference:]] * max(1, kinds) + gram[first_reference:]
        candidates = codes[:first_reference]
        place = np.searchsorted(candidates, wanted)
        shared = (
            np.flatnonzero(candidates[np.minimum(place, first_reference - 1)] == wanted)
            if first_reference
            else place[:0]
        )
        return Ngrams(sentence, gram, count, kinds, place[shared], first_reference + shared)


def caption_set(candidates: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> CaptionSet:
    """Tokenise the candidate and the references of each photo, and refuse what does not fit together.

    Examples
    --------
    >>> caption_set({"1": "A dog runs."}, {"1": ["The dog."]}).candidates
    [['a', 'dog', 'runs']]
    """
    if not references:
        raise DatasetError("captions: there is no photo with references")
    _refuse_misfits(candidates, references)
    for photo, texts in references.items():
        if isinstance(texts, str) or not texts:
            raise DatasetError(f"photo {photo}: its references must be a list of one or more sentences")
    photos = tuple(references)
    return CaptionSet(
        photos,
        [_words_of(photo, candidates[photo], "candidate") for photo in photos],
        [[_words_of(photo, text, "reference") for text in references[photo]] for photo in photos],
    )


def _refuse_misfits(candidates: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> None:
    missing = [photo for photo in references if photo not in candidates]
    if missing:
        raise DatasetError(
            f"photo {missing[0]} has no candidate caption ({len(missing)} of {len(references)} photos have none)"
        )
    unknown = [photo for photo in candidates if photo not in references]
    if unknown:
        raise DatasetError(f"photo {unknown[0]} has a candidate caption but no references ({len(unknown)} such photos)")


def _words_of(photo: str, text: object, what: str) -> list[str]:
    if not isinstance(text, str):
        raise DatasetError(f"photo {photo}: a {what} is not text ({text!r})")
    return words(text)
