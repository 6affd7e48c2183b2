"""Constituency trees for English sentences, offline, from a small parser of our own.

Every span of tokens gets a probability for each label (`deixis.language.span_scores`), and the tree whose phrases are
likeliest together is found by dynamic programming, after Stern, Andreas and Klein (ACL 2017). The parser learned
newspaper text and captions; ``models/parser.md`` says which. English only: of other languages it makes some tree, not
a good one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from deixis.files.progress import OnProgress, silent
from deixis.language.span_scores import Array, SpanScores, all_spans
from deixis.language.trees import Tree, leaf, phrase
from deixis.tokens import Token, tokenize

__all__ = ["Parser", "parse"]

JOINT = "+"
"""Between the labels of phrases that cover the same tokens: S+VP is an S that holds a VP only."""

NOT_A_PHRASE = ""
LONGEST = 200
"""A longer text is parsed in pieces of at most so many tokens: time grows with the square of their number and more."""

_LEAST_LIKELY = np.float32(0.4)
"""A phrase is worth having if it is likelier than this; chosen on sentences of the treebank that were learned from."""

_SPANS_AT_ONCE = 8000  # more take no less time each
_FRAGMENT = "FRAG"
_SENTENCE_ENDS = frozenset([".", "!", "?"])

Unparsed = str | Sequence[Token] | Sequence[str]
"""A sentence as text, as tokens or as plain words."""


class _Piece(NamedTuple):
    """Tokens that are parsed together: those of a sentence, or of a part of a long one."""

    sentence: int
    begin: int
    tokens: list[Token]


class Parser:
    """Makes trees with a learned model.

    Examples
    --------
    >>> print(Parser.shipped().parse("A dog runs."))
    (S (NP (DT A) (NN dog)) (VP (VBZ runs)) (. .))
    """

    def __init__(self, scores: SpanScores) -> None:
        self.scores = scores
        self._labels = tuple(tuple(label.split(JOINT)) for label in scores.labels)

    @classmethod
    def shipped(cls) -> Parser:
        """The parser that comes with the package, loaded once."""
        return _shipped()

    def parse(self, sentence: Unparsed) -> Tree:
        """Parse one sentence; see `parse` of this module."""
        return self.parse_all([sentence])[0]

    def parse_all(self, sentences: Sequence[Unparsed], on_progress: OnProgress = silent) -> list[Tree]:
        """Parse many sentences, those of one length together: about three times as fast as one after the other.

        Examples
        --------
        >>> [tree.label for tree in Parser.shipped().parse_all(["A dog runs.", "A dog", "A cat sleeps."])]
        ['S', 'NP', 'S']
        """
        texts = [_tokens(sentence) for sentence in sentences]
        pieces = [
            _Piece(number, begin, tokens[begin:end])
            for number, tokens in enumerate(texts)
            for begin, end in _pieces(tokens)
        ]
        made: dict[int, Tree] = {}
        for batch in _batches(pieces):
            made.update(zip(batch, self._parse_batch([pieces[place] for place in batch]), strict=True))
            on_progress("parsing", len(made), len(pieces))
        trees: list[list[Tree]] = [[] for _ in texts]
        for place, piece in enumerate(pieces):
            trees[piece.sentence].append(made[place])
        return [parts[0] if len(parts) == 1 else phrase(_FRAGMENT if parts else "", parts) for parts in trees]

    def _parse_batch(self, pieces: Sequence[_Piece]) -> Iterator[Tree]:
        """The trees of pieces of the same length."""
        likely, tag_scores = self.scores([[token.text for token in piece.tokens] for piece in pieces])
        gains = likely - _LEAST_LIKELY
        gains[..., 0] = 0
        best_labels, splits = _best_trees(gains, len(pieces[0].tokens))
        tags = tag_scores.argmax(axis=2).tolist()
        for piece, own_tags, own_labels, own_splits in zip(pieces, tags, best_labels, splits, strict=True):
            leaves = [
                leaf(self.scores.tags[tag], token, place)
                for place, (tag, token) in enumerate(zip(own_tags, piece.tokens, strict=True), start=piece.begin)
            ]
            yield self._assembled(leaves, own_labels, own_splits)

    def _assembled(self, leaves: list[Tree], labels: npt.NDArray[np.int64], splits: npt.NDArray[np.int64]) -> Tree:
        """Follow the chart down from the whole sentence, then build the tree upwards."""
        order: list[tuple[int, int]] = []
        waiting = [(0, len(leaves))]
        while waiting:
            start, end = waiting.pop()
            order.append((start, end))
            if end - start > 1:
                split = int(splits[start, end])
                waiting += [(split, end), (start, split)]
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


def _best_trees(spans: Array, count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The label of each span and where it splits, in the tree with the highest sum of scores, for each sentence.

    The sentences have `count` tokens each, their spans the order of `all_spans`. A span that is no phrase scores 0, so
    that phrases of more than two parts need no marks of their own.
    """
    starts, ends = all_spans(count)
    chosen = spans.argmax(axis=2)
    # The whole is a phrase, whatever it scores; it is the last of the spans that start at 0.
    whole = count - 1
    chosen[:, whole] = spans[:, whole, 1:].argmax(axis=1) + 1
    square = (len(spans), count + 1, count + 1)
    labels, splits = np.zeros(square, np.int64), np.zeros(square, np.int64)
    own = np.zeros(square, np.float32)
    labels[:, starts, ends] = chosen
    own[:, starts, ends] = np.take_along_axis(spans, chosen[..., None], axis=2)[..., 0]
    # best[:, i, n] is of the span of n tokens from i; ending[:, j, n] is the same of the span that ends at j.
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
    """The places of pieces of the same length, as many at a time as memory is used well with."""
    by_length: dict[int, list[int]] = {}
    for place, piece in enumerate(pieces):
        by_length.setdefault(len(piece.tokens), []).append(place)
    for length, places in by_length.items():
        size = max(1, _SPANS_AT_ONCE // length**2)
        for begin in range(0, len(places), size):
            yield places[begin : begin + size]


def _tokens(sentence: Unparsed) -> list[Token]:
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
    """Cut a text that is too long after the last sentence of each piece, or where the piece must end."""
    pieces = []
    begin = 0
    while len(tokens) - begin > LONGEST:
        stops = (i + 1 for i in range(begin + LONGEST - 1, begin, -1) if tokens[i].text in _SENTENCE_ENDS)
        end = next(stops, begin + LONGEST)
        pieces.append((begin, end))
        begin = end
    return pieces + [(begin, len(tokens))] * (begin < len(tokens))


@cache
def _shipped() -> Parser:
    return Parser(SpanScores.load(Path(__file__).parent / "models"))


def parse(sentence: Unparsed) -> Tree:
    """Give the constituency tree of an English sentence.

    Parameters
    ----------
    sentence
        Text, which is tokenised; or its tokens; or plain words, whose places are as if a space stood between them.

    Returns
    -------
    Tree
        With Penn Treebank labels. Any input has a tree: that of no tokens has no children, and a text of more than
        200 tokens is parsed in pieces under one FRAG.

    Examples
    --------
    >>> tree = parse("a dog in a field barking at a cat")
    >>> [node.text for node in tree.phrases() if node.label == "NP"][-2:]
    ['a field', 'a cat']
    """
    return _shipped().parse(sentence)
