"""The searches of `deixis.models.decoding`: sentences for some photos that grow together, by a word at a time.

Only sentences that may still become one that is asked for cost anything. They are rows; a photo has room for as many as
the search is wide, and its sentences of a beam are in their order, the best first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deixis.models.m_rnn_cells import State

if TYPE_CHECKING:
    from deixis.models.decoding import Decoding

LEAST_TO_PART_WITH = 0.25
"""The share of photos that must be finished before the others go on without them."""


@dataclass(frozen=True)
class Growing:
    """Of which photos sentences are that grow together.

    Attributes
    ----------
    photos
        How many photos there are.
    width
        For how many sentences each has room.
    places
        (rows,): photo · width + place of each sentence, in order; None where all the room is taken.

    Examples
    --------
    >>> growing = Growing(photos=2, width=3, places=torch.tensor([0, 1, 5]))
    >>> growing.of_photos(torch.tensor([[7.0], [8.0]]))[:, 0].tolist()
    [7.0, 7.0, 8.0]
    """

    photos: int
    width: int
    places: Tensor | None = None

    def of_photos(self, rows: Tensor) -> Tensor:
        """From a row for each photo, one for each sentence; or one for all, where there is but one photo."""
        if self.photos == 1 or (self.width == 1 and self.places is None):
            return rows
        if self.places is None:
            return rows.repeat_interleave(self.width, 0)
        return rows.index_select(0, self.places // self.width)

    def by_photo(self, rows: Tensor) -> Tensor:
        """From a row for each sentence, (photos, width, numbers), with 0 where there is none."""
        if self.places is not None:
            rows = rows.new_zeros(self.photos * self.width, rows.shape[1]).index_copy_(0, self.places, rows)
        return rows.view(self.photos, self.width, -1)

    def one_after_another(self, by_photo: Tensor) -> Tensor:
        """From (photos, width, numbers) a row for each sentence."""
        rows = by_photo.flatten(0, 1)
        return rows if self.places is None else rows.index_select(0, self.places)


class Looks(Protocol):
    """What networks have made of photos; a row each."""

    def take(self, rows: Tensor | slice) -> Self:
        """Some of the photos, each as often as it is asked for."""
        ...


L = TypeVar("L", bound=Looks)
Taken = TypeVar("Taken", bound=Looks, contravariant=True)


class NextWords(Protocol[Taken]):
    """What says which word is likely next: a `QuickMRNN`, or several of them."""

    unknown: int
    end: int
    start: int

    def first_state(self, rows: int) -> State:
        """The state before any word."""
        ...

    def next_words(self, seen: Taken, words: Tensor, state: State, growing: Growing) -> tuple[Tensor, State]:
        """Log-probabilities of what follows the last word of each sentence, and the state after it."""
        ...


class Search(Generic[L]):
    """Sentences for some photos, `width` for each.

    What a network computes is in tensors. Sentences and their order are in arrays, those of a photo one after another:
    for so few numbers numpy takes less time.

    Attributes
    ----------
    made
        For each photo, once `run` is done, what was made up: the numbers of words and the log-probability.
    """

    def __init__(self, network: NextWords[L], seen: L, photos: int, how: Decoding, first_photo: int) -> None:
        self.made: dict[int, list[tuple[list[int], float]]] = {}
        self._network, self._seen, self._how = network, seen, how
        self._width = {"beam": how.beam, "greedy": 1, "sample": how.count}[how.method]
        self._photos = np.arange(photos)  # that are not finished
        self._length = 0
        self._words = np.full((photos * self._width, how.longest), network.end)
        self._scores = np.zeros(photos * self._width)
        if how.method == "beam":  # begins as one sentence
            self._scores.reshape(photos, -1)[:, 1:] = -np.inf
        self._open = np.isfinite(self._scores).nonzero()[0]
        self._state = network.first_state(len(self._open))
        self._last = torch.full((len(self._open),), network.start, device=self._state[0].device)
        self._growing = self._that_grow()
        self._chance = self._drawn_numbers(first_photo) if how.method == "sample" else None

    def _drawn_numbers(self, first_photo: int) -> NDArray[np.float64]:
        """Numbers from 0 to 1, one for each word; those of a photo do not depend on how many photos follow it."""
        drawn = np.random.default_rng(self._how.seed)
        each = self._width * self._how.longest
        drawn.bit_generator.advance(first_photo * each)  # type: ignore[attr-defined] # one step of PCG64 a number
        return drawn.random(self._words.shape)

    def run(self, start: Sequence[int]) -> None:
        """Read the words given, then write until all sentences have ended."""
        for word in start:
            self._write(self._next_words()[:, word], torch.full_like(self._last, word))
        grow = {"beam": self._best, "greedy": self._likeliest, "sample": self._by_chance}[self._how.method]
        while self._length < self._how.longest and len(self._open):
            likely = self._next_words()
            likely[:, self._network.unknown].fill_(-torch.inf)
            if not self._length:
                likely[:, self._network.end].fill_(-torch.inf)
            grow(likely)
        self._hand_over(np.arange(len(self._photos)))

    def _next_words(self) -> Tensor:
        likely, self._state = self._network.next_words(self._seen, self._last, self._state, self._growing)
        return likely

    def _likeliest(self, likely: Tensor) -> None:
        self._add(*likely.max(1))

    def _by_chance(self, likely: Tensor) -> None:
        assert self._chance is not None  # noqa: S101 - it was drawn to sample by
        chosen = drawn(likely, self._given(self._chance[self._open, self._length]), self._how)
        self._add(likely.gather(1, chosen[:, None])[:, 0], chosen)

    def _add(self, gained: Tensor, chosen: Tensor) -> None:
        """Write a word of each sentence that grows, and go on with those that have not ended."""
        self._write(gained, chosen)
        stay = self._words[self._open, self._length - 1] != self._network.end
        if not stay.all():
            self._go_on(self._open[stay], stay.nonzero()[0])

    def _write(self, gained: Tensor, chosen: Tensor) -> None:
        self._scores[self._open] += gained.cpu().numpy()
        self._words[self._open, self._length] = chosen.cpu().numpy()
        self._length += 1
        self._last = chosen

    def _best(self, likely: Tensor) -> None:
        """Write the best continuations of each photo's sentences, and bring all sentences into their order."""
        photos, times = len(self._photos), min(self._width, likely.shape[1])
        values, words = likely.topk(times, dim=1)
        gained, chosen = self._of_all(values, -np.inf), self._of_all(words, self._network.end)
        if self._length:  # what has ended writes its end again, for nothing
            gained[self._words[:, self._length - 1] == self._network.end, 0] = 0
        totals = self._scores[:, None] + gained
        ranks = totals / self._lengths() if self._how.length_power else totals
        best = (-ranks).reshape(photos, -1).argsort(1, kind="stable")[:, : self._width]
        best = (best + np.arange(0, totals.size, self._width * times)[:, None]).ravel()
        parents = best // times
        self._scores, self._words = totals.take(best), self._words[parents]
        self._words[:, self._length] = chosen.take(best)
        open_ = self._may_be_asked_for().nonzero()[0]
        row = np.zeros(len(parents), dtype=np.int64)
        row[self._open] = np.arange(len(likely))
        self._length += 1
        self._go_on(open_, row[parents[open_]])

    def _of_all(self, of_growing: Tensor, otherwise: float) -> NDArray[Any]:
        """What was found for sentences that grow, and something else for the others."""
        everything = np.full((len(self._scores), of_growing.shape[1]), otherwise)
        everything[self._open] = of_growing.cpu().numpy()
        return everything

    def _lengths(self) -> NDArray[np.float64]:
        """What totals are divided by: words so far, this one included and the end sign as one, to a power."""
        words = (self._words != self._network.end).sum(1, keepdims=True) + 1
        lengths: NDArray[np.float64] = words**self._how.length_power
        return lengths

    def _may_be_asked_for(self) -> NDArray[np.bool_]:
        """Which sentences of a beam may still become one that is asked for."""
        ended = self._words[:, self._length] == self._network.end
        open_: NDArray[np.bool_] = np.isfinite(self._scores) & ~ended
        if not self._how.length_power:
            # Sentences can only become less likely: behind as many ended ones as are asked for there is no hope.
            open_ &= (ended.reshape(-1, self._width).cumsum(1) < self._how.count).ravel()
        return open_

    def _go_on(self, open_: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Go on with the sentences that are open.

        Parameters
        ----------
        open_
            Which.
        rows
            Of each, the row of the state before its last word.
        """
        self._open = open_
        if not len(open_):
            return
        self._last, order = self._given(self._words[open_, self._length - 1]), self._given(rows)
        self._state = tuple(part.index_select(0, order) for part in self._state)
        self._part_with_finished()
        self._growing = self._that_grow()

    def _that_grow(self) -> Growing:
        places = None if len(self._open) == len(self._scores) else self._given(self._open)
        return Growing(len(self._photos), self._width, places)

    def _part_with_finished(self) -> None:
        """Go on without the photos that are finished, once these are many."""
        stay = np.zeros(len(self._photos), dtype=bool)
        stay[self._open // self._width] = True
        finished = len(stay) - stay.sum()
        if not finished or finished < LEAST_TO_PART_WITH * len(stay):
            return
        self._hand_over((~stay).nonzero()[0])
        rows = stay.repeat(self._width)
        self._open = (rows.cumsum() - 1)[self._open]
        self._photos, self._seen = self._photos[stay], self._seen.take(self._given(stay))
        self._words, self._scores = self._words[rows], self._scores[rows]
        if self._chance is not None:
            self._chance = self._chance[rows]

    def _hand_over(self, photos: NDArray[np.int64]) -> None:
        """Keep what was made up for some photos, but for what a beam wider than all sentences holds besides."""
        rows = photos[:, None] * self._width + np.arange(self._how.count)
        found = zip(self._photos[photos].tolist(), self._words[rows].tolist(), self._scores[rows].tolist(), strict=True)
        for number, sentences, scores in found:
            self.made[number] = [pair for pair in zip(sentences, scores, strict=True) if isfinite(pair[1])]

    def _given(self, numbers: NDArray[Any]) -> Tensor:
        """What numpy has found, for the network."""
        return torch.from_numpy(numbers).to(self._state[0].device)


def drawn(likely: Tensor, chance: Tensor, how: Decoding) -> Tensor:
    """A word by chance for each row of log-probabilities, among the likeliest; chance is a number from 0 to 1 each."""
    ordered = (likely / how.temperature).double().softmax(1).sort(dim=1, descending=True, stable=True)
    shares = ordered.values
    before = shares.cumsum(1) - shares
    kept = before < how.nucleus
    if how.top_k:
        kept[:, how.top_k :] = False
    summed = (shares * kept).cumsum(1)
    place = torch.searchsorted(summed, chance[:, None] * summed[:, -1:], right=True)
    place = place.clamp(max=shares.shape[1] - 1)
    return ordered.indices.gather(1, place)[:, 0]
