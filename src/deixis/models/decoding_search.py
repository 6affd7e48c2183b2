"""The searches of `deixis.models.decoding`: sentences for some photos that grow together, by a word at a time.

Only sentences that may still become one that is asked for cost anything. They are rows; a photo has room for as many as
the search is wide, and its sentences of a beam are in their order, the best first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from deixis.models.m_rnn_cells import State

if TYPE_CHECKING:
    from deixis.models.decoding import Decoding

LEAST_TO_PART_WITH = 0.125
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


class NextWords(Protocol[L]):
    """What says which word is likely next: a `QuickMRNN`, or several of them."""

    unknown: int
    end: int
    start: int

    def first_state(self, rows: int) -> State:
        """The state before any word."""
        ...

    def ready(self, seen: L) -> L:
        """What the network has made of photos, as `next_words` takes it."""
        ...

    def next_words(self, seen: L, words: Tensor, state: State, growing: Growing) -> tuple[Tensor, State]:
        """Log-probabilities of what follows the last word of each sentence, and the state after it."""
        ...


class Search(Generic[L]):
    """Sentences for some photos, `width` for each.

    Attributes
    ----------
    made
        For each photo, once `run` is done, what was made up: the numbers of words and the log-probability.
    """

    def __init__(self, network: NextWords[L], seen: L, photos: int, how: Decoding, first_photo: int) -> None:
        self.made: dict[int, list[tuple[list[int], float]]] = {}
        self._network, self._seen, self._how = network, seen, how
        self._width = {"beam": how.beam, "greedy": 1, "sample": how.count}[how.method]
        self._numbers = torch.arange(photos)  # of photos that are not finished
        rows, first = photos * self._width, network.first_state(1)[0]
        self._device = first.device
        self._words = torch.zeros(rows, 0, dtype=torch.int64, device=self._device)
        self._scores = torch.zeros(rows, device=self._device, dtype=first.dtype)
        self._firsts = torch.arange(0, rows, self._width, device=self._device)
        self._growing = Growing(photos, self._width)
        if how.method == "beam" and self._width > 1:  # a beam begins as one sentence
            self._scores.view(photos, -1)[:, 1:] = -torch.inf
            self._growing = Growing(photos, self._width, self._firsts)
            rows = photos
        self._state = network.first_state(rows)
        self._last = torch.full((rows,), network.start, device=self._device)
        self._chance = self._drawn_numbers(first_photo) if how.method == "sample" else None

    def _drawn_numbers(self, first_photo: int) -> Tensor:
        """Numbers from 0 to 1, one for each word; those of a photo do not depend on how many photos follow it."""
        drawn = np.random.default_rng(self._how.seed)
        each = self._width * self._how.longest
        drawn.bit_generator.advance(first_photo * each)  # type: ignore[attr-defined] # one step of PCG64 a number
        numbers = drawn.random((len(self._scores), self._how.longest))
        return torch.from_numpy(numbers).to(self._device)

    def run(self, start: Sequence[int]) -> None:
        """Read the words given, then write until all sentences have ended."""
        for word in start:
            likely = self._next_words()
            self._last = torch.full_like(self._last, word)
            self._scores = self._scores + self._of_all(likely[:, word], 0.0)
            self._words = torch.cat([self._words, self._words.new_full((len(self._words), 1), word)], 1)
        grow = {"beam": self._best, "greedy": self._likeliest, "sample": self._by_chance}[self._how.method]
        for place in range(len(start), self._how.longest):
            likely = self._next_words()
            likely[:, self._network.unknown].fill_(-torch.inf)
            if place == 0:
                likely[:, self._network.end].fill_(-torch.inf)
            grow(likely)
            if not len(self._numbers):
                return
        self._hand_over(slice(None))

    def _next_words(self) -> Tensor:
        likely, self._state = self._network.next_words(self._seen, self._last, self._state, self._growing)
        return likely

    def _of_all(self, of_growing: Tensor, otherwise: float) -> Tensor:
        """What was found for sentences that grow, and something else for the others."""
        places = self._growing.places
        if places is None:
            return of_growing
        everything = of_growing.new_full((len(self._scores), *of_growing.shape[1:]), otherwise)
        return everything.index_copy_(0, places, of_growing)

    def _likeliest(self, likely: Tensor) -> None:
        self._add(*likely.max(1))

    def _by_chance(self, likely: Tensor) -> None:
        assert self._chance is not None  # noqa: S101 - it was drawn to sample by
        chance = self._chance[:, self._words.shape[1]]
        chosen = drawn(likely, chance if self._growing.places is None else chance[self._growing.places], self._how)
        self._add(likely.gather(1, chosen[:, None])[:, 0], chosen)

    def _add(self, gained: Tensor, chosen: Tensor) -> None:
        """Write a word of each sentence that grows."""
        self._scores = self._scores + self._of_all(gained, 0.0)
        everything = self._of_all(chosen, self._network.end)
        self._words = torch.cat([self._words, everything[:, None]], 1)
        open_ = everything != self._network.end
        if self._growing.places is None and bool(open_.all()):
            self._last = chosen
            return
        stays = chosen != self._network.end
        self._go_on(open_, chosen[stays], stays.nonzero()[:, 0])

    def _best(self, likely: Tensor) -> None:
        """Write the best continuations of each photo's sentences, and bring all rows into their order."""
        photos, width = len(self._numbers), self._width
        values, words = likely.topk(min(width, likely.shape[1]), dim=1)
        gained, chosen = self._of_all(values, -torch.inf), self._of_all(words, self._network.end)
        if self._growing.places is not None:  # what has ended writes its end again, for nothing
            gained[:, 0].masked_fill_(self._ended(), 0.0)
        totals = (self._scores[:, None] + gained).view(photos, -1)
        if self._how.length_power:
            best = (totals / self._lengths(values.shape[1])).topk(width, dim=1).indices
            scores = totals.gather(1, best)
        else:
            scores, best = totals.topk(width, dim=1)
        parents = (best // values.shape[1] + self._firsts[:photos, None]).flatten()
        written = chosen.view(photos, -1).gather(1, best).flatten()
        self._scores = scores.flatten()
        self._words = torch.cat([self._words.index_select(0, parents), written[:, None]], 1)
        open_ = self._may_be_asked_for(written)
        rows = self._rows_of_all().index_select(0, parents)
        if bool(open_.all()):
            self._go_on(None, written, rows)
        else:
            self._go_on(open_, written[open_], rows[open_])

    def _ended(self) -> Tensor:
        if not self._words.shape[1]:
            return torch.zeros_like(self._scores, dtype=torch.bool)
        return self._words[:, -1] == self._network.end

    def _lengths(self, times: int) -> Tensor:
        """What totals are divided by: words so far, this one included and the end sign as one, to a power."""
        words = (self._words != self._network.end).sum(1) + 1
        return (words.float() ** self._how.length_power).repeat_interleave(times).view(len(self._numbers), -1)

    def _may_be_asked_for(self, written: Tensor) -> Tensor:
        """Which sentences of a beam may still become one that is asked for."""
        ended = written == self._network.end
        open_ = self._scores.isfinite() & ~ended
        if not self._how.length_power:
            # Sentences can only become less likely: behind as many ended ones as are asked for there is no hope.
            ended_before = ended.view(-1, self._width).cumsum(1)
            open_ &= (ended_before < self._how.count).flatten()
        return open_

    def _rows_of_all(self) -> Tensor:
        """For each sentence the row of its state."""
        rows = torch.arange(len(self._state[0]), device=self._device)
        return self._of_all(rows, 0)

    def _go_on(self, open_: Tensor | None, last: Tensor, rows: Tensor) -> None:
        """Go on with the sentences that are open.

        Parameters
        ----------
        open_
            (sentences,): which; None for all.
        last
            The last word of each open one.
        rows
            And the row of the state before that word.
        """
        self._last = last
        self._state = tuple(part.index_select(0, rows) for part in self._state)
        if open_ is not None:
            open_ = self._without_finished(open_)
        places = None if open_ is None else open_.nonzero()[:, 0]
        self._growing = Growing(len(self._numbers), self._width, places)

    def _without_finished(self, open_: Tensor) -> Tensor:
        """Part with photos that are finished, once these are many; give which sentences of the others are open."""
        photos = len(self._numbers)
        stay = open_.view(photos, -1).any(1)
        finished = photos - int(stay.sum())
        if not finished or finished < LEAST_TO_PART_WITH * photos:
            return open_
        self._hand_over(~stay)
        rows = stay.repeat_interleave(self._width)
        self._numbers, self._seen = self._numbers[stay.cpu()], self._seen.take(stay)
        self._words, self._scores = self._words[rows], self._scores[rows]
        if self._chance is not None:
            self._chance = self._chance[rows]
        return open_[rows]

    def _hand_over(self, photos: Tensor | slice) -> None:
        """Keep what was made up for some photos, but for what a beam wider than all sentences holds besides."""
        if isinstance(photos, Tensor):
            photos = photos.cpu()
        count, all_photos = self._how.count, len(self._numbers)
        words = self._words.view(all_photos, self._width, -1).cpu()[photos, :count].tolist()
        scores = self._scores.view(all_photos, -1).cpu()[photos, :count].tolist()
        for number, rows, values in zip(self._numbers[photos].tolist(), words, scores, strict=True):
            self.made[number] = [pair for pair in zip(rows, values, strict=True) if np.isfinite(pair[1])]


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
