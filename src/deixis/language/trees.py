"""Constituency trees: records that know their place in the sentence, read from and written as bracketed text.

The text is the Penn Treebank's: ``(S (NP (DT A) (NN dog)) (VP (VBZ runs)))``. Nothing here recurses, so that a tree
may be as deep as it likes.
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
_TRACE = "-NONE-"
_ESCAPES = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
_ESCAPED = re.compile(r"-[LR][RSC]B-|\\([/*])")
_UNESCAPED = {escape: sign for sign, escape in _ESCAPES.items()}
_TO_ESCAPE = re.compile(r"[()\[\]{}]")
_LABEL_END = re.compile(r"(?<=.)[-=|].*")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A node of a constituency tree with all that is below it. Make one with `leaf`, `phrase` or `read_tree`.

    Attributes
    ----------
    label
        NP, VP, …; of a leaf, the word's part of speech.
    start, end
        The tokens that it covers, counted from 0, end exclusive.
    char_start, char_end
        The characters that it covers in the sentence, end exclusive.
    children
        In the order of the sentence; none for a leaf.
    word
        Of a leaf; None for a phrase.

    Examples
    --------
    >>> tree = read_tree("(S (NP (DT A) (NN dog)) (VP (VBZ runs)))")
    >>> [(node.label, node.start, node.end, node.text) for node in tree.phrases()]
    [('S', 0, 3, 'A dog runs'), ('NP', 0, 2, 'A dog'), ('VP', 2, 3, 'runs')]
    """

    label: str
    start: int
    end: int
    char_start: int
    char_end: int
    children: tuple[Tree, ...] = field(default=())
    word: str | None = None

    @property
    def is_leaf(self) -> bool:
        """Whether it is a word with its part of speech."""
        return self.word is not None

    @property
    def text(self) -> str:
        """Its words, with a space between them."""
        return " ".join(self.words())

    def nodes(self) -> Iterator[Tree]:
        """The node itself and all below it, parents before children, from left to right."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))

    def phrases(self) -> Iterator[Tree]:
        """As `nodes`, without the leaves."""
        return (node for node in self.nodes() if not node.is_leaf)

    def leaves(self) -> Iterator[Tree]:
        """The words with their parts of speech, from left to right."""
        return (node for node in self.nodes() if node.is_leaf)

    def words(self) -> list[str]:
        """The words, from left to right."""
        return [node.word for node in self.nodes() if node.word is not None]

    def spanning(self, start: int, end: int) -> Tree | None:
        """The highest node, phrase or leaf, that spans some tokens and no others.

        Examples
        --------
        >>> tree = read_tree("(S (NP (DT A) (NN dog)) (VP (VBZ runs)))")
        >>> tree.spanning(2, 3), tree.spanning(1, 3)
        (<Tree (VP (VBZ runs))>, None)
        """
        node: Tree | None = self
        while node is not None and (node.start, node.end) != (start, end):
            node = next((child for child in node.children if child.start <= start and end <= child.end), None)
        return node

    def covering(self, start: int, end: int, label: str | None = None) -> Tree | None:
        """The smallest phrase that covers some tokens, of a given label if one is given.

        Examples
        --------
        >>> tree = read_tree("(S (NP (DT A) (NN dog)) (VP (VBZ runs)))")
        >>> tree.covering(1, 2).text, tree.covering(1, 2, "S").text
        ('A dog', 'A dog runs')
        """
        found = None
        node: Tree | None = self
        while node is not None and not node.is_leaf and node.start <= start and end <= node.end:
            if label is None or node.label == label:
                found = node
            node = next((child for child in node.children if child.start <= start and end <= child.end), None)
        return found

    def __str__(self) -> str:
        """Bracketed text, on one line."""
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
    """What a node says of itself, not of what is below it."""
    return (
        node.label, node.word, len(node.children), node.start, node.end, node.char_start, node.char_end
    )  # fmt: skip


def leaf(label: str, token: Token, position: int) -> Tree:
    """Make a leaf of a token, the `position`-th of its sentence.

    Examples
    --------
    >>> leaf("NN", Token("dog", 2, 5), 1)
    <Tree (NN dog)>
    """
    return Tree(label, position, position + 1, token.start, token.end, (), token.text)


def phrase(label: str, children: Sequence[Tree]) -> Tree:
    """Put nodes that follow each other under a new one.

    Examples
    --------
    >>> phrase("NP", [leaf("DT", Token("A", 0, 1), 0), leaf("NN", Token("dog", 2, 5), 1)])
    <Tree (NP (DT A) (NN dog))>
    """
    if not children:
        return Tree(label, 0, 0, 0, 0)
    for left, right in pairwise(children):
        if left.end != right.start:
            raise ValueError(f"{left.text!r} and {right.text!r} do not follow each other")
    first, last = children[0], children[-1]
    return Tree(label, first.start, last.end, first.char_start, last.char_end, tuple(children))


def read_tree(text: str, tokens: Sequence[Token] | None = None, *, plain: bool = False, name: str = "tree") -> Tree:
    """Read the one tree that a text holds.

    Parameters
    ----------
    text
        A tree in brackets.
    tokens
        The tokens of the sentence, for their places in it. Without them the sentence is the words with a space between
        them.
    plain, name
        As for `read_trees`.

    Raises
    ------
    DatasetError
        Where the text is no tree, or its words are not the tokens.

    Examples
    --------
    >>> tree = read_tree("( (NP-SBJ (NP (-NONE- *T*-1)) (DT A) (NN dog)))", plain=True)
    >>> tree, tree.char_start, tree.char_end
    (<Tree (NP (DT A) (NN dog))>, 0, 5)
    """
    found = _Reader(text, plain, name, tokens).read()
    if len(found) != 1:
        raise DatasetError(f"{name}: {len(found)} trees where there should be one")
    return found[0]


def read_trees(text: str, *, plain: bool = False, name: str = "trees") -> list[Tree]:
    """Read all trees of a text, such as a ``.mrg`` file of the Penn Treebank.

    Parameters
    ----------
    text
        Trees in brackets, over as many lines as they like.
    plain
        Keep words and categories only: traces (``-NONE-``), what is empty without them, the marks after a category
        (``NP-SBJ-1`` is ``NP``) and the brackets without a label around a sentence are left out.
    name
        What errors call the text: the name of its file.

    Raises
    ------
    DatasetError
        Where a bracket is missing or out of place; it names the line and the column.

    Examples
    --------
    >>> [tree.text for tree in read_trees("(NP (DT A) (NN dog)) (NP (DT a) (NN cat))")]
    ['A dog', 'a cat']
    """
    return _Reader(text, plain, name, None).read()


@dataclass(slots=True)
class _Open:
    """A bracket that has not been closed yet."""

    place: int
    label: str | None = None
    word: str | None = None
    children: list[Tree] = field(default_factory=list)
    has_brackets: bool = False


class _Reader:
    """Reads brackets from left to right, with the open ones on a stack."""

    def __init__(self, text: str, plain: bool, name: str, tokens: Sequence[Token] | None) -> None:
        self.text, self.plain, self.name, self.tokens = text, plain, name, tokens
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
                self._take(match[0], match.start())
        if self.open:
            raise self._wrong(self.open[-1].place, "a bracket is opened and never closed")
        if self.tokens is not None and self.position != len(self.tokens):
            raise DatasetError(f"{self.name}: {self.position} words for the {len(self.tokens)} tokens of the sentence")
        return self.trees

    def _wrong(self, place: int, what: str) -> DatasetError:
        line, column = self.text.count("\n", 0, place) + 1, place - self.text.rfind("\n", 0, place)
        return DatasetError(f"{self.name}: line {line}, column {column}: {what}")

    def _open(self, place: int) -> None:
        if not self.open:
            self.position = self.char_end = 0
        elif self.open[-1].word is not None:
            raise self._wrong(place, f"a bracket after the word {self.open[-1].word!r}")
        else:
            self.open[-1].has_brackets = True
        self.open.append(_Open(place))

    def _take(self, piece: str, place: int) -> None:
        if not self.open:
            raise self._wrong(place, f"{piece!r} is outside of all brackets")
        bracket = self.open[-1]
        if bracket.has_brackets or bracket.word is not None:
            raise self._wrong(place, f"{piece!r} is neither the label nor the only word of its brackets")
        if bracket.label is None:
            bracket.label = piece
        else:
            bracket.word = piece

    def _close(self, place: int) -> None:
        if not self.open:
            raise self._wrong(place, "a bracket is closed that was never opened")
        bracket = self.open.pop()
        try:
            node = self._node(bracket)
        except ValueError as error:
            raise self._wrong(bracket.place, str(error)) from None
        if node is not None:
            (self.open[-1].children if self.open else self.trees).append(node)

    def _node(self, bracket: _Open) -> Tree | None:
        """What a bracket becomes; None for what is left out."""
        label = bracket.label or ""
        if bracket.word is not None:
            return None if self.plain and label == _TRACE else self._leaf(bracket)
        if label and not bracket.has_brackets:
            raise self._wrong(bracket.place, f"nothing in the brackets of {label}")
        if self.plain:
            if not bracket.children:
                return None
            if not label and len(bracket.children) == 1:
                return bracket.children[0]
            label = _category(label)
        return phrase(label, bracket.children)

    def _leaf(self, bracket: _Open) -> Tree:
        label = _category(bracket.label or "") if self.plain else bracket.label or ""
        word = _unescape(bracket.word or "")
        if self.tokens is None:
            begin = self.char_end + 1 if self.position else 0
            token = Token(word, begin, begin + len(word))
        elif self.position < len(self.tokens):
            token = self.tokens[self.position]
            if word != _unescape(token.text):
                raise self._wrong(bracket.place, f"the word {word!r} where the sentence has {token.text!r}")
        else:
            raise self._wrong(bracket.place, f"the word {word!r} after the last token of the sentence")
        self.position += 1
        self.char_end = token.end
        return leaf(label, token, self.position - 1)


def _category(label: str) -> str:
    """A label without the marks after it; labels that begin with a mark (-LRB-) stay."""
    return label if label.startswith("-") else _LABEL_END.sub("", label)


def _escape(text: str) -> str:
    return _TO_ESCAPE.sub(lambda sign: _ESCAPES[sign[0]], text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda found: found[1] or _UNESCAPED.get(found[0], found[0]), text)
