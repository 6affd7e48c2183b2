"""Every way in which METEOR could match words and phrases of a candidate with those of a reference.

A *unit* is a word or a phrase that the paraphrase table has; a *piece* is a unit at a place in a sentence. Which units
match which is worked out once for all captions; the pieces of each candidate are then looked up against those of its
references. A *pair* is one reference with the candidate of its photo.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np

from deixis.evaluation.captions.arrays import BoolArray, IntArray, Numbering, counted, distinct, is_new, order_by, runs
from deixis.evaluation.captions.meteor_words import PhraseTable, paraphrases, senses, stem

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)

_LOOKUPS_AT_ONCE = 1 << 18
_MARK_BITS = 22


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences as word ids in one flat array; sentence i is `words[begins[i] : begins[i + 1]]`."""

    words: IntArray
    begins: IntArray

    @property
    def lengths(self) -> IntArray:
        """The number of words of each sentence."""
        return np.diff(self.begins)


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
    ids: Numbering,
    table: str | os.PathLike[str] | None,
) -> Matches:
    """Find the matches of all pairs.

    Parameters
    ----------
    candidates, references, ids
        Sentences, and the words whose numbers they hold.
    candidate_of
        For each reference, the number of its candidate; ascending.
    table
        The paraphrases, in Meteor's format; None leaves that module out.
    """
    phrases = _Phrases(PhraseTable.of([]) if table is None else paraphrases(table, ids), ids)
    relations = _Relations(_related_words(ids) | {PARAPHRASE: phrases.related}, phrases.n_units)
    matches = _looked_up(phrases.pieces(candidates), phrases.pieces(references), candidate_of, relations)
    order = order_by(matches.pair, matches.start, matches.module, matches.length, matches.at)
    return _exact_only_where_equal(matches.where(order), candidates.lengths[candidate_of], references.lengths)


class _Phrases:
    """The phrases of a table whose words all occur, as a tree of their words, to find them in sentences.

    Attributes
    ----------
    n_units
        The number of units: all words, then the phrases of several words.
    related
        The units of each pair of paraphrases, in both directions. Meteor matches twice where the table has both
        directions already, and so do these.
    """

    def __init__(self, table: PhraseTable, ids: Numbering) -> None:
        id_of = np.array([ids.get(word, -1) for word in table.ids] + [-1], dtype=np.int64)
        phrases = id_of[table.phrases]
        known = np.all((phrases >= 0) | (table.phrases < 0), axis=1)
        several = known & (table.phrases[:, 1:2] >= 0).any(axis=1)
        units = np.where(several, len(ids) - 1 + np.cumsum(several), phrases[:, 0])
        pairs = units[table.pairs[np.all(known[table.pairs], axis=1)]]
        self.n_units = len(ids) + int(several.sum())
        self.related = np.concatenate([pairs, pairs[:, ::-1]])
        self._n_words = len(ids)
        self._levels = self._grown(phrases[several], units[several])

    def _grown(self, phrases: IntArray, units: IntArray) -> list[tuple[IntArray, IntArray]]:
        """For each length from two words: the sorted codes of all beginnings, and the unit of each or -1.

        The code of a beginning is made of the number of the shorter beginning and the next word's id.
        """
        levels = []
        lengths = (phrases >= 0).sum(axis=1)
        place = phrases[:, 0]
        for n in range(2, lengths.max(initial=1) + 1):
            goes_on = lengths >= n
            phrases, units, lengths = phrases[goes_on], units[goes_on], lengths[goes_on]
            codes = place[goes_on] * self._n_words + phrases[:, n - 1]
            level = distinct(codes)
            place = np.searchsorted(level, codes)
            unit_of = np.full(len(level), -1)
            unit_of[place[lengths == n]] = units[lengths == n]
            levels.append((level, unit_of))
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
        units = np.concatenate(list(related.values()))
        codes = units[:, 0] * n_units + units[:, 1]
        module = np.repeat(list(related), [len(each) for each in related.values()])
        self._module = module[order_by(codes, module)]
        self._codes, self._count = counted(codes)
        self._first = np.cumsum(self._count) - self._count
        self._n_units = n_units
        # Most units match nothing on the other side; a table of random marks says so at once for nearly all.
        self.marks = np.random.default_rng(0).integers(0, 1 << _MARK_BITS, size=(2, n_units), dtype=np.uint32)
        self.perhaps = np.zeros(1 << _MARK_BITS, dtype=bool)
        self.perhaps[self.marks[0, units[:, 0]] ^ self.marks[1, units[:, 1]]] = True

    def lookup(self, reference: IntArray, candidate: IntArray) -> tuple[IntArray, IntArray]:
        """Find the matching ones among pairs of units: their places, and the module of each; a place may recur."""
        codes = reference * self._n_units + candidate
        found = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        places = np.flatnonzero(self._codes[found] == codes)
        count = self._count[found[places]]
        return np.repeat(places, count), self._module[runs(self._first[found[places]], count)]


def _related_words(ids: Numbering) -> dict[int, IntArray]:
    """Equal words, words of one stem, and words with a sense in common, by module."""
    senses_of = [senses(word) for word in ids]
    numbers = np.arange(len(ids))
    return {
        EXACT: np.stack([numbers, numbers], axis=1),
        STEM: _sharing(numbers, [stem(word) for word in ids]),
        SYNONYM: _sharing(np.repeat(numbers, [len(each) for each in senses_of]), chain.from_iterable(senses_of)),
    }


def _sharing(members: IntArray, groups: Iterable[Hashable]) -> IntArray:
    """All ordered pairs of different members that are in the same group, each pair once."""
    number_of: dict[Hashable, int] = {}
    group = np.array([number_of.setdefault(each, len(number_of)) for each in groups], dtype=np.int64)
    order = order_by(group)
    group, members = group[order], members[order]
    size = np.bincount(group, minlength=1)
    first = np.cumsum(size) - size
    one, other = np.repeat(members, size[group]), members[runs(first[group], size[group])]
    base = len(members) + 1
    codes = distinct(one[one != other] * base + other[one != other])
    return np.stack(np.divmod(codes, base), axis=1)


def _looked_up(candidates: _Pieces, references: _Pieces, candidate_of: IntArray, relations: _Relations) -> Matches:
    """Hold the pieces of each reference against those of its candidate, some pairs at a time.

    What several references of a photo have in common is looked up once.
    """
    first_piece = np.searchsorted(candidates.sentence, np.arange(int(candidate_of[-1]) + 2))
    order = order_by(candidate_of[references.sentence], references.unit)
    once = np.flatnonzero(is_new(candidate_of[references.sentence[order]], references.unit[order]))
    times = np.diff(once, append=len(order))
    candidate, unit = candidate_of[references.sentence[order[once]]], references.unit[order[once]]
    begin, number = first_piece[candidate], first_piece[candidate + 1] - first_piece[candidate]
    upto = np.cumsum(number)
    marks = relations.marks[0, unit], relations.marks[1, candidates.unit]
    nothing = np.zeros(0, dtype=np.int64)
    found = [(nothing, nothing, nothing)]
    done = 0
    while done < len(number):
        before = upto[done] - number[done]
        stop = max(done + 1, int(np.searchsorted(upto, before + _LOOKUPS_AT_ONCE, side="right")))
        of_candidate = runs(begin[done:stop], number[done:stop])
        mark = np.repeat(marks[0][done:stop], number[done:stop]) ^ marks[1][of_candidate]
        perhaps = np.flatnonzero(relations.perhaps[mark])
        asked = np.searchsorted(upto, before + perhaps, side="right")
        of_candidate = of_candidate[perhaps]
        places, module = relations.lookup(unit[asked], candidates.unit[of_candidate])
        found.append((asked[places], of_candidate[places], module))
        done = stop
    asked, of_candidate, module = (np.concatenate(columns) for columns in zip(*found, strict=True))
    of_reference = order[runs(once[asked], times[asked])]
    of_candidate = np.repeat(of_candidate, times[asked])
    return Matches(
        references.sentence[of_reference],
        references.start[of_reference],
        references.length[of_reference],
        candidates.start[of_candidate],
        candidates.length[of_candidate],
        np.repeat(module, times[asked]),
    )


def _exact_only_where_equal(matches: Matches, candidate_lengths: IntArray, reference_lengths: IntArray) -> Matches:
    """Leave only exact matches where reference and candidate are the same sentence."""
    in_place = (matches.module == EXACT) & (matches.start == matches.at)
    right = np.bincount(matches.pair[in_place], minlength=len(reference_lengths))
    equal = (right == reference_lengths) & (right == candidate_lengths)
    return matches.where(~equal[matches.pair] | (matches.module == EXACT))
