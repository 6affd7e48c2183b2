"""Sentence generation (section 5): beam search, greedy search and sampling.

All methods work on many photos at once and give each photo what they would give it alone. They never generate the
unknown word or the start token, and a sentence has at least one word. The probability of a sentence is the model's own,
including the words it was started with and the end token; it is not renormalized for words that may not be generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.m_rnn.network import State
from deixis.tokens import words as words_in

_ROWS_PER_BLOCK = {"cpu": 640, "cuda": 8192}
"""Sentences that are extended together: enough that computing a step costs more than calling it."""

_MIN_FINISHED = 0.25
"""Share of the photos that must be finished before they are dropped from the search."""


@dataclass(frozen=True)
class Decoding:
    """How sentences are generated.

    Attributes
    ----------
    method
        beam, greedy (the most probable word at each step) or sample.
    beam
        Beam width.
    top
        Sentences per photo: the best of the beam, or the number of samples.
    length_power
        Beam search ranks sentences by log-probability / (number of words)^length_power. 0, as in the paper, ranks by
        the sum and favours short sentences; 1 ranks by the mean.
    temperature
        Sampling divides log-probabilities by it.
    top_k
        Sample only from this number of most probable words; 0 for all.
    nucleus
        Sample only from the most probable words with this total probability (top-p).
    seed
        Random seed of sampling.
    max_length
        Maximum number of words.
    """

    method: Literal["beam", "greedy", "sample"] = "beam"
    beam: int = 5
    top: int = 1
    length_power: float = 0.0
    temperature: float = 1.0
    top_k: int = 0
    nucleus: float = 1.0
    seed: int = 0
    max_length: int = 30

    def __post_init__(self) -> None:
        for name in ("beam", "top", "max_length"):
            if getattr(self, name) < 1:
                raise DeixisError(f"{name}={getattr(self, name)}: must be 1 or more")
        if self.method == "beam" and self.top > self.beam:
            raise DeixisError(f"top={self.top}: a beam of {self.beam} gives at most {self.beam} captions")
        if self.method == "greedy" and self.top > 1:
            raise DeixisError(f"top={self.top}: greedy search gives one caption; use beam or sample")
        if not self.temperature > 0:
            raise DeixisError(f"temperature={self.temperature}: must be greater than 0")
        if not 0 < self.nucleus <= 1:
            raise DeixisError(f"nucleus={self.nucleus}: must be greater than 0 and at most 1")
        for name in ("top_k", "seed", "length_power"):
            if getattr(self, name) < 0:
                raise DeixisError(f"{name}={getattr(self, name)}: must be 0 or more")

    @property
    def width(self) -> int:
        """Sentences that are extended at the same time for each photo."""
        return {"beam": self.beam, "greedy": 1, "sample": self.top}[self.method]


@dataclass(frozen=True)
class GeneratedSentence:
    """A generated sentence.

    Attributes
    ----------
    words
        In lower case, as `deixis.tokens.words` gives them.
    log_probability
        Of the words and the end token, natural logarithm.
    finished
        Whether the end token was generated before the maximum length.
    """

    words: tuple[str, ...]
    log_probability: float
    finished: bool = True

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def perplexity(self) -> float:
        """Eq. 5: base 2, counting the end token."""
        return float(2 ** (-self.log_probability / np.log(2) / (len(self.words) + self.finished)))


@dataclass(frozen=True)
class BeamRows:
    """Which photos the rows of a step belong to; each photo has `width` slots.

    `slots` (rows,) is photo · width + slot of each row, ascending; None if all slots are in use.
    """

    photos: int
    width: int
    slots: Tensor | None = None

    def expand(self, per_photo: Tensor) -> Tensor:
        """From one row per photo, one per sentence; or one that is broadcast if there is one photo."""
        if self.photos == 1 or (self.width == 1 and self.slots is None):
            return per_photo
        if self.slots is None:
            return per_photo.repeat_interleave(self.width, 0)
        return per_photo.index_select(0, self.slots // self.width)

    def group(self, rows: Tensor) -> Tensor:
        """From one row per sentence, (photos, width, size), 0 in unused slots."""
        if self.slots is not None:
            rows = rows.new_zeros(self.photos * self.width, rows.shape[1]).index_copy_(0, self.slots, rows)
        return rows.view(self.photos, self.width, -1)

    def ungroup(self, grouped: Tensor) -> Tensor:
        """From (photos, width, size), one row per sentence."""
        rows = grouped.flatten(0, 1)
        return rows if self.slots is None else rows.index_select(0, self.slots)


class Context(Protocol):
    """What a network has computed from photos, one row each."""

    def take(self, rows: Tensor | slice) -> Self: ...


C = TypeVar("C", bound=Context)
C_contra = TypeVar("C_contra", bound=Context, contravariant=True)


class NextWordModel(Protocol[C_contra]):
    """Predicts the next word: a `FastMRNN`, or several of them."""

    unknown: int
    end: int
    start: int

    def initial_state(self, rows: int) -> State: ...

    def step(self, context: C_contra, words: Tensor, state: State, rows: BeamRows) -> tuple[Tensor, State]:
        """Log-probabilities of the word after `words` (rows,), and the state after `words`."""
        ...


def encode_start(text: str, vocabulary: Vocabulary, max_length: int) -> list[int]:
    """Ids of the words that sentences start with; unknown words are an error, and so is no room for another one."""
    words = words_in(text)
    for word in words:
        if word not in vocabulary:
            raise DeixisError(f"start: the model does not know the word {word!r}")
    if len(words) >= max_length:
        raise DeixisError(f"start: {len(words)} words, and a sentence has at most {max_length}")
    return vocabulary.encode(words)


@torch.inference_mode()
def decode(
    network: NextWordModel[C],
    context: C,
    photos: int,
    vocabulary: Vocabulary,
    decoding: Decoding,
    start: Sequence[int] = (),
) -> list[list[GeneratedSentence]]:
    """Generate sentences for photos: for each photo the best first, or samples in the order drawn.

    `context` is what the network has computed from the photos; `start` is what `encode_start` gave.
    """
    block = max(1, _ROWS_PER_BLOCK.get(network.initial_state(1)[0].device.type, 8192) // decoding.width)
    sentences: list[list[GeneratedSentence]] = []
    for first in range(0, photos, block):
        count = min(block, photos - first)
        search = _Search(network, context.take(slice(first, first + count)), count, decoding, first_photo=first)
        search.run(start)
        for photo in range(count):
            sentences.append([_to_words(*ids, network.end, vocabulary) for ids in search.results[photo]])
    return sentences


def _to_words(row: list[int], score: float, end: int, vocabulary: Vocabulary) -> GeneratedSentence:
    finished = end in row
    length = row.index(end) if finished else len(row)
    return GeneratedSentence(tuple(vocabulary.decode(row[:length])), score, finished)


class _Search(Generic[C]):
    """A search for the sentences of some photos.

    Each photo has `width` slots. The network's tensors have one row per slot that is still extended (`_active`, slot
    numbers). Words and scores of all slots are numpy arrays: for so few numbers numpy is faster. After `run`, `results`
    has the sentences of each photo: word ids and log-probability.
    """

    def __init__(
        self, network: NextWordModel[C], context: C, photos: int, decoding: Decoding, first_photo: int
    ) -> None:
        self.results: dict[int, list[tuple[list[int], float]]] = {}
        self._network, self._context, self._decoding = network, context, decoding
        self._width = decoding.width
        self._photos = np.arange(photos)  # those that are not finished
        self._length = 0
        self._words = np.full((photos * self._width, decoding.max_length), network.end)
        self._scores = np.zeros(photos * self._width)
        if decoding.method == "beam":  # starts as one sentence
            self._scores.reshape(photos, -1)[:, 1:] = -np.inf
        self._active = np.isfinite(self._scores).nonzero()[0]
        self._state = network.initial_state(len(self._active))
        self._last = torch.full((len(self._active),), network.start, device=self._state[0].device)
        self._rows = self._beam_rows()
        self._uniform = self._draw_uniform(first_photo) if decoding.method == "sample" else None

    def _draw_uniform(self, first_photo: int) -> NDArray[np.float64]:
        """One number from 0 to 1 for each word; those of a photo do not depend on the photos that follow it."""
        generator = np.random.default_rng(self._decoding.seed)
        per_photo = self._width * self._decoding.max_length
        generator.bit_generator.advance(first_photo * per_photo)  # type: ignore[attr-defined] # PCG64: 1 step a number
        return generator.random(self._words.shape)

    def run(self, start: Sequence[int]) -> None:
        """Read the first words, then extend all sentences until they have ended."""
        for word in start:
            self._write(self._step()[:, word], torch.full_like(self._last, word))
        extend = {"beam": self._extend_beam, "greedy": self._extend_greedy, "sample": self._extend_sample}
        while self._length < self._decoding.max_length and len(self._active):
            log_p = self._step()
            log_p[:, self._network.unknown].fill_(-torch.inf)
            if not self._length:
                log_p[:, self._network.end].fill_(-torch.inf)
            extend[self._decoding.method](log_p)
        self._collect(np.arange(len(self._photos)))

    def _step(self) -> Tensor:
        log_p, self._state = self._network.step(self._context, self._last, self._state, self._rows)
        return log_p

    def _extend_greedy(self, log_p: Tensor) -> None:
        self._append(*log_p.max(1))

    def _extend_sample(self, log_p: Tensor) -> None:
        assert self._uniform is not None  # noqa: S101 - drawn in the constructor
        chosen = sample_words(log_p, self._to_tensor(self._uniform[self._active, self._length]), self._decoding)
        self._append(log_p.gather(1, chosen[:, None])[:, 0], chosen)

    def _append(self, gained: Tensor, chosen: Tensor) -> None:
        """Append a word to each active sentence, and keep those active that have not ended."""
        self._write(gained, chosen)
        stay = self._words[self._active, self._length - 1] != self._network.end
        if not stay.all():
            self._keep_active(self._active[stay], stay.nonzero()[0])

    def _write(self, gained: Tensor, chosen: Tensor) -> None:
        self._scores[self._active] += gained.cpu().numpy()
        self._words[self._active, self._length] = chosen.cpu().numpy()
        self._length += 1
        self._last = chosen

    def _extend_beam(self, log_p: Tensor) -> None:
        """Keep the best continuations of each photo's sentences, in their order."""
        photos, branching = len(self._photos), min(self._width, log_p.shape[1])
        values, words = log_p.topk(branching, dim=1)
        gained, chosen = self._scatter(values, -np.inf), self._scatter(words, self._network.end)
        if self._length:  # a finished sentence is continued by another end token at no cost
            gained[self._words[:, self._length - 1] == self._network.end, 0] = 0
        totals = self._scores[:, None] + gained
        ranks = totals / self._length_norms() if self._decoding.length_power else totals
        best = (-ranks).reshape(photos, -1).argsort(1, kind="stable")[:, : self._width]
        best = (best + np.arange(0, totals.size, self._width * branching)[:, None]).ravel()
        parents = best // branching
        self._scores, self._words = totals.take(best), self._words[parents]
        self._words[:, self._length] = chosen.take(best)
        active = self._may_be_result().nonzero()[0]
        row = np.zeros(len(parents), dtype=np.int64)
        row[self._active] = np.arange(len(log_p))
        self._length += 1
        self._keep_active(active, row[parents[active]])

    def _scatter(self, of_active: Tensor, otherwise: float) -> NDArray[Any]:
        """Values of active sentences, and another one for the rest."""
        everything = np.full((len(self._scores), of_active.shape[1]), otherwise)
        everything[self._active] = of_active.cpu().numpy()
        return everything

    def _length_norms(self) -> NDArray[np.float64]:
        """(number of words, with this one and the end token) ^ length_power."""
        words = (self._words != self._network.end).sum(1, keepdims=True) + 1
        norms: NDArray[np.float64] = words**self._decoding.length_power
        return norms

    def _may_be_result(self) -> NDArray[np.bool_]:
        """Which sentences of the beam may still become results."""
        ended = self._words[:, self._length] == self._network.end
        active: NDArray[np.bool_] = np.isfinite(self._scores) & ~ended
        if not self._decoding.length_power:
            # A sentence only becomes less probable: behind `top` finished ones it cannot become a result.
            active &= (ended.reshape(-1, self._width).cumsum(1) < self._decoding.top).ravel()
        return active

    def _keep_active(self, active: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """Continue with these slots; `rows` are the rows of the state before their last word."""
        self._active = active
        if not len(active):
            return
        self._last, order = self._to_tensor(self._words[active, self._length - 1]), self._to_tensor(rows)
        self._state = tuple(part.index_select(0, order) for part in self._state)
        self._drop_finished_photos()
        self._rows = self._beam_rows()

    def _beam_rows(self) -> BeamRows:
        slots = None if len(self._active) == len(self._scores) else self._to_tensor(self._active)
        return BeamRows(len(self._photos), self._width, slots)

    def _drop_finished_photos(self) -> None:
        """Continue without the finished photos, once they are many."""
        stay = np.zeros(len(self._photos), dtype=bool)
        stay[self._active // self._width] = True
        finished = len(stay) - stay.sum()
        if not finished or finished < _MIN_FINISHED * len(stay):
            return
        self._collect((~stay).nonzero()[0])
        slots = stay.repeat(self._width)
        self._active = (slots.cumsum() - 1)[self._active]
        self._photos, self._context = self._photos[stay], self._context.take(self._to_tensor(stay))
        self._words, self._scores = self._words[slots], self._scores[slots]
        if self._uniform is not None:
            self._uniform = self._uniform[slots]

    def _collect(self, photos: NDArray[np.int64]) -> None:
        """Store the results of these photos; a beam wider than the number of sentences has empty slots."""
        slots = photos[:, None] * self._width + np.arange(self._decoding.top)
        found = zip(
            self._photos[photos].tolist(), self._words[slots].tolist(), self._scores[slots].tolist(), strict=True
        )
        for photo, sentences, scores in found:
            self.results[photo] = [pair for pair in zip(sentences, scores, strict=True) if isfinite(pair[1])]

    def _to_tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self._state[0].device)


def sample_words(log_p: Tensor, uniform: Tensor, decoding: Decoding) -> Tensor:
    """Sample one word per row of log-probabilities; `uniform` has a number from 0 to 1 for each row."""
    ordered = (log_p / decoding.temperature).double().softmax(1).sort(dim=1, descending=True, stable=True)
    shares = ordered.values
    before = shares.cumsum(1) - shares
    kept = before < decoding.nucleus
    if decoding.top_k:
        kept[:, decoding.top_k :] = False
    cumulative = (shares * kept).cumsum(1)
    rank = torch.searchsorted(cumulative, uniform[:, None] * cumulative[:, -1:], right=True)
    rank = rank.clamp(max=shares.shape[1] - 1)
    return ordered.indices.gather(1, rank)[:, 0]
