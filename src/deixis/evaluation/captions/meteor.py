r"""METEOR 1.5 for English without Java, as COCO's caption evaluation runs it (``-l en -norm``).

The rules are those of Meteor 1.5 for English (Denkowski and Lavie, 2014); no code of it is used. Candidate and
reference are aligned word by word and phrase by phrase: `meteor_matches` finds the possible matches (equal words,
equal stems, WordNet synonyms, paraphrases), `align` chooses among them. With
:math:`w = (1, 0.6, 0.8, 0.6)` for these modules, δ = 0.75 for content words and 1 − δ for function words,

.. math::
    P = \frac{\sum_i w_i (δ \, m^c_i + (1 - δ) \, m^f_i)}{δ \, |c| + (1 - δ) \, |f|}

is the precision on the side of the candidate, where :math:`m^c_i` and :math:`m^f_i` count the content and function
words matched by module i and :math:`|c|, |f|` all content and function words; the recall R is the same ratio on the
side of the reference;

.. math::
    F = \frac{P R}{α P + (1 - α) R}, \qquad
    \mathrm{METEOR} = F \cdot \Big(1 - γ \Big(\frac{\text{chunks}}{\text{matched words}}\Big)^β\Big)

with α = 0.85, β = 0.2, γ = 0.6, matched words averaged over the two sides, and no penalty where both sentences are
matched completely in one chunk. Among several references, the one with the best score counts. The score of a set is the
same formula applied to the sums of all counts, not the mean of the scores of the photos.

In an alignment, a word is in at most one match. Meteor first accepts the matches that compete with no other. It then
goes through the reference from left to right with a beam search over *paths*: at each word a path takes one of the
matches that begin there, or skips the word. The better of two paths has more in common (an exact match counts 1 on each
side, any other match half of its words, rounded down, on each side), then fewer chunks (runs that are contiguous in
both sentences), then the smaller distance between the positions of the matched words.

Unlike Meteor, this search merges paths that have the same continuations and drops paths that can no longer reach what
exact matches alone would give, so that a beam of 40 covers more than Meteor's beam of 40.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from deixis.arrays import BoolArray, FloatArray, IntArray, expand_runs
from deixis.evaluation.captions.meteor_matches import EXACT, SHIPPED_PARAPHRASES, Matches, PhraseWords, find_matches
from deixis.evaluation.captions.ngrams import (
    CaptionSet,
    EncodedSentences,
    Numbering,
    distinct,
    first_of_run,
    is_new,
    number_distinct,
    order_by,
    sum_by_group,
)
from deixis.language.words import function_words

_ALPHA, _BETA, _GAMMA, _DELTA = 0.85, 0.2, 0.6, 0.75
_MODULE_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])
_BEAM = 40

_NONE = -1
_LANE_BITS = 64
_HASH_BITS = 16
_ODD = np.uint64(0x9E3779B97F4A7C15)
_CELLS_PER_BATCH = 1 << 20

WordSets = npt.NDArray[np.uint64]
"""Sets of candidate words as bits, one row of 64-bit lanes for each set."""


def meteor_statistics(
    captions: CaptionSet, *, paraphrases: str | os.PathLike[str] | None = SHIPPED_PARAPHRASES
) -> FloatArray:
    """Return (photos, 6) counts for the reference with the best score, the first of equal ones.

    Weighted words of the candidate and of the reference, weighted matches of the two, chunks, matched words.
    """
    candidates, references, ids = _normalize_captions(captions)
    candidate_of = captions.photo_of_reference
    matches = find_matches(candidates, references, candidate_of, ids, paraphrases)
    matches = matches.where(align(matches, candidates.lengths[candidate_of], references))
    value = np.array([1 - _DELTA if word in function_words() else _DELTA for word in ids])
    statistics = _count(matches, candidates, references, candidate_of, value)
    return statistics[_best_references(meteor_from(statistics), candidate_of)]


def meteor_from(statistics: FloatArray) -> FloatArray:
    """Compute METEOR from single or summed counts (last axis), as a fraction of 1."""
    candidate, reference, matched_candidate, matched_reference, chunks, matched = np.moveaxis(statistics, -1, 0)
    precision, recall = _ratio(matched_candidate, candidate), _ratio(matched_reference, reference)
    mean = _ratio(precision * recall, _ALPHA * precision + (1 - _ALPHA) * recall)
    return np.maximum(0.0, mean * (1 - _GAMMA * _ratio(chunks, matched) ** _BETA))


# The letters of Meteor's normalizer: western European and Cyrillic.
_LETTER = "A-Za-zŠŽšžŸÀ-ÖØ-öø-žЀ-ӿԀ-ԧꙀ-ꙮ꙾-ꚗᴀ-ᵿ"
_ABBREVIATIONS = frozenset({"v", "vs", "i.e", "rev", "e.g"})

_SUBSTITUTIONS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (rf"[^0-9{_LETTER}\s.'`,\-‘’]", r" \g<0> "),
        (r"\.{2,}", r" \g<0> "),
        (r"(?<![0-9]),|,(?![0-9])", " , "),
        (r"[`‘’]", "'"),
        (r"[“”]|''", ' " '),
        ("–|--", "-"),
        (rf"(?<=[0-9{_LETTER}.])-(?=[0-9{_LETTER}])", " "),
        (
            rf"(?<![{_LETTER}])'(?![{_LETTER}])|(?<![0-9{_LETTER}])'(?=[{_LETTER}])|(?<=[{_LETTER}])'(?![{_LETTER}])",
            " ' ",
        ),
        (rf"(?<=[{_LETTER}])'(?=[{_LETTER}])|(?<=[0-9])'(?=s)", " '"),
    )
)


@cache
def normalize_word(word: str, before_letter: bool) -> PhraseWords:
    """Normalize one word."""
    parts = _split_word(word)
    if not parts or not parts[-1].endswith("."):
        return parts
    *others, last = parts
    before = last[:-1]
    if last.endswith("..") or not before:
        return parts
    if "." in before and re.search(f"[{_LETTER}]", before):
        return (*others, last.replace(".", ""))
    if before in _ABBREVIATIONS or before_letter:
        return parts
    return (*others, before, ".")


def starts_with_letter(word: str) -> bool:
    """Whether the normalized word starts with a letter from a to z."""
    parts = _split_word(word)
    return bool(parts) and "a" <= parts[0][0] <= "z"


@cache
def _split_word(word: str) -> PhraseWords:
    """The parts of a word, before the final full stop is treated."""
    if word.isascii() and word.isalnum():
        return (word,)
    for pattern, replacement in _SUBSTITUTIONS:
        word = pattern.sub(replacement, word)
    return tuple(word.lower().split())


def _normalize_captions(captions: CaptionSet) -> tuple[EncodedSentences, EncodedSentences, Numbering]:
    """Normalized candidates and references, and the numbers of their words."""
    vocabulary, sentences = captions.encoded
    words = sentences.words
    starts = np.array([starts_with_letter(word) for word in vocabulary] + [False])
    before_letter = np.append(starts[words[1:]], False)[: len(words)]
    before_letter[sentences.begins[1:][sentences.lengths > 0] - 1] = False

    spellings = [normalize_word(word, before) for before in (False, True) for word in vocabulary]
    ids = Numbering()
    parts = ids.encode(chain.from_iterable(spellings))
    count = np.array([len(spelling) for spelling in spellings], dtype=np.int64)
    first = np.cumsum(count) - count
    spelling = words + before_letter * len(vocabulary)
    flat = parts[expand_runs(first[spelling], count[spelling])]
    lengths = sum_by_group(sentences.sentence_of_word, count[spelling], len(sentences)).astype(np.int64)
    return *EncodedSentences(flat, lengths).split(len(captions.photos)), ids


def _count(
    matches: Matches,
    candidates: EncodedSentences,
    references: EncodedSentences,
    candidate_of: IntArray,
    value: FloatArray,
) -> FloatArray:
    """The counts of each pair from its chosen matches."""
    n_pairs = len(candidate_of)
    weight = _MODULE_WEIGHTS[matches.module]
    candidate_sums, reference_sums = _cumulative(value[candidates.words]), _cumulative(value[references.words])
    at = candidates.begins[candidate_of[matches.pair]] + matches.at
    start = references.begins[matches.pair] + matches.start
    in_candidate = weight * (candidate_sums[at + matches.span] - candidate_sums[at])
    in_reference = weight * (reference_sums[start + matches.length] - reference_sums[start])

    continues = (start[1:] == (start + matches.length)[:-1]) & (at[1:] == (at + matches.span)[:-1])
    continues &= matches.pair[1:] == matches.pair[:-1]
    chunks = np.bincount(matches.pair, minlength=n_pairs) - np.bincount(matches.pair[1:][continues], minlength=n_pairs)
    spans, lengths = (sum_by_group(matches.pair, each, n_pairs) for each in (matches.span, matches.length))
    complete = (spans == candidates.lengths[candidate_of]) & (lengths == references.lengths) & (chunks == 1)
    return np.stack(
        [
            np.diff(candidate_sums[candidates.begins])[candidate_of],
            np.diff(reference_sums[references.begins]),
            sum_by_group(matches.pair, in_candidate, n_pairs),
            sum_by_group(matches.pair, in_reference, n_pairs),
            np.where(complete, 0, chunks),
            (spans + lengths) / 2,
        ],
        axis=1,
    )


def _best_references(scores: FloatArray, candidate_of: IntArray) -> IntArray:
    """The reference with the highest score of each photo, the first of equal ones."""
    first = np.searchsorted(candidate_of, np.arange(candidate_of[-1] + 1))
    best = np.flatnonzero(scores == np.maximum.reduceat(scores, first)[candidate_of])
    return best[np.searchsorted(candidate_of[best], np.arange(len(first)))]


def _cumulative(values: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], np.cumsum(values)])


def _ratio(top: FloatArray, bottom: FloatArray) -> FloatArray:
    return np.divide(top, bottom, out=np.zeros(np.broadcast(top, bottom).shape), where=bottom > 0)


def align(matches: Matches, candidate_lengths: IntArray, references: EncodedSentences) -> BoolArray:
    """Mark the matches of the best alignment of each pair."""
    disputed = _disputed(matches, candidate_lengths, references.lengths)
    used = ~disputed
    to_search = distinct(matches.pair[disputed])
    lanes = int(candidate_lengths.max(initial=0)) // _LANE_BITS + 1
    batch_size = max(1, _CELLS_PER_BATCH // ((int(references.lengths.max(initial=0)) + 2) * lanes))
    for begin in range(0, len(to_search), batch_size):
        pairs = to_search[begin : begin + batch_size]
        first, last = np.searchsorted(matches.pair, [pairs[0], pairs[-1] + 1])
        rows = first + np.flatnonzero(np.isin(matches.pair[first:last], pairs))
        space = _search_space(matches.where(rows), disputed[rows], pairs, references)
        used[rows[_search(space)]] = True
    return used


def _disputed(matches: Matches, candidate_lengths: IntArray, reference_lengths: IntArray) -> BoolArray:
    """A mask of the matches that share a word with another one."""
    disputed = np.zeros(len(matches), dtype=bool)
    for first, count, lengths in (
        (matches.start, matches.length, reference_lengths),
        (matches.at, matches.span, candidate_lengths),
    ):
        row = np.repeat(np.arange(len(matches)), count)
        word = (np.cumsum(lengths) - lengths)[matches.pair[row]] + expand_runs(first, count)
        disputed[row[np.bincount(word)[word] > 1]] = True
    return disputed


@dataclass(frozen=True, eq=False)
class _SearchSpace:
    """The pairs that are searched together. Tables by pair and position have two columns more than reference words."""

    # All matches of these pairs, and the candidate words of each
    matches: Matches
    words: WordSets
    # Gain and distance that each match adds to a path
    gain: IntArray
    distance: IntArray
    # Cost of a chunk, and value of a unit of gain. A chunk costs more than any distance, and a unit of gain is worth
    # more than all chunks.
    per_chunk: int
    per_gain: int
    undisputed: IntArray  # by pair and position, the undisputed match that begins there, or -1
    # By pair and position, the first disputed match that begins there and the number of such matches
    first: IntArray
    number: IntArray
    # By pair and position, the maximum gain of the matches from there on, and the words that they may use
    remaining_gain: IntArray
    remaining_words: WordSets
    floor: IntArray  # for each pair, the gain of exact matches alone
    lengths: IntArray  # for each pair, the number of words of the reference


def _search_space(matches: Matches, disputed: BoolArray, pairs: IntArray, references: EncodedSentences) -> _SearchSpace:
    """Build the tables of the search."""
    lengths = references.lengths[pairs]
    pair = np.searchsorted(pairs, matches.pair)
    shape = len(pairs), int(lengths.max()) + 2
    gain = np.where(matches.module == EXACT, 2, matches.length // 2 + matches.span // 2)
    gain[~disputed] = 0  # all paths take them
    distance = np.abs(matches.start - matches.at)
    per_chunk = int(sum_by_group(pair, distance, len(pairs)).max()) + 1
    words = _word_sets(matches)
    position = pair * shape[1] + matches.start
    choice = np.flatnonzero(disputed)

    undisputed = np.full(shape, _NONE)
    undisputed.flat[position[~disputed]] = np.flatnonzero(~disputed)
    number = np.bincount(position[choice], minlength=shape[0] * shape[1])
    first = choice[np.minimum(np.cumsum(number) - number, len(choice) - 1)]
    best_gain = np.zeros(shape, dtype=np.int64)
    np.maximum.at(best_gain.reshape(-1), position[choice], gain[choice])
    usable = np.zeros((*shape, words.shape[1]), dtype=np.uint64)
    np.bitwise_or.at(usable.reshape(-1, words.shape[1]), position[choice], words[choice])

    exact = choice[matches.module[choice] == EXACT]
    word = references.words[references.begins[matches.pair[exact]] + matches.start[exact]]
    return _SearchSpace(
        matches=matches,
        words=words,
        gain=gain,
        distance=distance,
        per_chunk=per_chunk,
        per_gain=per_chunk * (int(lengths.max()) + 1),
        undisputed=undisputed,
        first=first.reshape(shape),
        number=number.reshape(shape),
        remaining_gain=best_gain[:, ::-1].cumsum(axis=1)[:, ::-1],
        remaining_words=np.bitwise_or.accumulate(usable[:, ::-1], axis=1)[:, ::-1],
        floor=2 * _max_exact_matches(pair[exact], word, matches.start[exact], matches.at[exact], len(pairs)),
        lengths=lengths,
    )


def _word_sets(matches: Matches) -> WordSets:
    """The candidate words of each match as bit sets."""
    lanes = int((matches.at + matches.span).max() - 1) // _LANE_BITS + 1
    sets = np.zeros((len(matches), lanes), dtype=np.uint64)
    row, word = np.repeat(np.arange(len(matches)), matches.span), expand_runs(matches.at, matches.span)
    np.bitwise_or.at(sets, (row, word // _LANE_BITS), np.uint64(1) << (word % _LANE_BITS).astype(np.uint64))
    return sets


def _max_exact_matches(pair: IntArray, word: IntArray, start: IntArray, at: IntArray, n_pairs: int) -> IntArray:
    """Maximum number of exact matches of each pair: for each word, the smaller of its counts in the two sentences."""
    if not len(pair):
        return np.zeros(n_pairs, dtype=np.int64)
    kinds, kind = number_distinct(pair * (word.max() + 1) + word)
    pair_of_kind = kinds // (word.max() + 1)
    in_reference, in_candidate = (
        np.bincount(distinct(kind * (position.max() + 1) + position) // (position.max() + 1), minlength=len(kinds))
        for position in (start, at)
    )
    return sum_by_group(pair_of_kind, np.minimum(in_reference, in_candidate), n_pairs).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Paths:
    """Partial alignments, one path per row."""

    pair: IntArray  # index of the pair in the search space
    cost: IntArray  # weighted sum of distances, closed chunks and (negative) gains; the lowest cost is best
    next: IntArray  # the next reference word
    last: IntArray  # the candidate word after the last match while its chunk is open; otherwise -1
    words: WordSets  # the candidate words in use
    trail: IntArray  # number of the last step in `_Steps`, or -1

    def where(self, rows: IntArray) -> _Paths:
        """Copy some rows."""
        return _Paths(
            self.pair.take(rows),
            self.cost.take(rows),
            self.next.take(rows),
            self.last.take(rows),
            self.words.take(rows, axis=0),
            self.trail.take(rows),
        )


class _Steps:
    """The matches that paths took, each step linked to the previous one."""

    def __init__(self) -> None:
        self._previous: list[IntArray] = []
        self._match: list[IntArray] = []
        self._number = 0

    def add(self, previous: IntArray, match: IntArray) -> IntArray:
        """Record steps and return their numbers."""
        self._previous.append(previous)
        self._match.append(match)
        self._number += len(match)
        return np.arange(self._number - len(match), self._number)

    def trace_back(self, ends: IntArray) -> IntArray:
        """All matches of the paths that end in these steps."""
        previous, match = np.concatenate(self._previous), np.concatenate(self._match)
        found = []
        while len(ends := ends[ends != _NONE]):
            found.append(match[ends])
            ends = previous[ends]
        return np.concatenate(found) if found else match[:0]


def _search(space: _SearchSpace) -> IntArray:
    """The matches of the best path of each pair."""
    n_pairs, columns = space.undisputed.shape
    zeros = np.zeros(n_pairs, dtype=np.int64)
    none = zeros + _NONE
    words = np.zeros((n_pairs, space.words.shape[1]), dtype=np.uint64)
    paths = _Paths(np.arange(n_pairs), zeros, zeros, none, words, none)
    steps = _Steps()
    ends = []
    for position in range(columns - 1):
        paths = _advance(space, paths, position, steps)
        finished = space.lengths[paths.pair] == position
        if finished.any():
            ends.append(paths.trail[finished])
            paths = paths.where(np.flatnonzero(~finished))
    return steps.trace_back(np.concatenate(ends))


def _advance(space: _SearchSpace, paths: _Paths, position: int, steps: _Steps) -> _Paths:
    """Extend the paths that have reached this word: by the undisputed match, by any other match, or by skipping it."""
    here = paths.next == position
    undisputed = np.where(here, space.undisputed[paths.pair, position], _NONE)
    waiting, forced, choosing = (np.flatnonzero(each) for each in (~here, undisputed >= 0, here & (undisputed < 0)))
    chooser, match, passed = _choices(space, paths, choosing, position)
    parents = np.concatenate([waiting, forced, chooser, choosing])
    ends = np.cumsum([len(waiting), len(forced), len(chooser), len(choosing)])
    taking_forced, taking, skipping = (slice(*each) for each in pairwise(ends))

    children = paths.where(parents)
    _take(space, children, taking_forced, undisputed[forced])
    children.cost[taking_forced] += space.distance[undisputed[forced]]
    _take(space, children, taking, match)
    children.cost[taking] += passed
    children.words[taking] |= space.words[match]
    children.trail[taking] = steps.add(paths.trail[chooser], match)
    all_passed = sum_by_group(chooser, space.distance[match], len(here)).astype(np.int64)
    children.cost[skipping] += all_passed[choosing] + np.where(children.last[skipping] != _NONE, space.per_chunk, 0)
    children.last[skipping] = _NONE
    children.next[skipping] += 1
    return _prune(space, children, order_by(parents))


def _choices(
    space: _SearchSpace, paths: _Paths, choosing: IntArray, position: int
) -> tuple[IntArray, IntArray, IntArray]:
    """For each match that a path may take here: the path, the match, and the distance to add.

    Meteor adds the distance of a match not to the path that takes it but to those that branch off after it.
    """
    number = space.number[paths.pair[choosing], position]
    path = np.repeat(choosing, number)
    match = expand_runs(space.first[paths.pair[choosing], position], number)
    free = np.flatnonzero(~(paths.words[path] & space.words[match]).any(axis=1))
    path, match = path[free], match[free]
    passed = np.cumsum(space.distance[match]) - space.distance[match]
    return path, match, passed - passed[first_of_run(path)]


def _take(space: _SearchSpace, paths: _Paths, rows: slice, match: IntArray) -> None:
    """Extend paths by a match, and close their chunk where the match does not continue it."""
    at, last = space.matches.at[match], paths.last[rows]
    breaks = (last != _NONE) & (last != at)
    paths.cost[rows] += np.where(breaks, space.per_chunk, 0) - space.gain[match] * space.per_gain
    paths.next[rows] = space.matches.start[match] + space.matches.length[match]
    paths.last[rows] = at + space.matches.span[match]


def _prune(space: _SearchSpace, paths: _Paths, rows: IntArray) -> _Paths:
    """Drop paths that cannot win, merge paths with the same continuations, and keep the best 40 of each pair."""
    remaining = space.remaining_gain[paths.pair, paths.next]
    promising = paths.cost < (remaining - space.floor[paths.pair] + 1) * space.per_gain
    # The beam may have lost the paths of a pair that are as good as exact matches alone; then all others stay.
    promising |= (np.bincount(paths.pair[promising], minlength=len(space.lengths)) == 0)[paths.pair]
    rows = rows[promising[rows]]
    rows = rows[order_by(paths.pair[rows], paths.cost[rows])]
    rows = rows[_first_per_state(space, paths, rows)]
    rank = np.arange(len(rows)) - first_of_run(paths.pair[rows])
    return paths.where(rows[rank < _BEAM])


def _first_per_state(space: _SearchSpace, paths: _Paths, rows: IntArray) -> IntArray:
    """The first of the rows that continue from the same word with the same usable words."""
    pair, following, last = paths.pair[rows], paths.next[rows], paths.last[rows]
    usable = paths.words[rows] & space.remaining_words[pair, following]
    # Sets are sorted by part of a hash. Two sets with the same part may fail to be merged, which is harmless.
    hashed = (np.bitwise_xor.reduce(usable * _ODD, axis=1) >> np.uint64(_LANE_BITS - _HASH_BITS)).astype(np.int64)
    order = order_by(pair, following, last, hashed)
    new = is_new(*(key[order] for key in (pair, following, last, *usable.T)))
    return np.sort(order[new])
