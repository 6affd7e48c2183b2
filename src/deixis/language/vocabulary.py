"""Vocabulary: the words of a text model and their ids.

The ids are ``0 … len(vocabulary) - 1``. Models use ids from ``len(vocabulary)`` on for special tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deixis.errors import DeixisError


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
