"""METEOR's matches: which words and phrases of a candidate can match which of a reference.

Four modules find matches: equal words, words of one stem, words that share a WordNet sense, and paraphrases from a
table. `meteor.align` chooses among them.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np

from deixis.arrays import BoolArray, IntArray, expand_runs
from deixis.errors import DatasetError
from deixis.evaluation.captions.ngrams import EncodedSentences, Numbering, Postings, distinct, is_new, order_by, search
from deixis.evaluation.intervals import number_units
from deixis.language.words import DATA_DIR, senses, stem

SHIPPED_PARAPHRASES = DATA_DIR / "meteor-paraphrases-en.gz"
"""The paraphrase table of the package: 66,846 of the 5,274,084 pairs in Meteor's `paraphrase-en.gz`."""

EXACT, STEM, SYNONYM, PARAPHRASE = range(4)

PhraseWords = tuple[str, ...]

_LOOKUPS_PER_BATCH = 1 << 18
_HASH_BITS = 22


@dataclass(frozen=True, eq=False)
class Matches:
    """Possible matches, sorted by pair, then by start in the reference, then by module."""

    pair: IntArray  # index of the reference
    # First word and number of words in the reference
    start: IntArray
    length: IntArray
    # First word and number of words in the candidate
    at: IntArray
    span: IntArray
    module: IntArray  # `EXACT`, `STEM`, `SYNONYM` or `PARAPHRASE`

    def __len__(self) -> int:
        return len(self.pair)

    def where(self, rows: BoolArray | IntArray) -> Matches:
        """Select rows by mask or by index."""
        return Matches(
            self.pair[rows], self.start[rows], self.length[rows], self.at[rows], self.span[rows], self.module[rows]
        )


@dataclass(frozen=True, eq=False)
class _Occurrences:
    """Occurrences of units (words and phrases) in sentences, sorted by sentence."""

    sentence: IntArray
    start: IntArray
    length: IntArray
    unit: IntArray


def find_matches(
    candidates: EncodedSentences,
    references: EncodedSentences,
    candidate_of: IntArray,
    ids: Numbering,
    table: str | os.PathLike[str] | None,
) -> Matches:
    """Find the matches of all pairs."""
    phrases = _Phrases(PhraseTable.from_pairs([]) if table is None else read_paraphrases(table, ids), ids)
    relations = _Relations(_related_words(ids) | {PARAPHRASE: phrases.related}, phrases.n_units)
    matches = _look_up(phrases.occurrences(candidates), phrases.occurrences(references), candidate_of, relations)
    order = order_by(matches.pair, matches.start, matches.module, matches.length, matches.at)
    return _exact_only_where_equal(matches.where(order), candidates.lengths[candidate_of], references.lengths)


class _Phrases:
    """The phrases of a table whose words all occur, stored as a prefix tree to find them in sentences.

    Attributes
    ----------
    n_units
        Number of units: all words, then the phrases of several words.
    related
        The units of each pair of paraphrases, in both directions. As in Meteor, a pair that the table lists in both
        directions matches twice.
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
        self._levels = self._prefix_levels(phrases[several], units[several])

    def _prefix_levels(self, phrases: IntArray, units: IntArray) -> list[tuple[IntArray, IntArray]]:
        """For each length from two words: the sorted codes of all prefixes, and the unit of each prefix or -1.

        The code of a prefix combines the number of the prefix that is one word shorter with the last word's id.
        """
        levels = []
        lengths = (phrases >= 0).sum(axis=1)
        prefix = phrases[:, 0]
        for n in range(2, lengths.max(initial=1) + 1):
            longer = lengths >= n
            phrases, units, lengths = phrases[longer], units[longer], lengths[longer]
            codes = prefix[longer] * self._n_words + phrases[:, n - 1]
            level = distinct(codes)
            prefix = np.searchsorted(level, codes)
            unit_of = np.full(len(level), -1)
            unit_of[prefix[lengths == n]] = units[lengths == n]
            levels.append((level, unit_of))
        return levels

    def occurrences(self, sentences: EncodedSentences) -> _Occurrences:
        """Find all words of the sentences and all phrases of the table in them."""
        sentence = sentences.sentence_of_word
        start = np.arange(len(sentences.words))
        end = sentences.begins[1:][sentence]
        found = [(start, np.full(len(start), 1), sentences.words)]
        prefix = sentences.words
        for n, (level, units) in enumerate(self._levels, start=2):
            stays = start + n <= end[start]
            start, prefix = start[stays], prefix[stays]
            code = prefix * self._n_words + sentences.words[start + n - 1]
            prefix, known = search(level, code)
            start, prefix = start[known], prefix[known]
            complete = units[prefix] >= 0
            found.append((start[complete], np.full(complete.sum(), n), units[prefix[complete]]))
        start, length, unit = (np.concatenate(columns) for columns in zip(*found, strict=True))
        order = np.argsort(start, kind="stable")
        start, length, unit = start[order], length[order], unit[order]
        return _Occurrences(sentence[start], start - sentences.begins[sentence[start]], length, unit)


class _Relations:
    """Lookup table: which unit of a reference matches which unit of a candidate, and by which module."""

    def __init__(self, related: dict[int, IntArray], n_units: int) -> None:
        units = np.concatenate(list(related.values()))
        module = np.repeat(list(related), [len(each) for each in related.values()])
        self._modules = Postings(units[:, 0] * n_units + units[:, 1], module)
        self._n_units = n_units
        # Most pairs of units do not match; a table indexed by random hashes rules out nearly all of them quickly.
        self.hashes = np.random.default_rng(0).integers(0, 1 << _HASH_BITS, size=(2, n_units), dtype=np.uint32)
        self.may_match = np.zeros(1 << _HASH_BITS, dtype=bool)
        self.may_match[self.hashes[0, units[:, 0]] ^ self.hashes[1, units[:, 1]]] = True

    def lookup(self, reference: IntArray, candidate: IntArray) -> tuple[IntArray, IntArray]:
        """Return the indices of the matching pairs of units and their modules; a pair may match by several modules."""
        matching, module = self._modules.find(reference * self._n_units + candidate)
        return matching, module


def _related_words(ids: Numbering) -> dict[int, IntArray]:
    """Pairs of equal words, of words of one stem, and of words that share a sense, by module."""
    senses_of = [senses(word) for word in ids]
    numbers = np.arange(len(ids))
    return {
        EXACT: np.stack([numbers, numbers], axis=1),
        STEM: _group_pairs(numbers, [stem(word) for word in ids]),
        SYNONYM: _group_pairs(np.repeat(numbers, [len(each) for each in senses_of]), chain.from_iterable(senses_of)),
    }


def _group_pairs(members: IntArray, groups: Iterable[Hashable]) -> IntArray:
    """All ordered pairs of different members of the same group, each pair once."""
    group, _ = number_units(groups)
    order = order_by(group)
    group, members = group[order], members[order]
    size = np.bincount(group, minlength=1)
    first = np.cumsum(size) - size
    one, other = np.repeat(members, size[group]), members[expand_runs(first[group], size[group])]
    base = len(members) + 1
    codes = distinct(one[one != other] * base + other[one != other])
    return np.stack(np.divmod(codes, base), axis=1)


def _look_up(
    candidates: _Occurrences, references: _Occurrences, candidate_of: IntArray, relations: _Relations
) -> Matches:
    """Compare the units of each reference with those of its candidate, in batches.

    A unit that several references of a photo share is looked up once.
    """
    first_occurrence = np.searchsorted(candidates.sentence, np.arange(int(candidate_of[-1]) + 2))
    order = order_by(candidate_of[references.sentence], references.unit)
    once = np.flatnonzero(is_new(candidate_of[references.sentence[order]], references.unit[order]))
    times = np.diff(once, append=len(order))
    candidate, unit = candidate_of[references.sentence[order[once]]], references.unit[order[once]]
    begin, number = first_occurrence[candidate], first_occurrence[candidate + 1] - first_occurrence[candidate]
    upto = np.cumsum(number)
    hashes = relations.hashes[0, unit], relations.hashes[1, candidates.unit]
    nothing = np.zeros(0, dtype=np.int64)
    found = [(nothing, nothing, nothing)]
    done = 0
    while done < len(number):
        before = upto[done] - number[done]
        stop = max(done + 1, int(np.searchsorted(upto, before + _LOOKUPS_PER_BATCH, side="right")))
        of_candidate = expand_runs(begin[done:stop], number[done:stop])
        hashed = np.repeat(hashes[0][done:stop], number[done:stop]) ^ hashes[1][of_candidate]
        possible = np.flatnonzero(relations.may_match[hashed])
        looked_up = np.searchsorted(upto, before + possible, side="right")
        of_candidate = of_candidate[possible]
        matching, module = relations.lookup(unit[looked_up], candidates.unit[of_candidate])
        found.append((looked_up[matching], of_candidate[matching], module))
        done = stop
    looked_up, of_candidate, module = (np.concatenate(columns) for columns in zip(*found, strict=True))
    of_reference = order[expand_runs(once[looked_up], times[looked_up])]
    of_candidate = np.repeat(of_candidate, times[looked_up])
    return Matches(
        references.sentence[of_reference],
        references.start[of_reference],
        references.length[of_reference],
        candidates.start[of_candidate],
        candidates.length[of_candidate],
        np.repeat(module, times[looked_up]),
    )


def _exact_only_where_equal(matches: Matches, candidate_lengths: IntArray, reference_lengths: IntArray) -> Matches:
    """Keep only exact matches where reference and candidate are the same sentence."""
    in_place = (matches.module == EXACT) & (matches.start == matches.at)
    right = np.bincount(matches.pair[in_place], minlength=len(reference_lengths))
    equal = (right == reference_lengths) & (right == candidate_lengths)
    return matches.where(~equal[matches.pair] | (matches.module == EXACT))


@dataclass(frozen=True, eq=False)
class PhraseTable:
    """Pairs of paraphrases as arrays of word numbers."""

    ids: dict[str, int]  # the number of each word
    phrases: IntArray  # word numbers, one row per phrase, padded with -1
    pairs: IntArray  # the two phrase numbers of each pair

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[PhraseWords, PhraseWords]]) -> PhraseTable:
        """Number the words and phrases of some pairs."""
        numbers: dict[PhraseWords, int] = {}
        flat = [numbers.setdefault(phrase, len(numbers)) for phrase in chain.from_iterable(pairs)]
        ids: dict[str, int] = {}
        words = np.array([ids.setdefault(word, len(ids)) for phrase in numbers for word in phrase], dtype=np.int64)
        lengths = np.array([len(phrase) for phrase in numbers], dtype=np.int64)
        phrases = np.full((len(numbers), lengths.max(initial=1)), -1)
        phrases[np.arange(phrases.shape[1]) < lengths[:, None]] = words
        return cls(ids, phrases, np.array(flat, dtype=np.int64).reshape(-1, 2))


def read_paraphrases(path: str | os.PathLike[str], vocabulary: Collection[str]) -> PhraseTable:
    """Read a paraphrase table in Meteor's format: gzipped text with three lines per pair.

    The lines are a probability, which Meteor does not use, and the two phrases. The shipped table is returned in full.
    From any other table only the pairs are kept whose words are all in the vocabulary.
    """
    if Path(path) == SHIPPED_PARAPHRASES:
        return _shipped_table()
    known = set(vocabulary)
    return PhraseTable.from_pairs(
        pair for pair in _read_pairs(Path(path)) if known.issuperset(chain.from_iterable(pair))
    )


@cache
def _shipped_table() -> PhraseTable:
    return PhraseTable.from_pairs(_read_pairs(SHIPPED_PARAPHRASES))


def _read_pairs(path: Path) -> Iterator[tuple[PhraseWords, PhraseWords]]:
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
