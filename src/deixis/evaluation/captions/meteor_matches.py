"""METEOR's matches: which words and phrases of a candidate can match which of a reference.

Four modules find matches: equal words, words of one stem, words that share a WordNet sense, and paraphrases from a
table. `meteor.align` chooses among them.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from deixis.errors import DatasetError
from deixis.language.words import DATA_DIR, senses, stem

SHIPPED_PARAPHRASES = DATA_DIR / "meteor-paraphrases-en.gz"
"""The paraphrase table of the package: 66,846 of the 5,274,084 pairs in Meteor's `paraphrase-en.gz`."""

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)

Phrase = tuple[str, ...]


class Match(NamedTuple):
    """A possible match, sorted by start in the reference, then by module."""

    start: int  # first word in the reference
    module: int  # `EXACT`, `STEM`, `SYNONYM` or `PARAPHRASE`
    length: int  # number of words in the reference
    at: int  # first word and number of words in the candidate
    span: int


@dataclass(frozen=True)
class Paraphrases:
    """A table of paraphrases."""

    # The paraphrases of each phrase, in both directions, with their number of matches: as in Meteor, a pair that the
    # table lists in both directions matches twice
    related: Mapping[Phrase, Mapping[Phrase, int]]
    prefixes: Collection[Phrase]  # the first words of all phrases, and the phrases themselves

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[Phrase, Phrase]]) -> Paraphrases:
        related: dict[Phrase, dict[Phrase, int]] = {}
        for pair in pairs:
            for one, other in (pair, pair[::-1]):
                counts = related.setdefault(one, {})
                counts[other] = counts.get(other, 0) + 1
        return cls(related, {phrase[:n] for phrase in related for n in range(2, len(phrase) + 1)})


class Matcher:
    """Finds the matches of candidates and references that are made of some words."""

    def __init__(self, vocabulary: Collection[str], table: str | os.PathLike[str] | None) -> None:
        self._paraphrases = Paraphrases.from_pairs(()) if table is None else read_paraphrases(table, vocabulary)
        self._modules: dict[Phrase, dict[Phrase, list[int]]] = {}  # by which modules words match each other
        for module, groups_of in (
            (EXACT, lambda word: [word]),
            (STEM, lambda word: [stem(word)]),
            (SYNONYM, senses),
        ):
            members: dict[Hashable, list[str]] = {}
            for word in vocabulary:
                for group in groups_of(word):
                    members.setdefault(group, []).append(word)
            pairs = {(one, other) for group in members.values() for one in group for other in group}
            for one, other in pairs:
                if (one == other) == (module == EXACT):
                    self._modules.setdefault((one,), {}).setdefault((other,), []).append(module)

    def units(self, words: Sequence[str]) -> dict[Phrase, list[int]]:
        """Return the words of a sentence and the phrases of the table in it, with the positions of each."""
        prefixes, phrases = self._paraphrases.prefixes, self._paraphrases.related
        found: dict[Phrase, list[int]] = {}
        for start, word in enumerate(words):
            found.setdefault((word,), []).append(start)
            for end in range(start + 2, len(words) + 1):
                phrase = tuple(words[start:end])
                if phrase not in prefixes:
                    break
                if phrase in phrases:
                    found.setdefault(phrase, []).append(start)
        return found

    def find(self, candidate: Mapping[Phrase, Sequence[int]], reference: Mapping[Phrase, Sequence[int]]) -> list[Match]:
        """Return the matches of two different sentences, given their units."""
        found = []
        for unit, starts in reference.items():
            by_word, paraphrases = self._modules.get(unit, {}), self._paraphrases.related.get(unit, {})
            modules = [(other, by_word[other]) for other in by_word.keys() & candidate.keys()]
            modules += [(other, [PARAPHRASE] * paraphrases[other]) for other in paraphrases.keys() & candidate.keys()]
            found += [
                Match(start, module, len(unit), at, len(other))
                for other, several in modules
                for module in several
                for start in starts
                for at in candidate[other]
            ]
        found.sort()
        return found


def read_paraphrases(path: str | os.PathLike[str], vocabulary: Collection[str]) -> Paraphrases:
    """Read a paraphrase table in Meteor's format: gzipped text with three lines per pair.

    The lines are a probability, which Meteor does not use, and the two phrases. The shipped table is returned in full.
    From any other table only the pairs are kept whose words are all in the vocabulary.
    """
    if Path(path) == SHIPPED_PARAPHRASES:
        return _shipped_table()
    known = set(vocabulary)
    return Paraphrases.from_pairs(
        pair for pair in _read_pairs(Path(path)) if known.issuperset(chain.from_iterable(pair))
    )


@cache
def _shipped_table() -> Paraphrases:
    return Paraphrases.from_pairs(_read_pairs(SHIPPED_PARAPHRASES))


def _read_pairs(path: Path) -> Iterator[tuple[Phrase, Phrase]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, _ in enumerate(lines):
                pair = tuple(next(lines, "").split()), tuple(next(lines, "").split())
                if not all(pair):
                    raise DatasetError(f"{path}: pair {number + 1} is incomplete (expected three lines per pair)")
                yield pair
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "not a gzipped table of paraphrases"
        raise DatasetError(f"{path}: {reason}") from error
