"""How well each label fits each span of a sentence: a small recurrent network, run in numpy.

A token's vector is the sum of those of its word, its endings, its beginning and its shape. LSTM cells read the vectors
in both directions; what they know between two tokens describes that gap, and the two gaps around a span give its
scores. ``scripts/train_parser.py`` learns the weights.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis.errors import DeixisError

__all__ = ["SpanScores", "WordRows", "all_spans"]

Array = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]

_HASHED_ROWS = 4096
_HALF = np.float32(0.5)
_RUNS = ((re.compile(r"[A-Z]+"), "X"), (re.compile(r"[a-z]+"), "x"), (re.compile(r"[0-9]+"), "0"))


class WordRows:
    """For each token, the rows of the table of vectors that are added up for it.

    Examples
    --------
    >>> WordRows(["dog"])(["A", "dog"]).shape
    (4, 5)
    """

    before, after, unknown, first_word = range(4)
    per_token = 5

    def __init__(self, words: Sequence[str]) -> None:
        self._row_of_word = {word: self.first_word + i for i, word in enumerate(words)}
        self._first_hashed = self.first_word + len(words)
        self.size = self._first_hashed + _HASHED_ROWS
        self._kept: dict[str, tuple[int, ...]] = {}

    def __call__(self, words: Sequence[str]) -> Numbers:
        """The rows of a sentence: a line per token, one more before it and one after it."""
        lines = [(self.before,) * self.per_token, *map(self._of_word, words), (self.after,) * self.per_token]
        return np.array(lines, dtype=np.int64)

    def _of_word(self, word: str) -> tuple[int, ...]:
        rows = self._kept.get(word)
        if rows is None:
            lower = word.lower()
            parts = (f"3{lower[-3:]}", f"2{lower[-2:]}", f"b{lower[:3]}", f"s{_shape(word)}")
            hashed = (self._first_hashed + zlib.crc32(part.encode()) % _HASHED_ROWS for part in parts)
            rows = (self._row_of_word.get(lower, self.unknown), *hashed)
            if len(self._kept) < 100_000:
                self._kept[word] = rows
        return rows


def _shape(word: str) -> str:
    """Capitals, letters and digits of a word, each run as one sign; other signs stay."""
    for run, sign in _RUNS:
        word = run.sub(sign, word)
    return word[:6]


@dataclass(frozen=True)
class _Layer:
    """LSTM cells in both directions: (2, inputs, 4h), (2, h, 4h) and (2, 1, 4h), gates in the order i, f, o, g."""

    from_input: Array
    from_state: Array
    bias: Array

    def __call__(self, inputs: Array) -> Array:
        """What is known after each input of each sentence (b, n, d), from the left and from the right: (b, n, 2h)."""
        sentences, length, width = inputs.shape
        size = self.from_state.shape[1]
        both_ways = np.stack([inputs, inputs[:, ::-1]]).reshape(2, sentences * length, width)
        gates = (both_ways @ self.from_input + self.bias).reshape(2, sentences, length, 4 * size)
        state: Array = np.zeros((2, sentences, size), np.float32)
        cell = state
        known = np.empty((2, sentences, length, size), np.float32)
        for step in range(length):
            now: Array = np.tanh(gates[:, :, step] + state @ self.from_state)
            # The weights of the first three gates are halved on loading: tanh(x / 2) / 2 + 1/2 is the sigmoid of x.
            opened = now[..., : 3 * size] * _HALF + _HALF
            cell = opened[..., size : 2 * size] * cell + opened[..., :size] * now[..., 3 * size :]
            state = opened[..., 2 * size :] * np.tanh(cell)
            known[:, :, step] = state
        return np.concatenate([known[0], known[1][:, ::-1]], axis=2)


def all_spans(count: int) -> tuple[Numbers, Numbers]:
    """The starts and the ends of all spans of so many tokens, in the order in which `SpanScores` gives them.

    Examples
    --------
    >>> list(zip(*(places.tolist() for places in all_spans(2))))
    [(0, 1), (0, 2), (1, 2)]
    """
    starts, ends = np.triu_indices(count + 1, 1)
    return starts, ends


class SpanScores:
    """The learned network.

    Attributes
    ----------
    labels, tags
        What spans and tokens may be called; the first label is that of a span that is no phrase.
    about
        What the model was learned from.
    """

    def __init__(self, about: dict[str, Any], weights: dict[str, Array]) -> None:
        self.about = about
        self.labels: tuple[str, ...] = tuple(about["labels"])
        self.tags: tuple[str, ...] = tuple(about["tags"])
        self._rows = WordRows(about["words"])
        self._weights = weights
        self._layers = tuple(_layer(weights, f"layer{i}_") for i in range(about["layers"]))

    @classmethod
    def load(cls, folder: Path, name: str = "parser") -> SpanScores:
        """Read ``NAME.json`` and ``NAME.npz`` of a folder."""
        try:
            about = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
            with np.load(folder / f"{name}.npz", allow_pickle=False) as stored:
                weights = {key: _unpacked(stored, key) for key in stored.files if not key.endswith("_scale")}
            return cls(about, weights)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as problem:
            raise DeixisError(f"{folder / name}: not a parser's model ({problem})") from None

    def __call__(self, sentences: Sequence[Sequence[str]]) -> tuple[Array, Array]:
        """How likely each label is for each span, and the scores of the words' tags.

        Parameters
        ----------
        sentences
            The words of b sentences, all of the same length n. Many together take far less time each.

        Returns
        -------
        spans : array (b, n (n + 1) / 2, labels)
            Probabilities, for the spans in the order of `all_spans`.
        tags : array (b, n, tags)
        """
        weights = self._weights
        known: Array = weights["vectors"][np.stack([self._rows(words) for words in sentences])].sum(axis=2)
        for layer in self._layers:
            known = layer(known)
        half = known.shape[2] // 2
        gaps = np.concatenate([known[:, :-1, :half], known[:, 1:, half:]], axis=2)
        starts, ends = all_spans(len(sentences[0]))
        begins = gaps @ weights["begin"] + weights["hidden_bias"]
        hidden = np.maximum(begins[:, starts] + (gaps @ weights["end"])[:, ends], 0)
        spans = hidden @ weights["label"] + weights["label_bias"]
        spans = np.exp(spans - spans.max(axis=2, keepdims=True))
        spans /= spans.sum(axis=2, keepdims=True)
        return spans, known[:, 1:-1] @ weights["tag"] + weights["tag_bias"]


def _layer(weights: dict[str, Array], name: str) -> _Layer:
    from_input, from_state, bias = (weights[name + part].copy() for part in ("input", "state", "bias"))
    halved = 3 * from_state.shape[1]
    for array in (from_input, from_state, bias):
        array[..., :halved] *= 0.5
    return _Layer(from_input, from_state, bias)


def _unpacked(stored: Any, key: str) -> Array:
    """Weights as stored: half-precision numbers, or bytes with a scale for each row."""
    array: Array = stored[key].astype(np.float32)
    return array * stored[f"{key}_scale"].astype(np.float32) if f"{key}_scale" in stored.files else array
