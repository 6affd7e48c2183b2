"""METEOR's alignment: of all possible matches, those that are used.

A word is in one match at most. Meteor first takes the matches that compete with no other. Then it goes through the
reference from left to right, keeping the best *paths* of choices: a path takes one of the matches that begin at the
word, or leaves the word. Of two paths the better one has more in common (an exact match counts 1 on each side, any
other half of its words, rounded down, on each side), then fewer chunks (runs that are contiguous in both sentences),
then the smaller distance between the places of what is matched. All pairs are searched at once, word by word.

Unlike Meteor, paths that can never differ again are joined, and paths that can no longer reach what exact matches alone
would give are dropped; so the 40 paths that are kept see further than Meteor's 40.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from deixis.evaluation.captions.arrays import (
    BoolArray,
    IntArray,
    distinct,
    first_of_run,
    is_new,
    numbered,
    order_by,
    runs,
    summed,
)
from deixis.evaluation.captions.meteor_matches import EXACT, Matches, Sentences

BEAM = 40

_NONE = -1
_LANE_BITS = 64
_HASH_BITS = 16
_ODD = np.uint64(0x9E3779B97F4A7C15)
_CELLS_AT_ONCE = 1 << 20

WordSets = npt.NDArray[np.uint64]
"""Sets of candidate words as bits, one row of 64-bit lanes for each set."""


def align(matches: Matches, candidate_lengths: IntArray, references: Sentences) -> BoolArray:
    """Choose the matches of the best alignment of each pair.

    Parameters
    ----------
    matches
        All possible ones, in their order.
    candidate_lengths
        For each pair, the number of words of the candidate.
    references
        The sentence of each pair.
    """
    used, possible = _settled(matches, candidate_lengths, references.lengths)
    disputed = distinct(matches.pair[possible])
    lanes = int(candidate_lengths.max(initial=0)) // _LANE_BITS + 1
    at_once = max(1, _CELLS_AT_ONCE // ((int(references.lengths.max(initial=0)) + 2) * lanes))
    for begin in range(0, len(disputed), at_once):
        pairs = disputed[begin : begin + at_once]
        first, last = np.searchsorted(matches.pair, [pairs[0], pairs[-1] + 1])
        rows = first + np.flatnonzero((used | possible)[first:last] & np.isin(matches.pair[first:last], pairs))
        board = _board(matches.where(rows), possible[rows], pairs, references)
        used[rows[_search(board)]] = True
    return used


def _settled(matches: Matches, candidate_lengths: IntArray, lengths: IntArray) -> tuple[BoolArray, BoolArray]:
    """The matches that compete with no other, and those that are still possible beside them."""
    row, word = np.repeat(np.arange(len(matches)), matches.length), runs(matches.start, matches.length)
    begins = np.cumsum(lengths) - lengths
    in_reference = begins[matches.pair[row]] + word
    row_too, word = np.repeat(np.arange(len(matches)), matches.span), runs(matches.at, matches.span)
    begins_too = np.cumsum(candidate_lengths) - candidate_lengths
    in_candidate = begins_too[matches.pair[row_too]] + word

    competes = np.zeros(len(matches), dtype=bool)
    competes[row[np.bincount(in_reference)[in_reference] > 1]] = True
    competes[row_too[np.bincount(in_candidate)[in_candidate] > 1]] = True
    taken = np.zeros(lengths.sum(), dtype=bool)
    taken[in_reference[~competes[row]]] = True
    taken_too = np.zeros(candidate_lengths.sum(), dtype=bool)
    taken_too[in_candidate[~competes[row_too]]] = True
    impossible = np.zeros(len(matches), dtype=bool)
    impossible[row[taken[in_reference]]] = True
    impossible[row_too[taken_too[in_candidate]]] = True
    return ~competes, ~impossible


@dataclass(frozen=True, eq=False)
class _Board:
    """The pairs that are searched together. Tables by pair and place have two columns more than reference words.

    Attributes
    ----------
    matches, words
        Settled and possible matches of these pairs, and the candidate words of each.
    gain, distance
        What each match adds to a path.
    per_chunk, per_gain
        What a chunk adds to the cost of a path, and a unit of gain takes off it. A chunk costs more than any distance,
        and a unit of gain is worth more than all chunks.
    settled
        By pair and place, the settled match that begins there, or -1.
    first, number
        By pair and place, the first possible match that begins there and how many there are.
    gain_to_come, words_to_come
        By pair and place, the most that matches from there on can add, and the words that they may use.
    floor
        For each pair, what exact matches alone would add.
    lengths
        For each pair, the words of the reference.
    """

    matches: Matches
    words: WordSets
    gain: IntArray
    distance: IntArray
    per_chunk: int
    per_gain: int
    settled: IntArray
    first: IntArray
    number: IntArray
    gain_to_come: IntArray
    words_to_come: WordSets
    floor: IntArray
    lengths: IntArray


def _board(matches: Matches, possible: BoolArray, pairs: IntArray, references: Sentences) -> _Board:
    """Lay out what the search looks up."""
    lengths = references.lengths[pairs]
    pair = np.searchsorted(pairs, matches.pair)
    shape = len(pairs), int(lengths.max()) + 2
    gain = np.where(matches.module == EXACT, 2, matches.length // 2 + matches.span // 2)
    gain[~possible] = 0  # every path has them
    distance = np.abs(matches.start - matches.at)
    per_chunk = int(summed(pair, distance, len(pairs)).max()) + 1
    words = _word_sets(matches)
    place = pair * shape[1] + matches.start
    choice = np.flatnonzero(possible)

    settled = np.full(shape, _NONE)
    settled.flat[place[~possible]] = np.flatnonzero(~possible)
    number = np.bincount(place[choice], minlength=shape[0] * shape[1])
    first = choice[np.minimum(np.cumsum(number) - number, len(choice) - 1)]
    most = np.zeros(shape, dtype=np.int64)
    np.maximum.at(most.reshape(-1), place[choice], gain[choice])
    to_come = np.zeros((*shape, words.shape[1]), dtype=np.uint64)
    np.bitwise_or.at(to_come.reshape(-1, words.shape[1]), place[choice], words[choice])

    exact = choice[matches.module[choice] == EXACT]
    word = references.words[references.begins[matches.pair[exact]] + matches.start[exact]]
    return _Board(
        matches=matches,
        words=words,
        gain=gain,
        distance=distance,
        per_chunk=per_chunk,
        per_gain=per_chunk * (int(lengths.max()) + 1),
        settled=settled,
        first=first.reshape(shape),
        number=number.reshape(shape),
        gain_to_come=most[:, ::-1].cumsum(axis=1)[:, ::-1],
        words_to_come=np.bitwise_or.accumulate(to_come[:, ::-1], axis=1)[:, ::-1],
        floor=2 * _most_exact(pair[exact], word, matches.start[exact], matches.at[exact], len(pairs)),
        lengths=lengths,
    )


def _word_sets(matches: Matches) -> WordSets:
    """The candidate words of each match."""
    lanes = int((matches.at + matches.span).max() - 1) // _LANE_BITS + 1
    sets = np.zeros((len(matches), lanes), dtype=np.uint64)
    row, word = np.repeat(np.arange(len(matches)), matches.span), runs(matches.at, matches.span)
    np.bitwise_or.at(sets, (row, word // _LANE_BITS), np.uint64(1) << (word % _LANE_BITS).astype(np.uint64))
    return sets


def _most_exact(pair: IntArray, word: IntArray, start: IntArray, at: IntArray, n_pairs: int) -> IntArray:
    """How many exact matches each pair can have: for each word the smaller of its counts in the two sentences."""
    if not len(pair):
        return np.zeros(n_pairs, dtype=np.int64)
    kind, n_kinds = numbered(pair * (word.max() + 1) + word)
    pair_of_kind = np.zeros(n_kinds, dtype=np.int64)
    pair_of_kind[kind] = pair
    in_reference, in_candidate = (
        np.bincount(distinct(kind * (place.max() + 1) + place) // (place.max() + 1), minlength=n_kinds)
        for place in (start, at)
    )
    return summed(pair_of_kind, np.minimum(in_reference, in_candidate), n_pairs).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Paths:
    """Choices made so far, one path a row.

    Attributes
    ----------
    pair
        The number of the pair on the board.
    cost
        What decides between paths, the least is best: distances, chunks that have ended, and gains as the board
        weighs them.
    next
        The reference word that is to be looked at next.
    last
        The candidate word after the last match, where the chunk is still open; else -1.
    words
        The candidate words that are used.
    trail
        The last step of the path in the list of steps, or -1.
    """

    pair: IntArray
    cost: IntArray
    next: IntArray
    last: IntArray
    words: WordSets
    trail: IntArray

    def where(self, rows: IntArray) -> _Paths:
        """Copies of some of them, in the order given."""
        return _Paths(
            self.pair.take(rows),
            self.cost.take(rows),
            self.next.take(rows),
            self.last.take(rows),
            self.words.take(rows, axis=0),
            self.trail.take(rows),
        )


class _Steps:
    """The matches that paths took, each step with the one before it."""

    def __init__(self) -> None:
        self._before: list[IntArray] = []
        self._match: list[IntArray] = []
        self._number = 0

    def add(self, before: IntArray, match: IntArray) -> IntArray:
        """Note steps, and give their numbers."""
        self._before.append(before)
        self._match.append(match)
        self._number += len(match)
        return np.arange(self._number - len(match), self._number)

    def back_from(self, ends: IntArray) -> IntArray:
        """All matches on the ways to these steps."""
        before, match = np.concatenate(self._before), np.concatenate(self._match)
        found = []
        while len(ends := ends[ends != _NONE]):
            found.append(match[ends])
            ends = before[ends]
        return np.concatenate(found) if found else match[:0]


def _search(board: _Board) -> IntArray:
    """The matches of the best path of each pair."""
    n_pairs, columns = board.settled.shape
    zeros = np.zeros(n_pairs, dtype=np.int64)
    none = zeros + _NONE
    words = np.zeros((n_pairs, board.words.shape[1]), dtype=np.uint64)
    paths = _Paths(np.arange(n_pairs), zeros, zeros, none, words, none)
    steps = _Steps()
    ends = []
    for place in range(columns - 1):
        paths = _one_word_on(board, paths, place, steps)
        finished = board.lengths[paths.pair] == place
        if finished.any():
            ends.append(paths.trail[finished])
            paths = paths.where(np.flatnonzero(~finished))
    return steps.back_from(np.concatenate(ends))


def _one_word_on(board: _Board, paths: _Paths, place: int, steps: _Steps) -> _Paths:
    """Let every path that has come to this word take the settled match here, or any other, or leave the word."""
    here = paths.next == place
    settled = np.where(here, board.settled[paths.pair, place], _NONE)
    waiting, sure, choosing = (np.flatnonzero(each) for each in (~here, settled >= 0, here & (settled < 0)))
    chooser, match, passed = _choices(board, paths, choosing, place)
    parents = np.concatenate([waiting, sure, chooser, choosing])
    ends = np.cumsum([len(waiting), len(sure), len(chooser), len(choosing)])
    taking_sure, taking, leaving = (slice(*each) for each in pairwise(ends))

    children = paths.where(parents)
    _take(board, children, taking_sure, settled[sure])
    children.cost[taking_sure] += board.distance[settled[sure]]
    _take(board, children, taking, match)
    children.cost[taking] += passed
    children.words[taking] |= board.words[match]
    children.trail[taking] = steps.add(paths.trail[chooser], match)
    all_passed = summed(chooser, board.distance[match], len(here)).astype(np.int64)
    children.cost[leaving] += all_passed[choosing] + np.where(children.last[leaving] != _NONE, board.per_chunk, 0)
    children.last[leaving] = _NONE
    children.next[leaving] += 1
    return _best(board, children, order_by(parents))


def _choices(board: _Board, paths: _Paths, choosing: IntArray, place: int) -> tuple[IntArray, IntArray, IntArray]:
    """For each match that a path may take here: the path, the match, and what its distance grows by.

    Meteor adds the distance of a match not to the path that takes it but to those that branch off after it.
    """
    number = board.number[paths.pair[choosing], place]
    path = np.repeat(choosing, number)
    match = runs(board.first[paths.pair[choosing], place], number)
    free = np.flatnonzero(~(paths.words[path] & board.words[match]).any(axis=1))
    path, match = path[free], match[free]
    passed = np.cumsum(board.distance[match]) - board.distance[match]
    return path, match, passed - passed[first_of_run(path)]


def _take(board: _Board, paths: _Paths, rows: slice, match: IntArray) -> None:
    """Let paths take a match, and end their chunk where it does not go on."""
    at, last = board.matches.at[match], paths.last[rows]
    breaks = (last != _NONE) & (last != at)
    paths.cost[rows] += np.where(breaks, board.per_chunk, 0) - board.gain[match] * board.per_gain
    paths.next[rows] = board.matches.start[match] + board.matches.length[match]
    paths.last[rows] = at + board.matches.span[match]


def _best(board: _Board, paths: _Paths, rows: IntArray) -> _Paths:
    """Of rows in their order drop what cannot win, join what can never differ again, keep the best of each pair."""
    to_come = board.gain_to_come[paths.pair, paths.next]
    promising = paths.cost < (to_come - board.floor[paths.pair] + 1) * board.per_gain
    rows = rows[promising[rows]]
    rows = rows[order_by(paths.pair[rows], paths.cost[rows])]
    rows = rows[_first_of_their_kind(board, paths, rows)]
    rank = np.arange(len(rows)) - first_of_run(paths.pair[rows])
    return paths.where(rows[rank < BEAM])


def _first_of_their_kind(board: _Board, paths: _Paths, rows: IntArray) -> IntArray:
    """Of rows that go on from the same word with the same words still of use, the places of the first."""
    pair, following, last = paths.pair[rows], paths.next[rows], paths.last[rows]
    of_use = paths.words[rows] & board.words_to_come[pair, following]
    # Sets are sorted by a part of a hash; where two sets share it, they may fail to be joined, which does no harm.
    hashed = (np.bitwise_xor.reduce(of_use * _ODD, axis=1) >> np.uint64(_LANE_BITS - _HASH_BITS)).astype(np.int64)
    order = order_by(pair, following, last, hashed)
    new = is_new(*(key[order] for key in (pair, following, last, *of_use.T)))
    return np.sort(order[new])
