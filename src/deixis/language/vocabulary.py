"""The words of a text model: their ids, and their vectors, frozen ones and what training has added to them.

The ids are ``0 … len(vocabulary) - 1``. Models use ids from ``len(vocabulary)`` on for special tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats, to_unit_length
from deixis.errors import DeixisError
from deixis.language.vectors import SHIPPED, WordVectors, shipped_vectors
from deixis.storage.artifacts import StoredTable

MIN_SIMILARITY = 0.5
"""Minimum cosine of words that `WordTable.nearest_known` names. Unrelated words rarely reach 0.4."""

_ROWS_AT_ONCE = 512


@dataclass(frozen=True)
class Vocabulary:
    """Words with their counts, sorted by descending count and then alphabetically.

    Examples
    --------
    >>> vocabulary = Vocabulary.fit([["a", "dog"], ["a", "cat"], ["a", "dog"]], min_count=2)
    >>> vocabulary.words, vocabulary.encode(["a", "red", "dog"])
    (('a', 'dog'), [0, 1])
    """

    words: tuple[str, ...]
    counts: tuple[int, ...]
    min_count: int = 1

    @classmethod
    def fit(cls, sentences: Iterable[Iterable[str]], min_count: int = 1) -> Vocabulary:
        counted = Counter(word for sentence in sentences for word in sentence)
        kept = sorted(
            ((word, count) for word, count in counted.items() if count >= min_count),
            key=lambda pair: (-pair[1], pair[0]),
        )
        return cls(tuple(word for word, _ in kept), tuple(count for _, count in kept), min_count)

    @classmethod
    def from_json(cls, document: Sequence[Any]) -> Vocabulary:
        words, counts, min_count = document
        return cls(tuple(words), tuple(counts), min_count)

    def to_json(self) -> list[Any]:
        return [list(self.words), list(self.counts), self.min_count]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def id_of(self, word: str) -> int | None:
        """Return the id of a word, or None for an unknown one."""
        return self._ids.get(word)

    def encode(self, words: Iterable[str], unknown: int | None = None) -> list[int]:
        """Return the ids of words. An unknown word gets the id `unknown`, or is left out if that is None."""
        ids = (self._ids.get(word, unknown) for word in words)
        return [number for number in ids if number is not None]

    def decode(self, ids: Iterable[int]) -> list[str]:
        numbers = list(ids)
        outside = [number for number in numbers if not 0 <= number < len(self)]
        if outside:
            raise DeixisError(f"{outside[0]} is not an id of this vocabulary of {len(self)} words")
        return [self.words[number] for number in numbers]


class WordTable:
    """Vectors of words: frozen vectors plus a learned row for each word of a vocabulary.

    A word that is only in the vocabulary has its learned row, and a word that only has a frozen vector has that. Other
    words are unknown and share a learned row.

    For training, words have ids: the n words of the vocabulary 0 to n − 1, the unknown word n, padding n + 1, and a
    word that only has a frozen vector n + 2 plus the row of that vector.

    `learned` has a row for each word of the vocabulary, one for unknown words, and zeros as padding. All are zeros by
    default; without `frozen` they are the vectors.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        learned: NDArray[Any] | StoredTable | None = None,
        frozen: WordVectors | None = None,
    ) -> None:
        rows, dimension = len(vocabulary) + 2, 0 if frozen is None else frozen.dimension
        self.learned: NDArray[Any] | StoredTable = (
            np.zeros((rows, dimension), np.float32) if learned is None else learned
        )
        if self.learned.shape != (rows, dimension or self.learned.shape[-1]):
            raise DeixisError(f"word embeddings: {rows:,} rows do not fit an array of shape {self.learned.shape}")
        self.vocabulary = vocabulary
        self.frozen = frozen

    @property
    def dimension(self) -> int:
        return int(self.learned.shape[1])

    def __len__(self) -> int:
        """Number of words of the vocabulary, which is the id of unknown words."""
        return len(self.vocabulary)

    def __contains__(self, word: str) -> bool:
        return self._rows(word)[0] != len(self)

    def encode(self, words: Iterable[str], unknown: int | None = None) -> list[int]:
        """Return the ids of words. An unknown word gets the id `unknown`, or is left out if that is None."""
        ids = []
        for learned, frozen in map(self._rows, words):
            number = len(self) + 2 + frozen if learned == len(self) + 1 else learned
            if number != len(self):
                ids.append(number)
            elif unknown is not None:
                ids.append(unknown)
        return ids

    def vectors(self, words: Iterable[str]) -> Floats:
        """Return the vectors of words: (words, dimension)."""
        words = list(words)
        rows_of = {word: self._rows(word) for word in set(words)}
        rows = np.array([rows_of[word] for word in words], dtype=np.int64).reshape(-1, 2)
        vectors: Floats = np.asarray(self.learned[rows[:, 0]], dtype=np.float32)
        if self.frozen is not None:
            has_frozen = rows[:, 1] >= 0
            vectors[has_frozen] += self.frozen.take(rows[has_frozen, 1])
        return vectors

    def frozen_by_id(self) -> Floats:
        """Return the frozen part of the vector of each id: (ids, dimension)."""
        count = len(self)
        if self.frozen is None:
            return np.zeros((count + 2, self.dimension), dtype=np.float32)
        vectors = np.zeros((count + 2 + self.frozen.row_count, self.dimension), dtype=np.float32)
        rows = self._frozen_rows
        vectors[:count][rows >= 0] = self.frozen.take(rows[rows >= 0])
        vectors[count + 2 :] = self.frozen.matrix
        return vectors

    def nearest_known(self, word: str, n: int = 3) -> list[str]:
        """Return up to n words of the vocabulary with a cosine of `MIN_SIMILARITY` or more, most similar first."""
        if self.frozen is None or word not in self.frozen:
            return []
        words, rows, lengths = self._frozen_words
        own = to_unit_length(self.frozen.vectors_of([word]))[0]
        cosines = np.concatenate([block @ own for block in self._frozen_blocks(rows)]) / lengths
        near = np.flatnonzero(cosines >= MIN_SIMILARITY)
        nearest = words[near[np.argsort(-cosines[near], kind="stable")]].tolist()
        return [known for known in map(self.vocabulary.words.__getitem__, nearest) if known != word][:n]

    @cached_property
    def _frozen_words(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
        """The words of the vocabulary that have a frozen vector: their ids, rows and lengths."""
        assert self.frozen is not None  # noqa: S101 - only called with frozen vectors
        words = np.flatnonzero(self._frozen_rows >= 0)
        rows = self._frozen_rows[words]
        lengths = np.concatenate([np.linalg.norm(block, axis=1) for block in self._frozen_blocks(rows)])
        return words, rows, np.where(lengths > 0, lengths, 1).astype(np.float32)

    def _frozen_blocks(self, rows: NDArray[np.int64]) -> Iterator[Floats]:
        """Yield the frozen vectors of rows, in blocks, of which there is at least one: all rows would take 10 MB."""
        assert self.frozen is not None  # noqa: S101 - as above
        for begin in range(0, max(len(rows), 1), _ROWS_AT_ONCE):
            yield self.frozen.take(rows[begin : begin + _ROWS_AT_ONCE])

    @cached_property
    def _frozen_rows(self) -> NDArray[np.int64]:
        """The frozen row of each word of the vocabulary, −1 for none."""
        if self.frozen is None:
            return np.full(len(self), -1)
        return self.frozen.rows_of(self.vocabulary.words)

    def _rows(self, word: str) -> tuple[int, int]:
        """The learned row and the frozen row of a word; the latter is −1 without a frozen vector."""
        number = self.vocabulary.id_of(word)
        if number is None and (number := self.vocabulary.id_of(word.lower())) is not None:
            word = word.lower()
        frozen = -1 if self.frozen is None else self.frozen.row_of(word)
        if number is None:
            number = len(self) if frozen < 0 else len(self) + 1
        return number, frozen


def frozen_reference(vectors: WordVectors | None) -> dict[str, str] | None:
    """Name and fingerprint of frozen vectors, which the artifact of a model holds instead of the vectors."""
    return None if vectors is None else {"name": SHIPPED, "fingerprint": vectors.fingerprint}


def open_frozen(reference: dict[str, str] | None) -> WordVectors | None:
    """Open the frozen vectors that a model was trained with; others are refused."""
    if reference is None:
        return None
    if reference["name"] != SHIPPED:
        raise DeixisError(f"the model needs word vectors of the unknown name {reference['name']!r}")
    vectors = shipped_vectors()
    if vectors.fingerprint != reference["fingerprint"]:
        raise DeixisError(
            f"trained with other word vectors ({reference['fingerprint'][:8]}) than those of this deixis "
            f"({vectors.fingerprint[:8]}); use the deixis that it was trained with, or train it again"
        )
    return vectors
