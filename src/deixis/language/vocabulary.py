"""Vocabulary: the words of a text model and their ids.

The ids are ``0 … len(vocabulary) - 1``. Models use ids from ``len(vocabulary)`` on for special tokens.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from deixis.errors import DeixisError
from deixis.storage.atomic import new_file


@dataclass(frozen=True)
class Vocabulary:
    """Words with their counts, sorted by descending count and then alphabetically."""

    words: tuple[str, ...]
    counts: tuple[int, ...]
    min_count: int = 1

    @classmethod
    def fit(cls, sentences: Iterable[Iterable[str]], min_count: int = 1) -> Vocabulary:
        """Build a vocabulary from sentences."""
        counted = Counter(word for sentence in sentences for word in sentence)
        kept = sorted(
            ((word, count) for word, count in counted.items() if count >= min_count),
            key=lambda pair: (-pair[1], pair[0]),
        )
        return cls(tuple(word for word, _ in kept), tuple(count for _, count in kept), min_count)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def id_of(self, word: str) -> int | None:
        """Return the id of a word, or None."""
        return self._ids.get(word)

    def encode(self, words: Iterable[str], unknown: int | None = None) -> list[int]:
        """Return the ids of words. An unknown word gets the id `unknown`, or is left out if that is None."""
        ids = (self._ids.get(word, unknown) for word in words)
        return [number for number in ids if number is not None]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Return the words of ids."""
        numbers = list(ids)
        outside = [number for number in numbers if not 0 <= number < len(self)]
        if outside:
            raise DeixisError(f"{outside[0]} is not an id of this vocabulary of {len(self)} words")
        return [self.words[number] for number in numbers]

    def unknown_rate(self, sentences: Iterable[Sequence[str]]) -> float:
        """Return the fraction of running words that are unknown; 0 if there are no words."""
        unknown = total = 0
        for sentence in sentences:
            total += len(sentence)
            unknown += sum(word not in self._ids for word in sentence)
        return unknown / total if total else 0.0

    def save(self, path: str | Path) -> None:
        """Write the vocabulary as JSON."""
        content = {"min_count": self.min_count, "words": self.words, "counts": self.counts}
        with new_file(path) as temporary:
            temporary.write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read a vocabulary that `save` wrote."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            words, counts, min_count = content["words"], content["counts"], content["min_count"]
        except OSError as error:
            raise DeixisError(f"{path}: {error.strerror or error}") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DeixisError(f"{path}: not a vocabulary (JSON with words, counts and min_count)") from None
        if not _is_vocabulary(words, counts, min_count):
            raise DeixisError(f"{path}: words must be distinct strings with integer counts")
        return cls(tuple(words), tuple(counts), min_count)


def _is_vocabulary(words: object, counts: object, min_count: object) -> bool:
    return (
        isinstance(words, list)
        and isinstance(counts, list)
        and isinstance(min_count, int)
        and len(words) == len(counts)
        and all(isinstance(word, str) for word in words)
        and all(isinstance(count, int) for count in counts)
        and len(set(words)) == len(words)
    )
