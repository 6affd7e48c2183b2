"""Sentence generation (section 5): beam search, greedy search and sampling.

All methods work on many photos at once and give each photo what they would give it alone. They never generate the
unknown word or the start token, and a sentence has at least one word. The probability of a sentence is the model's own,
including the words it was started with and the end token; it is not renormalized for words that may not be generated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats, softmax
from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.tokens import words as words_in

if TYPE_CHECKING:
    from deixis.models.m_rnn.model import WordSteps

Ids = NDArray[np.int64]
State = tuple[Floats, ...]
"""State of the recurrent layer, one row per sentence: (photos, width, hidden_size)."""
Context = tuple[Floats, ...]
"""Image terms of every step, one row per photo."""

ROWS_PER_BLOCK = 640
"""Sentences that are extended together: enough that computing a step costs more than calling it."""

_MAX_SIZE = 1000
"""Maximum beam width, number of captions and of words."""

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
            if getattr(self, name) > _MAX_SIZE:
                raise DeixisError(f"{name}={getattr(self, name)}: must be at most {_MAX_SIZE}")
        if self.method == "beam" and self.top > self.beam:
            raise DeixisError(f"top={self.top}: a beam of {self.beam} gives at most {self.beam} captions")
        if self.method == "greedy" and self.top > 1:
            raise DeixisError(f"top={self.top}: greedy search gives one caption; use beam or sample")
        if not (self.temperature > 0 and isfinite(self.temperature)):
            raise DeixisError(f"temperature={self.temperature}: must be a finite number greater than 0")
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
    word_log_probabilities
        Log-probability of each word, and of the end token if it was generated.
    """

    words: tuple[str, ...]
    log_probability: float
    finished: bool = True
    word_log_probabilities: tuple[float, ...] = field(default=(), compare=False, repr=False)

    @property
    def text(self) -> str:
        return " ".join(self.words)

    @property
    def log_probability_per_word(self) -> float:
        """Counting the end token."""
        return self.log_probability / (len(self.words) + self.finished)

    @property
    def perplexity(self) -> float:
        """Eq. 5: base 2, counting the end token."""
        return float(2 ** (-self.log_probability_per_word / np.log(2)))


def best_first(scores: NDArray[np.float64]) -> Ids:
    """The order of sentences by their scores, best first; ties keep their order."""
    return np.argsort(-scores, kind="stable")


def take_photos(context: Context, rows: slice | NDArray[Any]) -> Context:
    return tuple(part[rows] for part in context)


def encode_start(text: str, vocabulary: Vocabulary, max_length: int) -> list[int]:
    """Ids of the words that sentences start with; unknown words are an error, and so is no room for another one."""
    words = words_in(text)
    for word in words:
        if word not in vocabulary:
            raise DeixisError(f"start: the model does not know the word {word!r}")
    if len(words) >= max_length:
        raise DeixisError(f"start: {len(words)} words, and a sentence has at most {max_length}")
    return vocabulary.encode(words)


def decode(
    network: WordSteps,
    context: Context,
    photos: int,
    vocabulary: Vocabulary,
    decoding: Decoding,
    start: Sequence[int] = (),
) -> list[list[GeneratedSentence]]:
    """Generate sentences for photos: for each photo the best first, or samples in the order drawn.

    `context` is what the network has computed from the photos; `start` is what `encode_start` gave.
    """
    block = max(1, ROWS_PER_BLOCK // decoding.width)
    sentences: list[list[GeneratedSentence]] = []
    for first in range(0, photos, block):
        count = min(block, photos - first)
        search = _Search(network, take_photos(context, slice(first, first + count)), count, decoding, first)
        search.run(start)
        for photo in range(count):
            sentences.append([_to_words(*found, network.end, vocabulary) for found in search.results[photo]])
    return sentences


def _to_words(row: list[int], score: float, log_p: list[float], end: int, vocabulary: Vocabulary) -> GeneratedSentence:
    finished = end in row
    length = row.index(end) if finished else len(row)
    words = tuple(vocabulary.decode(row[:length]))
    return GeneratedSentence(words, score, finished, tuple(log_p[: length + finished]))


class _Search:
    """A search for the sentences of some photos, each of which has `width` slots.

    After `run`, `results` has the sentences of each photo: word ids, log-probability, and that of each word.
    """

    def __init__(self, network: WordSteps, context: Context, photos: int, decoding: Decoding, first_photo: int) -> None:
        self.results: dict[int, list[tuple[list[int], float, list[float]]]] = {}
        self._network, self._context, self._decoding = network, context, decoding
        self._photos = np.arange(photos)  # unfinished ones
        self._length = 0
        # A beam starts as one sentence.
        width = 1 if decoding.method == "beam" else decoding.width
        self._words = np.full((photos, width, decoding.max_length), network.end)
        self._scores = np.zeros((photos, width))
        self._word_scores = np.zeros(self._words.shape, np.float32)
        self._active = np.ones((photos, width), dtype=bool)  # sentences that may be extended
        self._state = network.initial_state(photos, width)
        self._last = np.full((photos, width), network.start)  # last words
        self._uniform = self._draw_uniform(first_photo) if decoding.method == "sample" else None

    def _draw_uniform(self, first_photo: int) -> NDArray[np.float64]:
        """One number from 0 to 1 for each word; those of a photo do not depend on the photos that follow it."""
        generator = np.random.default_rng(self._decoding.seed)
        per_photo = self._decoding.width * self._decoding.max_length
        generator.bit_generator.advance(first_photo * per_photo)  # type: ignore[attr-defined] # PCG64: 1 step a number
        return generator.random(self._words.shape)

    def run(self, start: Sequence[int]) -> None:
        """Read the first words, then extend all sentences until they have ended."""
        for word in start:
            log_p, self._state = self._network.step(self._context, self._last, self._state)
            self._append(log_p[:, :, word], np.full_like(self._last, word))
        extend = self._extend_sample if self._decoding.method == "sample" else self._extend_beam
        while self._length < self._decoding.max_length and self._active.any():
            if len(self._photos) > 1:
                self._drop_finished_photos()
            extend()
        self._collect(np.arange(len(self._photos)))

    def _best_words(self, count: int) -> tuple[Floats, Ids]:
        """At least `count` of the best next words; those that may not be generated have log-probability −∞."""
        network = self._network
        count = min(count + 2, network.end + 1)  # the unknown word and the end token may be among them
        log_p, words, self._state = network.best_words(self._context, self._last, self._state, count)
        log_p[words == network.unknown] = -np.inf
        if not self._length:
            log_p[words == network.end] = -np.inf
        return log_p, words

    def _extend_sample(self) -> None:
        assert self._uniform is not None  # noqa: S101 - drawn in the constructor
        log_p, self._state = self._network.step(self._context, self._last, self._state)
        log_p[:, :, self._network.unknown] = -np.inf
        if not self._length:
            log_p[:, :, self._network.end] = -np.inf
        rows = log_p.reshape(-1, log_p.shape[2])
        chosen = sample_words(rows, self._uniform[:, :, self._length].ravel(), self._decoding)
        gained = rows[np.arange(len(rows)), chosen]
        self._append(gained.reshape(self._scores.shape), chosen.reshape(self._scores.shape))

    def _append(self, gained: Floats, chosen: Ids) -> None:
        """Append a word to each active sentence, and keep those active that have not ended."""
        gained = np.where(self._active, gained, 0)
        self._scores += gained
        self._word_scores[:, :, self._length] = gained
        self._words[:, :, self._length] = np.where(self._active, chosen, self._network.end)
        self._active &= chosen != self._network.end
        self._last = chosen
        self._length += 1

    def _extend_beam(self) -> None:
        """Keep the best continuations of each photo's sentences, in their order."""
        end, width = self._network.end, self._decoding.width
        gained, words = self._best_words(width)
        photos, slots, branching = gained.shape
        if self._length and not self._active.all():  # a finished sentence is continued by an end token at no cost
            gained[~self._active] = -np.inf
            finished = self._words[:, :, self._length - 1] == end
            gained[finished, 0], words[finished, 0] = 0, end
        totals = self._scores[:, :, None] + gained
        ranks = totals / self._length_norms() if self._decoding.length_power else totals
        best = (-ranks).reshape(photos, -1).argsort(1, kind="stable")[:, :width]
        photo = np.arange(photos)[:, None]
        parents = photo * slots + best // branching
        self._scores = totals.reshape(photos, -1)[photo, best]
        self._last = words.reshape(photos, -1)[photo, best]
        self._words = self._words.reshape(photos * slots, -1)[parents]
        self._words[:, :, self._length] = self._last
        self._word_scores = self._word_scores.reshape(photos * slots, -1)[parents]
        self._word_scores[:, :, self._length] = gained.reshape(photos, -1)[photo, best]
        self._state = tuple(part.reshape(photos * slots, -1)[parents] for part in self._state)
        ended = self._last == end
        self._active = np.isfinite(self._scores) & ~ended
        if not self._decoding.length_power:
            # A sentence only becomes less probable: behind `top` finished ones it cannot become a result.
            self._active &= ended.cumsum(1) < self._decoding.top
        self._length += 1

    def _length_norms(self) -> NDArray[np.float64]:
        """(number of words, with this one and the end token) ^ length_power."""
        words = (self._words != self._network.end).sum(2, keepdims=True) + 1
        norms: NDArray[np.float64] = words**self._decoding.length_power
        return norms

    def _drop_finished_photos(self) -> None:
        """Continue without the finished photos, once they are many."""
        stay: NDArray[np.bool_] = np.asarray(self._active.any(1))
        finished = len(stay) - int(stay.sum())
        if not finished or finished < _MIN_FINISHED * len(stay):
            return
        self._collect((~stay).nonzero()[0])
        self._photos, self._words, self._scores = self._photos[stay], self._words[stay], self._scores[stay]
        self._active, self._last, self._word_scores = self._active[stay], self._last[stay], self._word_scores[stay]
        self._state, self._context = (take_photos(parts, stay) for parts in (self._state, self._context))
        if self._uniform is not None:
            self._uniform = self._uniform[stay]

    def _collect(self, photos: Ids) -> None:
        """Store the results of these photos; a beam wider than the number of sentences has empty slots."""
        top = self._decoding.top
        found = zip(
            self._photos[photos].tolist(),
            self._words[photos, :top].tolist(),
            self._scores[photos, :top].tolist(),
            self._word_scores[photos, :top].tolist(),
            strict=True,
        )
        for photo, *sentences in found:
            self.results[photo] = [each for each in zip(*sentences, strict=True) if isfinite(each[1])]


def sample_words(log_p: Floats, uniform: NDArray[np.float64], decoding: Decoding) -> Ids:
    """Sample one word per row of log-probabilities (n, words); `uniform` has a number from 0 to 1 for each row."""
    order = np.argsort(-log_p, axis=1, kind="stable")
    shares = softmax(np.take_along_axis(log_p, order, 1).astype(np.float64) / decoding.temperature)
    kept = shares.cumsum(1) - shares < decoding.nucleus
    if decoding.top_k:
        kept[:, decoding.top_k :] = False
    cumulative = (shares * kept).cumsum(1)
    rank = (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(1)
    rank = np.minimum(rank, log_p.shape[1] - 1)
    return np.take_along_axis(order, rank[:, None], 1)[:, 0]
