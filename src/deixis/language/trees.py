"""Constituency trees with token and character offsets, read from and written as bracketed text.

The text format is that of the Penn Treebank: ``(S (NP (DT A) (NN dog)) (VP (VBZ runs)))``. Nothing here is recursive,
so that trees may have any depth.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest

from deixis.errors import DatasetError
from deixis.tokens import Token

__all__ = ["Tree", "leaf", "phrase", "read_tree", "read_trees"]

_PIECE = re.compile(r"[()]|[^\s()]+")
_ESCAPES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
_ESCAPED = re.compile(r"-[LR][RSC]B-|\\([/*])")
_UNESCAPED = {escape: sign for sign, escape in _ESCAPES.items()}
_TO_ESCAPE = re.compile(r"[()\[\]{}]")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A node of a constituency tree with its subtree. Build one with `leaf`, `phrase` or `read_tree`.

    Attributes
    ----------
    label
        NP, VP, …; for a leaf, the part of speech.
    start, end
        Token span, end exclusive.
    char_start, char_end
        Character span in the sentence, end exclusive.
    children
        Child nodes in order; empty for a leaf.
    word
        The word of a leaf; None for a phrase.

    Examples
    --------
    >>> tree = read_tree("(S (NP (DT A) (NN dog)) (VP (VBZ runs)))")
    >>> [(node.label, node.text) for node in tree.children]
    [('NP', 'A dog'), ('VP', 'runs')]
    >>> tree.spanning(0, 2)
    <Tree (NP (DT A) (NN dog))>
    """

    label: str
    start: int
    end: int
    char_start: int
    char_end: int
    children: tuple[Tree, ...] = ()
    word: str | None = None

    @property
    def is_leaf(self) -> bool:
        """Whether the node is a word with its part of speech."""
        return self.word is not None

    @property
    def text(self) -> str:
        return " ".join(self.words())

    def nodes(self) -> Iterator[Tree]:
        """Iterate over the node and all nodes below it in preorder."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    def phrases(self) -> Iterator[Tree]:
        return (node for node in self.nodes() if not node.is_leaf)

    def leaves(self) -> Iterator[Tree]:
        return (node for node in self.nodes() if node.is_leaf)

    def words(self) -> list[str]:
        return [node.word for node in self.nodes() if node.word is not None]

    def spanning(self, start: int, end: int) -> Tree | None:
        """Return the highest node that spans exactly these tokens, or None."""
        node: Tree | None = self
        while node is not None and (node.start, node.end) != (start, end):
            node = next((child for child in node.children if child.start <= start and end <= child.end), None)
        return node

    def covering(self, start: int, end: int, label: str | None = None) -> Tree | None:
        """Return the smallest phrase (with this label, if passed) that covers these tokens, or None."""
        found = None
        node: Tree | None = self
        while node is not None and not node.is_leaf and node.start <= start and end <= node.end:
            if label is None or node.label == label:
                found = node
            node = next((child for child in node.children if child.start <= start and end <= child.end), None)
        return found

    def __str__(self) -> str:
        parts: list[str] = []
        waiting: list[Tree | None] = [self]
        while waiting:
            node = waiting.pop()
            if node is None:
                parts.append(")")
                continue
            before = " " if parts else ""
            if node.word is not None:
                parts.append(f"{before}({_escape(node.label)} {_escape(node.word)})")
            else:
                parts.append(f"{before}({_escape(node.label)}")
                waiting.append(None)
                waiting.extend(reversed(node.children))
        return "".join(parts)

    def __repr__(self) -> str:
        return f"<Tree {self}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        pairs = zip_longest(self.nodes(), other.nodes())
        return all(a is not None and b is not None and _own(a) == _own(b) for a, b in pairs)

    def __hash__(self) -> int:
        return hash((str(self), self.start, self.char_start, self.char_end))


def _own(node: Tree) -> tuple[object, ...]:
    """The attributes of a node without those of its children."""
    return (
        node.label, node.word, len(node.children), node.start, node.end, node.char_start, node.char_end
    )  # fmt: skip


def leaf(label: str, token: Token, position: int) -> Tree:
    return Tree(label, position, position + 1, token.start, token.end, (), token.text)


def phrase(label: str, children: Sequence[Tree]) -> Tree:
    """Create a node with adjacent child nodes."""
    if not children:
        return Tree(label, 0, 0, 0, 0)
    for left, right in pairwise(children):
        if left.end != right.start:
            raise ValueError(f"{left.text!r} and {right.text!r} are not adjacent")
    first, last = children[0], children[-1]
    return Tree(label, first.start, last.end, first.char_start, last.char_end, tuple(children))


def read_tree(text: str, tokens: Sequence[Token] | None = None, *, name: str = "tree") -> Tree:
    """Read a text with exactly one tree; errors start with `name`.

    `tokens` gives the character offsets. By default the sentence is the words joined by spaces.
    """
    found = _Reader(text, name, tokens).read()
    if len(found) != 1:
        raise DatasetError(f"{name}: {len(found)} trees, expected one")
    return found[0]


def read_trees(text: str, *, name: str = "trees") -> list[Tree]:
    """Read all trees of a text, such as a ``.mrg`` file of the Penn Treebank; errors start with `name`."""
    return _Reader(text, name, None).read()


@dataclass(slots=True)
class _Open:
    offset: int
    label: str | None = None
    word: str | None = None
    children: list[Tree] = field(default_factory=list)
    has_brackets: bool = False


class _Reader:
    """Reads brackets from left to right with a stack of open brackets."""

    def __init__(self, text: str, name: str, tokens: Sequence[Token] | None) -> None:
        self.text, self.name, self.tokens = text, name, tokens
        self.trees: list[Tree] = []
        self.open: list[_Open] = []
        self.position = 0
        self.char_end = 0

    def read(self) -> list[Tree]:
        for match in _PIECE.finditer(self.text):
            if match[0] == "(":
                self._open(match.start())
            elif match[0] == ")":
                self._close(match.start())
            else:
                self._add_word(match[0], match.start())
        if self.open:
            raise self._error(self.open[-1].offset, "the bracket is never closed")
        if self.tokens is not None and self.position != len(self.tokens):
            raise DatasetError(f"{self.name}: {self.position} words for the {len(self.tokens)} tokens of the sentence")
        return self.trees

    def _error(self, offset: int, what: str) -> DatasetError:
        line, column = self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)
        return DatasetError(f"{self.name}: line {line}, column {column}: {what}")

    def _open(self, offset: int) -> None:
        if not self.open:
            self.position = self.char_end = 0
        elif self.open[-1].word is not None:
            raise self._error(offset, f"a bracket after the word {self.open[-1].word!r}")
        else:
            self.open[-1].has_brackets = True
        self.open.append(_Open(offset))

    def _add_word(self, piece: str, offset: int) -> None:
        if not self.open:
            raise self._error(offset, f"{piece!r} is outside all brackets")
        bracket = self.open[-1]
        if bracket.has_brackets or bracket.word is not None:
            raise self._error(offset, f"{piece!r} is neither the label nor the only word of its brackets")
        if bracket.label is None:
            bracket.label = piece
        else:
            bracket.word = piece

    def _close(self, offset: int) -> None:
        if not self.open:
            raise self._error(offset, "closing bracket without an opening bracket")
        bracket = self.open.pop()
        label = bracket.label or ""
        if bracket.word is not None:
            node = self._leaf(bracket, label)
        elif label and not bracket.has_brackets:
            raise self._error(bracket.offset, f"the brackets of {label} are empty")
        else:
            try:
                node = phrase(label, bracket.children)
            except ValueError as error:
                raise self._error(bracket.offset, str(error)) from None
        (self.open[-1].children if self.open else self.trees).append(node)

    def _leaf(self, bracket: _Open, label: str) -> Tree:
        word = _unescape(bracket.word or "")
        if self.tokens is None:
            begin = self.char_end + 1 if self.position else 0
            token = Token(word, begin, begin + len(word))
        elif self.position < len(self.tokens):
            token = self.tokens[self.position]
            if word != _unescape(token.text):
                raise self._error(bracket.offset, f"the word is {word!r}, but the sentence has {token.text!r}")
        else:
            raise self._error(bracket.offset, f"the word {word!r} after the last token of the sentence")
        self.position += 1
        self.char_end = token.end
        return leaf(label, token, self.position - 1)


def _escape(text: str) -> str:
    return _TO_ESCAPE.sub(lambda sign: _ESCAPES[sign[0]], text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: found[1] or _UNESCAPED.get(found[0], found[0]), text)
