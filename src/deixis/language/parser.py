"""Constituency trees for English sentences, offline, from a small parser of our own.

Every span of tokens gets a probability for each label (`deixis.language.span_scores`), and the tree whose phrases are
likeliest together is found by dynamic programming, after Stern, Andreas and Klein (ACL 2017). The parser learned
newspaper text and captions; ``models/parser.md`` says which. English only: of other languages it makes some tree, not
a good one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deixis.language.span_scores import Array, SpanScores
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

_FRAGMENT = "FRAG"
_SENTENCE_ENDS = frozenset([".", "!", "?"])


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

    def parse(self, sentence: str | Sequence[Token] | Sequence[str]) -> Tree:
        """Parse one sentence; see `parse` of this module."""
        tokens = _tokens(sentence)
        trees = [self._parse_piece(tokens, begin, end) for begin, end in _pieces(tokens)]
        return trees[0] if len(trees) == 1 else phrase(_FRAGMENT if trees else "", trees)

    def _parse_piece(self, tokens: Sequence[Token], begin: int, end: int) -> Tree:
        likely, tag_scores = self.scores([token.text for token in tokens[begin:end]])
        tags = tag_scores.argmax(axis=1).tolist()
        leaves = [leaf(self.scores.tags[tag], tokens[i], i) for i, tag in enumerate(tags, start=begin)]
        gains = likely - _LEAST_LIKELY
        gains[..., 0] = 0
        best_labels, splits = _best_tree(gains)
        return self._assembled(leaves, best_labels, splits)

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


def _best_tree(spans: Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The label of each span and where it splits, in the tree with the highest sum of scores.

    A span that is no phrase scores 0, so that phrases of more than two parts need no marks of their own.
    """
    count = len(spans) - 1
    labels = spans.argmax(axis=2)
    # The whole is a phrase, whatever it scores.
    labels[0, count] = spans[0, count, 1:].argmax() + 1
    own = np.take_along_axis(spans, labels[..., None], axis=2)[..., 0]
    # best[i, n] is of the span of n tokens from i; ending[j, n] is the same of the span that ends at j.
    best = np.zeros((count + 1, count + 1), np.float32)
    ending = np.zeros((count + 1, count + 1), np.float32)
    splits = np.zeros((count + 1, count + 1), np.int64)
    every = np.arange(count + 1)
    best[:count, 1] = ending[1:, 1] = own[every[:count], every[1:]]
    for length in range(2, count + 1):
        starts = every[: count + 1 - length]
        ends = starts + length
        both = best[: count + 1 - length, 1:length] + ending[length:, length - 1 : 0 : -1]
        at = both.argmax(axis=1)
        total = both[starts, at] + own[starts, ends]
        best[starts, length] = ending[ends, length] = total
        splits[starts, ends] = starts + 1 + at
    return labels, splits


def _tokens(sentence: str | Sequence[Token] | Sequence[str]) -> list[Token]:
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


def parse(sentence: str | Sequence[Token] | Sequence[str]) -> Tree:
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
