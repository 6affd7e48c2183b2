"""Every way in which METEOR could match words and phrases of a candidate with those of a reference.

A *unit* is a word or a phrase that the paraphrase table has; a *piece* is a unit at a place in a sentence. Which units
match which is worked out once for all captions; the pieces of each candidate are then looked up against those of its
references. A *pair* is one reference with the candidate of its photo.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, permutations

import numpy as np

from deixis.evaluation.captions.arrays import BoolArray, IntArray, counted, order_by, runs
from deixis.evaluation.captions.meteor_words import Phrase, paraphrases, senses, stem

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)

_LOOKUPS_AT_ONCE = 1 << 21
_FILTER_BITS = 22
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences as word ids in one flat array; sentence i is `words[begins[i] : begins[i + 1]]`."""

    words: IntArray
    begins: IntArray

    @property
    def lengths(self) -> IntArray:
        """The number of words of each sentence."""
        return np.diff(self.begins)

    @classmethod
    def coded(cls, sentences: Sequence[Sequence[str]], ids: dict[str, int]) -> Sentences:
        """Number the words of sentences, with new numbers for words that have none yet."""
        words = [ids.setdefault(word, len(ids)) for word in chain.from_iterable(sentences)]
        begins = np.concatenate([[0], np.cumsum([len(sentence) for sentence in sentences])])
        return cls(np.array(words, dtype=np.int64), begins.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Matches:
    """Possible matches, by pair, then by their start in the reference, then by module.

    Attributes
    ----------
    pair
        The number of the reference.
    start, length
        Where the match is in the reference.
    at, span
        Where it begins in the candidate, and how many words it has there.
    module
        `EXACT`, `STEM`, `SYNONYM` or `PARAPHRASE`.
    """

    pair: IntArray
    start: IntArray
    length: IntArray
    at: IntArray
    span: IntArray
    module: IntArray

    def __len__(self) -> int:
        return len(self.pair)

    def where(self, rows: BoolArray | IntArray) -> Matches:
        """Some of them, in the order given."""
        return Matches(
            self.pair[rows], self.start[rows], self.length[rows], self.at[rows], self.span[rows], self.module[rows]
        )


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Units at their places, by sentence."""

    sentence: IntArray
    start: IntArray
    length: IntArray
    unit: IntArray


def find_matches(
    candidates: Sentences,
    references: Sentences,
    candidate_of: IntArray,
    ids: dict[str, int],
    table: str | os.PathLike[str] | None,
) -> Matches:
    """Find the matches of all pairs.

    Parameters
    ----------
    candidates, references
        Sentences with the word numbers of `ids`.
    candidate_of
        For each reference, the number of its candidate; ascending.
    table
        The paraphrases, in Meteor's format; None leaves that module out.
    """
    pairs = [] if table is None else paraphrases(table, ids)
    phrases = _Phrases(chain.from_iterable(pairs), ids)
    related = _related_words(ids) | {PARAPHRASE: _related_phrases(pairs, phrases)}
    relations = _Relations(related, len(ids) + len(phrases.units))
    matches = _looked_up(phrases.pieces(candidates), phrases.pieces(references), candidate_of, relations)
    order = order_by(matches.pair, matches.start, matches.module, matches.length, matches.at)
    return _exact_only_where_equal(matches.where(order), candidates.lengths[candidate_of], references.lengths)


class _Phrases:
    """The phrases of a table as a tree of their words, to find them in sentences.

    `units` maps each phrase to its unit: a word's own id, or a number after all word ids.
    """

    def __init__(self, phrases: Iterable[Phrase], ids: dict[str, int]) -> None:
        self.units: dict[Phrase, int] = {}
        for phrase in phrases:
            if len(phrase) > 1:
                self.units.setdefault(phrase, len(ids) + len(self.units))
        self._n_words = max(1, len(ids))
        self._levels = self._grown(ids)
        self._ids = ids

    def unit(self, phrase: Phrase) -> int:
        """The unit of a word or phrase."""
        return self.units[phrase] if len(phrase) > 1 else self._ids[phrase[0]]

    def _grown(self, ids: dict[str, int]) -> list[tuple[IntArray, IntArray]]:
        """For each length from two words: the sorted codes of all beginnings, and the unit of each or -1.

        The code of a beginning is made of the number of the shorter beginning and the next word's id.
        """
        levels = []
        places = {phrase: ids[phrase[0]] for phrase in self.units}
        for n in range(2, max(map(len, self.units), default=1) + 1):
            codes = {phrase: place * self._n_words + ids[phrase[n - 1]] for phrase, place in places.items()}
            level = np.unique(np.fromiter(codes.values(), dtype=np.int64, count=len(codes)))
            found = np.searchsorted(level, np.fromiter(codes.values(), dtype=np.int64, count=len(codes)))
            units = np.full(len(level), -1)
            for phrase, place in zip(codes, found.tolist(), strict=True):
                if len(phrase) == n:
                    units[place] = self.units[phrase]
            levels.append((level, units))
            places = {phrase: place for phrase, place in zip(codes, found.tolist(), strict=True) if len(phrase) > n}
        return levels

    def pieces(self, sentences: Sentences) -> _Pieces:
        """All words, and all phrases of the table, that sentences have."""
        sentence = np.repeat(np.arange(len(sentences.lengths)), sentences.lengths)
        start = np.arange(len(sentences.words))
        end = sentences.begins[1:][sentence]
        found = [(start, np.full(len(start), 1), sentences.words)]
        place = sentences.words
        for n, (level, units) in enumerate(self._levels, start=2):
            stays = start + n <= end[start]
            start, place = start[stays], place[stays]
            code = place * self._n_words + sentences.words[start + n - 1]
            place = np.minimum(np.searchsorted(level, code), len(level) - 1)
            known = level[place] == code
            start, place = start[known], place[known]
            whole = units[place] >= 0
            found.append((start[whole], np.full(whole.sum(), n), units[place[whole]]))
        start, length, unit = (np.concatenate(columns) for columns in zip(*found, strict=True))
        order = np.argsort(start, kind="stable")
        start, length, unit = start[order], length[order], unit[order]
        return _Pieces(sentence[start], start - sentences.begins[sentence[start]], length, unit)


class _Relations:
    """Which unit of a reference matches which unit of a candidate, and by which module."""

    def __init__(self, related: dict[int, IntArray], n_units: int) -> None:
        codes = np.concatenate([units[:, 0] * n_units + units[:, 1] for units in related.values()])
        module = np.repeat(list(related), [len(units) for units in related.values()])
        order = order_by(codes, module)
        self._module = module[order]
        self._codes, self._count = counted(codes)
        self._first = np.cumsum(self._count) - self._count
        self._n_units = n_units
        # Most lookups find nothing; a table of hashes says so at once for nearly all of them.
        self._perhaps = np.zeros(1 << _FILTER_BITS, dtype=bool)
        self._perhaps[_hashed(self._codes)] = True

    def lookup(self, reference: IntArray, candidate: IntArray) -> tuple[IntArray, IntArray]:
        """Find the matching ones among pairs of units: their places, and the module of each; a place may recur."""
        codes = reference * self._n_units + candidate
        places = np.flatnonzero(self._perhaps[_hashed(codes)])
        found = np.minimum(np.searchsorted(self._codes, codes[places]), len(self._codes) - 1)
        known = self._codes[found] == codes[places]
        places, found = places[known], found[known]
        count = self._count[found]
        return np.repeat(places, count), self._module[runs(self._first[found], count)]


def _hashed(codes: IntArray) -> IntArray:
    return (codes.astype(np.uint64) * _ODD >> np.uint64(64 - _FILTER_BITS)).astype(np.int64)


def _related_words(ids: dict[str, int]) -> dict[int, IntArray]:
    """Equal words, words of one stem, and words with a sense in common, by module."""
    by_stem: dict[str, list[int]] = {}
    by_sense: dict[int | str, list[int]] = {}
    for word, number in ids.items():
        by_stem.setdefault(stem(word), []).append(number)
        for sense in senses(word):
            by_sense.setdefault(sense, []).append(number)
    same_stem = [two for group in by_stem.values() for two in permutations(group, 2)]
    synonyms = {two for group in by_sense.values() if len(group) > 1 for two in permutations(group, 2)}
    return {EXACT: _pairs((number, number) for number in ids.values()), STEM: _pairs(same_stem), SYNONYM: _pairs(synonyms)}


def _related_phrases(pairs: list[tuple[Phrase, Phrase]], phrases: _Phrases) -> IntArray:
    """Each pair of the table in both directions; Meteor matches twice where the table has both already."""
    units = _pairs((phrases.unit(one), phrases.unit(other)) for one, other in pairs)
    return np.concatenate([units, units[:, ::-1]])


def _pairs(units: Iterable[tuple[int, int]]) -> IntArray:
    return np.fromiter(chain.from_iterable(units), dtype=np.int64).reshape(-1, 2)


def _looked_up(candidates: _Pieces, references: _Pieces, candidate_of: IntArray, relations: _Relations) -> Matches:
    """Hold the pieces of each reference against those of its candidate, some pairs at a time."""
    n_candidates = int(candidate_of[-1]) + 1
    first = np.searchsorted(candidates.sentence, np.arange(n_candidates + 1))
    candidate = candidate_of[references.sentence]
    begin, number = first[candidate], first[candidate + 1] - first[candidate]
    upto = np.cumsum(number)
    found = []
    done = 0
    while done < len(number):
        lookups_before = upto[done] - number[done]
        stop = max(done + 1, int(np.searchsorted(upto, lookups_before + _LOOKUPS_AT_ONCE, side="right")))
        of_reference = np.repeat(np.arange(done, stop), number[done:stop])
        of_candidate = runs(begin[done:stop], number[done:stop])
        places, module = relations.lookup(references.unit[of_reference], candidates.unit[of_candidate])
        found.append((of_reference[places], of_candidate[places], module))
        done = stop
    of_reference, of_candidate, module = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return Matches(
        references.sentence[of_reference],
        references.start[of_reference],
        references.length[of_reference],
        candidates.start[of_candidate],
        candidates.length[of_candidate],
        module,
    )


def _exact_only_where_equal(matches: Matches, candidate_lengths: IntArray, reference_lengths: IntArray) -> Matches:
    """Leave only exact matches where reference and candidate are the same sentence."""
    in_place = (matches.module == EXACT) & (matches.start == matches.at)
    right = np.bincount(matches.pair[in_place], minlength=len(reference_lengths))
    equal = (right == reference_lengths) & (right == candidate_lengths)
    return matches.where(~equal[matches.pair] | (matches.module == EXACT))
