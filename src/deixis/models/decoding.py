"""Making up sentences from a network that says which word is likely next: greedily, by chance, or by beam search.

All ways work on many photos at once, and give for each photo what they would give for it alone. None of them writes the
unknown word or the start sign, and a sentence has at least one word. The probability of a sentence is the model's own,
that of words given to begin with and of the end sign included; it is never rescaled for what may not be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary
from deixis.models.decoding_search import L, NextWords, Search
from deixis.tokens import words as words_in

ROWS_AT_A_TIME = {"cpu": 640, "cuda": 8192}
"""Sentences that are worked on together: enough that a step costs more than calling it."""


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


def refuse_long(start: Sequence[int], longest: int) -> None:
    """Say that words to begin with leave no room for another."""
    if len(start) >= longest:
        raise DeixisError(f"start: {len(start)} words to begin with, and a sentence has {longest} at most")


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
    refuse_long(start, how.longest)
    width = {"beam": how.beam, "greedy": 1, "sample": how.count}[how.method]
    block = max(1, ROWS_AT_A_TIME.get(network.first_state(1)[0].device.type, 8192) // width)
    made: list[list[Generated]] = []
    for begin in range(0, photos, block):
        count = min(block, photos - begin)
        search = Search(network, seen.take(slice(begin, begin + count)), count, how, first_photo=begin)
        search.run(start)
        made += [[_in_words(*ids, network.end, vocabulary) for ids in search.made[photo]] for photo in range(count)]
    return made


def _in_words(row: list[int], score: float, end: int, vocabulary: Vocabulary) -> Generated:
    finished = end in row
    until = row.index(end) if finished else len(row)
    return Generated(tuple(vocabulary.decode(row[:until])), score, finished)
