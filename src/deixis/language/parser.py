"""Constituency parser for English.

A bidirectional LSTM gives every span of tokens a probability for each label (`SpanScores`), and the best tree is found
by dynamic programming, after Stern, Andreas and Klein (ACL 2017). The parser is trained on newspaper text and captions;
see ``models/parser/README.md``.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from deixis.arrays import Floats, IntArray, dequantize, softmax
from deixis.language.trees import Tree, leaf, phrase
from deixis.storage.artifacts import Artifact, damaged, read_artifact
from deixis.tokens import Token, tokenize

SentenceInput = str | Sequence[Token] | Sequence[str]
"""A sentence as text, as tokens or as plain words."""

SHIPPED = Path(__file__).parent / "models" / "parser"

JOINT = "+"
"""Joins the labels of phrases that cover the same tokens: S+VP is an S whose only child is a VP."""

MAX_TOKENS = 200
"""Maximum number of tokens that are parsed together; time grows more than quadratically. Longer texts are split."""

_MIN_PROBABILITY = np.float32(0.4)
"""Minimum probability of a phrase, chosen on training sentences of the treebank."""

_SPANS_PER_BATCH = 8000  # larger batches are not faster
_FRAGMENT = "FRAG"
_SENTENCE_ENDS = frozenset([".", "!", "?"])
_HASHED_ROWS = 4096
_HALF = np.float32(0.5)
_RUNS = ((re.compile(r"[A-Z]+"), "X"), (re.compile(r"[a-z]+"), "x"), (re.compile(r"[0-9]+"), "0"))


class WordRows:
    """The rows of the embedding table whose sum is the vector of a token."""

    before, after, unknown, first_word = range(4)
    per_token = 5

    def __init__(self, words: Sequence[str]) -> None:
        self._row_of_word = {word: self.first_word + i for i, word in enumerate(words)}
        self.first_hashed = self.first_word + len(words)
        self.size = self.first_hashed + _HASHED_ROWS
        self._cache: dict[str, tuple[int, ...]] = {}

    def __call__(self, words: Sequence[str]) -> IntArray:
        """Return one line of rows per token, with one more line at each end of the sentence."""
        lines = [(self.before,) * self.per_token, *map(self._of_word, words), (self.after,) * self.per_token]
        return np.array(lines, dtype=np.int64)

    def _of_word(self, word: str) -> tuple[int, ...]:
        rows = self._cache.get(word)
        if rows is None:
            lower = word.lower()
            parts = (f"3{lower[-3:]}", f"2{lower[-2:]}", f"b{lower[:3]}", f"s{_shape(word)}")
            hashed = (self.first_hashed + zlib.crc32(part.encode()) % _HASHED_ROWS for part in parts)
            rows = (self._row_of_word.get(lower, self.unknown), *hashed)
            if len(self._cache) < 100_000:
                self._cache[word] = rows
        return rows


def _shape(word: str) -> str:
    """The shape of a word: runs of capitals, letters and digits become one character each."""
    for run, sign in _RUNS:
        word = run.sub(sign, word)
    return word[:6]


@dataclass(frozen=True)
class _Layer:
    """Bidirectional LSTM layer: (2, inputs, 4h), (2, h, 4h) and (2, 1, 4h), gates in the order i, f, o, g."""

    from_input: Floats
    from_state: Floats
    bias: Floats

    def __call__(self, inputs: Floats) -> Floats:
        """The states for inputs (b, n, d), from the left and from the right: (b, n, 2h)."""
        sentences, length, width = inputs.shape
        size = self.from_state.shape[1]
        both_directions = np.stack([inputs, inputs[:, ::-1]]).reshape(2, sentences * length, width)
        gates = (both_directions @ self.from_input + self.bias).reshape(2, sentences, length, 4 * size)
        state: Floats = np.zeros((2, sentences, size), np.float32)
        cell = state
        states = np.empty((2, sentences, length, size), np.float32)
        for step in range(length):
            activations: Floats = np.tanh(gates[:, :, step] + state @ self.from_state)
            # The weights of the first three gates are halved on loading, because sigmoid(x) = tanh(x / 2) / 2 + 1/2.
            sigmoids = activations[..., : 3 * size] * _HALF + _HALF
            cell = sigmoids[..., size : 2 * size] * cell + sigmoids[..., :size] * activations[..., 3 * size :]
            state = sigmoids[..., 2 * size :] * np.tanh(cell)
            states[:, :, step] = state
        return np.concatenate([states[0], states[1][:, ::-1]], axis=2)


def all_spans(count: int) -> tuple[IntArray, IntArray]:
    """Return the starts and ends of all spans of a number of tokens, in the order of `SpanScores`."""
    starts, ends = np.triu_indices(count + 1, 1)
    return starts, ends


class SpanScores:
    """The neural network of the parser. The first of its `labels` means that a span is not a phrase."""

    KIND: ClassVar[str] = "parser"

    def __init__(self, artifact: Artifact) -> None:
        settings, stored = artifact.settings, artifact.arrays
        self.about = artifact.provenance
        self.labels: tuple[str, ...] = tuple(settings["labels"])
        self.tags: tuple[str, ...] = tuple(settings["tags"])
        self._rows = WordRows(settings["words"])
        self._weights = {name: _unpack(stored, name) for name in stored if not name.endswith("_scale")}
        self._layers = tuple(_layer(self._weights, f"layer{i}_") for i in range(settings["layers"]))

    @classmethod
    def load(cls, folder: Path) -> SpanScores:
        artifact = read_artifact(folder, cls.KIND, mapped=True)
        with damaged(folder):
            return cls(artifact)

    def __call__(self, sentences: Sequence[Sequence[str]]) -> tuple[Floats, Floats]:
        """Compute the label probabilities of each span and the tag scores of each word.

        The b sentences must have the same length n. Spans are in the order of `all_spans`: (b, n (n + 1) / 2, labels).
        """
        weights = self._weights
        states: Floats = weights["vectors"][np.stack([self._rows(words) for words in sentences])].sum(axis=2)
        for layer in self._layers:
            states = layer(states)
        half = states.shape[2] // 2
        gaps = np.concatenate([states[:, :-1, :half], states[:, 1:, half:]], axis=2)
        starts, ends = all_spans(len(sentences[0]))
        begins = gaps @ weights["begin"] + weights["hidden_bias"]
        hidden = np.maximum(begins[:, starts] + (gaps @ weights["end"])[:, ends], 0)
        spans = hidden @ weights["label"] + weights["label_bias"]
        return softmax(spans), states[:, 1:-1] @ weights["tag"] + weights["tag_bias"]


def _layer(weights: dict[str, Floats], name: str) -> _Layer:
    from_input, from_state, bias = (weights[name + part].copy() for part in ("input", "state", "bias"))
    halved = 3 * from_state.shape[1]
    for array in (from_input, from_state, bias):
        array[..., :halved] *= 0.5
    return _Layer(from_input, from_state, bias)


def _unpack(stored: Mapping[str, npt.NDArray[Any]], name: str) -> Floats:
    """Convert stored weights, float16 or int8 with a scale per row, to float32."""
    return dequantize(stored[name], stored.get(f"{name}_scale", 1))


class _Piece(NamedTuple):
    """The tokens of a sentence, or of a part of a long one, that are parsed together."""

    sentence: int
    begin: int
    tokens: list[Token]


class Parser:
    def __init__(self, scores: SpanScores) -> None:
        self.scores = scores
        self._labels = tuple(tuple(label.split(JOINT)) for label in scores.labels)

    @classmethod
    @cache
    def shipped(cls) -> Parser:
        """The parser of the package, loaded once."""
        return Parser(SpanScores.load(SHIPPED))

    def parse(self, sentence: SentenceInput) -> Tree:
        return self.parse_all([sentence])[0]

    def parse_all(self, sentences: Sequence[SentenceInput]) -> list[Tree]:
        """Parse many sentences in batches of equal length, about three times as fast as one by one."""
        texts = [_tokens(sentence) for sentence in sentences]
        pieces = [
            _Piece(number, begin, tokens[begin:end])
            for number, tokens in enumerate(texts)
            for begin, end in _pieces(tokens)
        ]
        parsed: dict[int, Tree] = {}
        for batch in _batches(pieces):
            parsed.update(zip(batch, self._parse_batch([pieces[index] for index in batch]), strict=True))
        trees: list[list[Tree]] = [[] for _ in texts]
        for index, piece in enumerate(pieces):
            trees[piece.sentence].append(parsed[index])
        return [parts[0] if len(parts) == 1 else phrase(_FRAGMENT if parts else "", parts) for parts in trees]

    def _parse_batch(self, pieces: Sequence[_Piece]) -> Iterator[Tree]:
        """Parse pieces of the same length."""
        probabilities, tag_scores = self.scores([[token.text for token in piece.tokens] for piece in pieces])
        gains = probabilities - _MIN_PROBABILITY
        gains[..., 0] = 0
        best_labels, splits = _best_trees(gains, len(pieces[0].tokens))
        tags = tag_scores.argmax(axis=2).tolist()
        for piece, own_tags, own_labels, own_splits in zip(pieces, tags, best_labels, splits, strict=True):
            leaves = [
                leaf(self.scores.tags[tag], token, index)
                for index, (tag, token) in enumerate(zip(own_tags, piece.tokens, strict=True), start=piece.begin)
            ]
            yield self._build_tree(leaves, own_labels, own_splits)

    def _build_tree(self, leaves: list[Tree], labels: IntArray, splits: IntArray) -> Tree:
        """Follow the chart down from the sentence, then build the tree bottom-up."""
        order: list[tuple[int, int]] = []
        stack = [(0, len(leaves))]
        while stack:
            start, end = stack.pop()
            order.append((start, end))
            if end - start > 1:
                split = int(splits[start, end])
                stack += [(split, end), (start, split)]
        built: dict[tuple[int, int], list[Tree]] = {}
        for start, end in reversed(order):
            if end - start == 1:
                nodes = [leaves[start]]
            else:
                split = int(splits[start, end])
                nodes = built.pop((start, split)) + built.pop((split, end))
            if label := int(labels[start, end]):
                for name in reversed(self._labels[label]):
                    nodes = [phrase(name, nodes)]
            built[start, end] = nodes
        return built[0, len(leaves)][0]


def _best_trees(spans: Floats, count: int) -> tuple[IntArray, IntArray]:
    """The label and the split of each span in the tree with the highest sum of scores, for each sentence.

    All sentences have `count` tokens, with spans in the order of `all_spans`. A span that is not a phrase scores 0, so
    that phrases may have more than two children.
    """
    starts, ends = all_spans(count)
    chosen = spans.argmax(axis=2)
    # The full sentence, the last of the spans that start at 0, is always a phrase.
    whole = count - 1
    chosen[:, whole] = spans[:, whole, 1:].argmax(axis=1) + 1
    square = (len(spans), count + 1, count + 1)
    labels, splits = np.zeros(square, np.int64), np.zeros(square, np.int64)
    own = np.zeros(square, np.float32)
    labels[:, starts, ends] = chosen
    own[:, starts, ends] = np.take_along_axis(spans, chosen[..., None], axis=2)[..., 0]
    # best[:, i, n] is the score of the span of n tokens from i; ending[:, j, n] that of the span of n tokens up to j.
    best, ending = np.zeros(square, np.float32), np.zeros(square, np.float32)
    every = np.arange(count + 1)
    best[:, :count, 1] = ending[:, 1:, 1] = own[:, every[:count], every[1:]]
    for length in range(2, count + 1):
        lefts, rights = every[: count + 1 - length], every[length:]
        both = best[:, : count + 1 - length, 1:length] + ending[:, length:, length - 1 : 0 : -1]
        at = both.argmax(axis=2)
        total = np.take_along_axis(both, at[..., None], axis=2)[..., 0] + own[:, lefts, rights]
        best[:, lefts, length] = ending[:, rights, length] = total
        splits[:, lefts, rights] = lefts + 1 + at
    return labels, splits


def _batches(pieces: Sequence[_Piece]) -> Iterator[list[int]]:
    """Indices of pieces of the same length, in batches of limited size."""
    by_length: dict[int, list[int]] = {}
    for index, piece in enumerate(pieces):
        by_length.setdefault(len(piece.tokens), []).append(index)
    for length, indices in by_length.items():
        size = max(1, _SPANS_PER_BATCH // length**2)
        for begin in range(0, len(indices), size):
            yield indices[begin : begin + size]


def _tokens(sentence: SentenceInput) -> list[Token]:
    if isinstance(sentence, str):
        return tokenize(sentence)
    tokens: list[Token] = []
    for item in sentence:
        if isinstance(item, Token):
            tokens.append(item)
        else:
            begin = tokens[-1].end + 1 if tokens else 0
            tokens.append(Token(item, begin, begin + len(item)))
    return tokens


def _pieces(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Split a long text at ends of sentences if possible."""
    pieces = []
    begin = 0
    while len(tokens) - begin > MAX_TOKENS:
        stops = (i + 1 for i in range(begin + MAX_TOKENS - 1, begin, -1) if tokens[i].text in _SENTENCE_ENDS)
        end = next(stops, begin + MAX_TOKENS)
        pieces.append((begin, end))
        begin = end
    return pieces + [(begin, len(tokens))] * (begin < len(tokens))


def parse(sentence: SentenceInput) -> Tree:
    """Return the constituency tree of an English sentence, given as text, tokens or words.

    Examples
    --------
    >>> print(parse("A dog runs."))
    (S (NP (DT A) (NN dog)) (VP (VBZ runs)) (. .))
    """
    return Parser.shipped().parse(sentence)
