"""Making up sentences from a network that says which word is likely next: greedily, by chance, or by beam search.

All ways work on many photos at once, and give for each photo what they would give for it alone. None of them writes the
unknown word or the start sign, and a sentence has at least one word. The probability of a sentence is the model's own,
that of words given to begin with and of the end sign included; it is never rescaled for what may not be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.m_rnn_cells import State
from deixis.tokens import words as words_in

ROWS_AT_A_TIME = {"cpu": 640, "cuda": 8192}
"""Sentences that are worked on together: enough that a step costs more than calling it."""

LEAST_TO_PART_WITH = 0.125
"""The share of photos that must be finished before the others go on without them."""


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

    def next_words(self, seen: L, words: Tensor, state: State, alive: Tensor | None = None) -> tuple[Tensor, State]:
        """Log-probabilities of what follows each word (photos, n), for rows that are alive, and the state of all."""
        ...


@dataclass(frozen=True)
class Decoding:
    """How sentences are made up.

    Attributes
    ----------
    method
        beam, greedy (the likeliest word each time) or sample (a word by chance).
    beam
        Of beam: how many unfinished or finished sentences are kept at each word.
    count
        Sentences for each photo: the best of the beam, or so many samples.
    length_power
        Of beam: sentences are compared by the sum of their log-probabilities over (their words)^length_power. 0, the
        paper's way, compares sums, and so favours short sentences; 1 compares means.
    temperature
        Of sample: log-probabilities are divided by it, so that less than 1 is more careful.
    top_k
        Of sample: only so many likeliest words; 0 for all.
    nucleus
        Of sample: only the likeliest words that together have this probability.
    seed
        Of sample.
    longest
        Words in a sentence, at most.

    Examples
    --------
    >>> Decoding(beam=10, count=10).method
    'beam'
    """

    method: Literal["beam", "greedy", "sample"] = "beam"
    beam: int = 5
    count: int = 1
    length_power: float = 0.0
    temperature: float = 1.0
    top_k: int = 0
    nucleus: float = 1.0
    seed: int = 0
    longest: int = 30

    def __post_init__(self) -> None:
        for name in ("beam", "count", "longest"):
            if getattr(self, name) < 1:
                raise DeixisError(f"{name}={getattr(self, name)}: must be 1 or more")
        if self.method == "beam" and self.count > self.beam:
            raise DeixisError(f"count={self.count}: a beam of {self.beam} has no more than {self.beam} sentences")
        if self.method == "greedy" and self.count > 1:
            raise DeixisError(f"count={self.count}: there is only one greedy sentence; use beam or sample")
        if not self.temperature > 0:
            raise DeixisError(f"temperature={self.temperature}: must be greater than 0")
        if not 0 < self.nucleus <= 1:
            raise DeixisError(f"nucleus={self.nucleus}: must be greater than 0 and at most 1")
        if self.top_k < 0 or self.seed < 0 or self.length_power < 0:
            raise DeixisError("top_k, seed and length_power must not be negative")


@dataclass(frozen=True)
class Generated:
    """A sentence that was made up.

    Attributes
    ----------
    words
        In lower case, as `deixis.tokens.words` would give them.
    log_probability
        Of the words and the end sign, in natural logarithms.
    finished
        Whether the end sign was written, and not only the greatest length reached.

    Examples
    --------
    >>> Generated(("a", "dog"), -3 * np.log(4), True).perplexity
    4.0
    """

    words: tuple[str, ...]
    log_probability: float
    finished: bool = True

    @property
    def text(self) -> str:
        """The words with spaces between them."""
        return " ".join(self.words)

    @property
    def perplexity(self) -> float:
        """Eq. 5: base 2, the end sign counted."""
        return float(2 ** (-self.log_probability / np.log(2) / (len(self.words) + self.finished)))


def start_ids(text: str, vocabulary: Vocabulary) -> list[int]:
    """The numbers of words to begin with; an unknown one is refused.

    Examples
    --------
    >>> start_ids("A dog", Vocabulary(("a", "dog"), (2, 1)))
    [0, 1]
    >>> start_ids("A zebra", Vocabulary(("a", "dog"), (2, 1)))
    Traceback (most recent call last):
    deixis.errors.DeixisError: start: the model does not know the word 'zebra'
    """
    found = words_in(text)
    strange = [word for word in found if word not in vocabulary]
    if strange:
        raise DeixisError(f"start: the model does not know the word {strange[0]!r}")
    return vocabulary.encode(found)


@torch.inference_mode()
def decode(
    network: NextWords[L], seen: L, photos: int, vocabulary: Vocabulary, how: Decoding, start: Sequence[int] = ()
) -> list[list[Generated]]:
    """Make up sentences for photos; of each photo the best first, or samples in the order drawn.

    Parameters
    ----------
    network
        What says which word is likely next.
    seen
        What it has made of the photos.
    photos
        How many there are.
    vocabulary
        The words of its numbers.
    how
        Greedily, by chance or by beam search.
    start
        Words to begin with.
    """
    if len(start) >= how.longest:
        raise DeixisError(f"start: {len(start)} words to begin with, and a sentence has {how.longest} at most")
    width = {"beam": how.beam, "greedy": 1, "sample": how.count}[how.method]
    block = max(1, ROWS_AT_A_TIME.get(network.first_state(1)[0].device.type, 8192) // width)
    made: list[list[Generated]] = []
    seen = network.ready(seen)
    for begin in range(0, photos, block):
        count = min(block, photos - begin)
        search = _Search(network, seen.take(slice(begin, begin + count)), count, width, how, first_photo=begin)
        search.run(start)
        made += [[_in_words(*ids, network.end, vocabulary) for ids in search.made[photo]] for photo in range(count)]
    return made


def _in_words(row: list[int], score: float, end: int, vocabulary: Vocabulary) -> Generated:
    finished = end in row
    until = row.index(end) if finished else len(row)
    return Generated(tuple(vocabulary.decode(row[:until])), score, finished)


class _Search(Generic[L]):
    """Sentences for some photos, `width` for each, that grow by a word at a time.

    The sentences of a beam are in their order, the best first; what has no probability is no sentence at all.
    """

    def __init__(
        self, network: NextWords[L], seen: L, photos: int, width: int, how: Decoding, first_photo: int
    ) -> None:
        self.network, self.width, self.how = network, width, how
        self.places = torch.arange(photos)
        self.made: dict[int, list[tuple[list[int], float]]] = {}
        self.seen = seen
        rows = photos * width
        self.state = network.first_state(rows)
        self.device = self.state[0].device
        self.words = torch.zeros(rows, 0, dtype=torch.int64, device=self.device)
        self.scores = torch.zeros(photos, width, device=self.device, dtype=self.state[0].dtype)
        if how.method == "beam":
            self.scores[:, 1:] = -torch.inf  # a beam begins as one sentence
        self.ended = torch.zeros(rows, dtype=torch.bool, device=self.device)
        self.firsts = torch.arange(0, rows, width, device=self.device)[:, None]
        self.alive = self._alive()
        self.chance = self._chance(first_photo) if how.method == "sample" else None

    @property
    def photos(self) -> int:
        """How many photos still have sentences that grow."""
        return len(self.places)

    def _chance(self, first_photo: int) -> Tensor:
        """Numbers from 0 to 1, one for each word; those of a photo do not depend on how many photos follow it."""
        drawn = np.random.default_rng(self.how.seed)
        each = self.width * self.how.longest
        drawn.bit_generator.advance(first_photo * each)  # type: ignore[attr-defined] # one step of PCG64 a number
        numbers = drawn.random((self.photos * self.width, self.how.longest))
        return torch.from_numpy(numbers).to(self.device)

    def run(self, start: Sequence[int]) -> None:
        """Read the words given, then write until all sentences have ended; what was made up is in `made`."""
        last = torch.full((self.photos * self.width,), self.network.start, device=self.device)
        for place in range(self.how.longest):
            words = last.view(self.photos, self.width)
            likely, self.state = self.network.next_words(self.seen, words, self.state, self.alive)
            if place < len(start):
                last = torch.full_like(last, start[place])
                self._add(last, self._of_all(likely[:, start[place]], 0.0))
                continue
            likely[:, self.network.unknown] = -torch.inf
            if place == 0:
                likely[:, self.network.end] = -torch.inf
            last = self._part_with_finished(self._grow(likely, place))
            if not self.photos:
                return
        self._hand_over(slice(None))

    def _alive(self) -> Tensor | None:
        """Which sentences may still become one that is asked for; None for all."""
        alive = self.scores.flatten().isfinite() & ~self.ended
        if bool(alive.all()):
            return None
        if self.how.method == "beam" and not self.how.length_power:
            # Sentences can only become less likely: behind as many ended ones as are asked for there is no hope.
            ended_before = self.ended.view(self.photos, self.width).cumsum(1)
            alive &= (ended_before < self.how.count).flatten()
        return alive

    def _part_with_finished(self, last: Tensor) -> Tensor:
        """Go on without the photos whose sentences are finished, once these are many; give the others' last words."""
        self.alive = self._alive()
        if self.alive is None:
            return last
        stay = self.alive.view(self.photos, self.width).any(1)
        count = self.photos - int(stay.sum())
        if not count or count < LEAST_TO_PART_WITH * self.photos:
            return last
        self._hand_over(~stay)
        rows = stay.repeat_interleave(self.width)
        self.places, self.scores = self.places[stay.cpu()], self.scores[stay]
        self.words, self.ended, self.alive = self.words[rows], self.ended[rows], self.alive[rows]
        self.state = tuple(part[rows] for part in self.state)
        self.seen = self.seen.take(stay)
        if self.chance is not None:
            self.chance = self.chance[rows]
        return last[rows]

    def _hand_over(self, photos: Tensor | slice) -> None:
        """Keep what was made up for some photos, but for what a beam wider than all sentences holds besides."""
        if isinstance(photos, Tensor):
            photos = photos.cpu()
        words = self.words.view(self.photos, self.width, -1).cpu()[photos, : self.how.count].tolist()
        scores = self.scores.cpu()[photos, : self.how.count].tolist()
        for place, rows, values in zip(self.places[photos].tolist(), words, scores, strict=True):
            self.made[place] = [pair for pair in zip(rows, values, strict=True) if np.isfinite(pair[1])]

    def _of_all(self, of_alive: Tensor, otherwise: float) -> Tensor:
        """What was found for sentences that are alive, and something else for the others."""
        if self.alive is None:
            return of_alive
        everything = of_alive.new_full((len(self.alive), *of_alive.shape[1:]), otherwise)
        everything[self.alive] = of_alive
        return everything

    def _grow(self, likely: Tensor, place: int) -> Tensor:
        """Choose a word for each sentence; give the words chosen. What has ended writes its end again, for nothing."""
        if self.how.method == "beam":
            return self._best(likely)
        if self.chance is None:
            gained, chosen = likely.max(1)
        else:
            chance = self.chance[:, place]
            chosen = self._drawn(likely, chance if self.alive is None else chance[self.alive])
            gained = likely.gather(1, chosen[:, None])[:, 0]
        chosen = self._of_all(chosen, self.network.end)
        self._add(chosen, self._of_all(gained, 0.0))
        return chosen

    def _add(self, chosen: Tensor, gained: Tensor) -> None:
        self.scores = self.scores + gained.view_as(self.scores)
        self.words = torch.cat([self.words, chosen[:, None]], 1)
        self.ended = self.ended | (chosen == self.network.end)

    def _best(self, likely: Tensor) -> Tensor:
        """The best continuations of each photo's sentences; brings all rows into the order of these."""
        values, words = likely.topk(min(self.width, likely.shape[1]), dim=1)
        gained, chosen = self._of_all(values, -torch.inf), self._of_all(words, self.network.end)
        if self.alive is not None:
            gained[:, 0].masked_fill_(self.ended, 0.0)
        totals = (self.scores.view(-1, 1) + gained).view(self.photos, -1)
        ranked = totals if not self.how.length_power else totals / self._lengths().repeat_interleave(gained.shape[1], 1)
        best = ranked.topk(self.width, dim=1).indices
        self.scores = totals.gather(1, best)
        chosen = chosen.view(self.photos, -1).gather(1, best).flatten()
        parents = (best // gained.shape[1] + self.firsts[: self.photos]).flatten()
        self.state = tuple(part[parents] for part in self.state)
        self.words = torch.cat([self.words[parents], chosen[:, None]], 1)
        self.ended = self.ended[parents] | (chosen == self.network.end)
        return chosen

    def _lengths(self) -> Tensor:
        """What totals are divided by: words so far, this one included and the end sign as one, to a power."""
        words = (self.words != self.network.end).sum(1) + 1
        return words.view(self.photos, self.width).float() ** self.how.length_power

    def _drawn(self, likely: Tensor, chance: Tensor) -> Tensor:
        """A word by chance for each sentence, among the likeliest."""
        ordered = (likely / self.how.temperature).double().softmax(1).sort(dim=1, descending=True, stable=True)
        shares = ordered.values
        before = shares.cumsum(1) - shares
        kept = before < self.how.nucleus
        if self.how.top_k:
            kept[:, self.how.top_k :] = False
        summed = (shares * kept).cumsum(1)
        place = torch.searchsorted(summed, chance[:, None] * summed[:, -1:], right=True)
        place = place.clamp(max=shares.shape[1] - 1)
        return ordered.indices.gather(1, place)[:, 0]
