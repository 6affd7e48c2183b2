"""Constituency trees as arrays: many trees at once, laid out so that a network goes through them level by level.

A `Forest` holds the trees of many sentences and is made once. A `TreeBatch` is some of these trees, their nodes ordered
by depth, the deepest first. All children of the nodes of one depth are then the nodes of the next: a level is computed
from the one before it and from nothing else, whatever the shapes of the trees.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from torch import Tensor

from deixis.data.pairs import Lists, Numbers
from deixis.errors import DeixisError
from deixis.files.atomic import new_file
from deixis.language.saved import damaged
from deixis.language.trees import Tree

NOUN_PHRASE = "NP"
_FORMAT = "deixis-forest-1"
_COLUMNS = ("starts", "parent", "word", "noun_phrase", "depth", "span")


@dataclass(frozen=True)
class Level:
    """How many nodes of one depth there are. They stand in this order: noun phrases, other phrases, leaves.

    Attributes
    ----------
    noun_phrases, others, leaves
        A leaf is a word with its part of speech, or the node of a tree without words; it is no noun phrase.
    """

    noun_phrases: int
    others: int
    leaves: int

    @property
    def inner(self) -> int:
        """How many have children."""
        return self.noun_phrases + self.others

    @property
    def nodes(self) -> int:
        """How many there are in all."""
        return self.inner + self.leaves


@dataclass(frozen=True)
class TreeBatch:
    """Some trees of a forest, for a network to go through from the deepest level up.

    Nodes have a *number*: trees in the order they were asked for, parents before children, from left to right. And they
    have a *place*: where they stand level by level.

    Attributes
    ----------
    levels
        From the deepest to that of the roots.
    parent : tensor of int64, (nodes,)
        Of the node at each place: where its parent stands among the inner nodes of the level above; 0 for roots.
    leaf_words : tensor of int64, (leaves,)
        The words of the leaves, in the order of their places; one more than the last for what is no word.
    place : tensor of int64, (nodes,)
        Of the node of each number.
    roots : tensor of int64, (trees,)
        The numbers of the roots.
    words : tensor of int64, (leaves,)
        The words of all leaves as the sentences have them, one sentence after the other.
    spans : tensor of int64, (nodes, 2)
        Of the node of each number: from which to before which of `words` it reaches.
    """

    levels: tuple[Level, ...]
    parent: Tensor
    leaf_words: Tensor
    place: Tensor
    roots: Tensor
    words: Tensor
    spans: Tensor

    def to(self, device: torch.device) -> TreeBatch:
        """The same on another device."""
        names = ("parent", "leaf_words", "place", "roots", "words", "spans")
        return replace(self, **{name: getattr(self, name).to(device, non_blocking=True) for name in names})


@dataclass(frozen=True)
class Forest:
    """Trees of many sentences as columns, a row for each node: parents before children, from left to right.

    Attributes
    ----------
    words
        The different words of all leaves, as written.
    starts
        Where the nodes of each tree begin, and the end.
    parent
        The parent of each node, counted within its tree; −1 for roots.
    word
        The word of each leaf, a place in `words`; −1 for other nodes, and for the one node of a tree without words.
    noun_phrase
        Whether the node is an NP and no leaf.
    depth
        How far below the root.
    span
        From which to before which token of its sentence the node reaches, (nodes, 2).

    Examples
    --------
    >>> from deixis.language.trees import read_tree
    >>> forest = Forest.of([read_tree("(S (NP (DT A) (NN dog)) (VP (VBZ runs)))"), read_tree("(NN snow)")])
    >>> len(forest), forest.depth.tolist(), forest.noun_phrases[0].tolist()
    (2, [0, 1, 2, 2, 1, 2, 0], [1])
    >>> forest.batch([0]).levels
    (Level(noun_phrases=0, others=0, leaves=3), Level(noun_phrases=1, others=1, leaves=0), Level(noun_phrases=0, \
others=1, leaves=0))
    """

    words: tuple[str, ...]
    starts: Numbers
    parent: Numbers
    word: Numbers
    noun_phrase: NDArray[np.bool_]
    depth: Numbers
    span: Numbers

    @classmethod
    def of(cls, trees: Iterable[Tree], words: Sequence[str] = ()) -> Forest:
        """Lay out trees; the words that they have beyond `words` come after these."""
        known = {word: place for place, word in enumerate(words)}
        starts, rows = [0], []
        for tree in trees:
            rows += _rows_of(tree, known)
            starts.append(len(rows))
        columns = np.array(rows, dtype=np.int64).reshape(-1, 6).T
        parent, word, noun_phrase, depth = columns[:4]
        return cls(tuple(known), np.array(starts), parent, word, noun_phrase.astype(bool), depth, columns[4:].T.copy())

    @classmethod
    def joined(cls, forests: Sequence[Forest]) -> Forest:
        """The trees of several forests, one forest after the other.

        Examples
        --------
        >>> from deixis.language.trees import read_tree
        >>> dog, snow = (Forest.of([read_tree(tree)]) for tree in ("(NP (DT a) (NN dog))", "(NP (DT a) (NN cat))"))
        >>> both = Forest.joined([dog, snow])
        >>> both.words, both.text(1, 0)
        (('a', 'dog', 'cat'), 'a cat')
        """
        if not forests:
            return cls.of([])
        known: dict[str, int] = {}
        # One more row for what is no word, whose number is -1: the last.
        renamed = [
            np.array([*(known.setdefault(word, len(known)) for word in forest.words), -1])[forest.word]
            for forest in forests
        ]
        ends = np.concatenate([[0], np.cumsum([len(forest.parent) for forest in forests])])
        starts = [forest.starts[:-1] + begin for forest, begin in zip(forests, ends[:-1], strict=True)]
        return cls(
            tuple(known),
            np.concatenate([*starts, ends[-1:]]),
            np.concatenate([forest.parent for forest in forests]),
            np.concatenate(renamed),
            np.concatenate([forest.noun_phrase for forest in forests]),
            np.concatenate([forest.depth for forest in forests]),
            np.concatenate([forest.span for forest in forests]),
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def noun_phrases(self) -> Lists:
        """The noun phrases of each tree, by the number of their node in it.

        The root is not among them, for it is the sentence; of several that span the same words, the highest is.
        """
        tree = np.repeat(np.arange(len(self)), np.diff(self.starts))
        own = self.noun_phrase & (self.parent >= 0)
        rows = np.flatnonzero(own & ~self._as_long_as_root(tree))
        keys = np.column_stack([tree[rows], self.span[rows]])
        # Parents come first, so the first of a span is the highest.
        rows = rows[np.sort(np.unique(keys, axis=0, return_index=True)[1])]
        return Lists.of(tree[rows], rows - self.starts[tree[rows]], len(self))

    def _as_long_as_root(self, tree: Numbers) -> NDArray[np.bool_]:
        same: NDArray[np.bool_] = (self.span == self.span[self.starts[tree]]).all(axis=1)
        return same

    def spanning(self, tree: int, start: int, end: int) -> int | None:
        """The highest node over exactly some tokens of a tree, by its number there; as `Tree.spanning`.

        Examples
        --------
        >>> from deixis.language.trees import read_tree
        >>> forest = Forest.of([read_tree("(S (NP (DT A) (NN dog)) (VP (VBZ runs)))")])
        >>> forest.spanning(0, 0, 2), forest.spanning(0, 1, 3)
        (1, None)
        """
        found = np.flatnonzero((self._spans(tree) == (start, end)).all(axis=1))
        return int(found[0]) if len(found) else None

    def covering(self, tree: int, start: int, end: int) -> int:
        """As `spanning`; where there is none, the smallest noun phrase over these tokens, or the root."""
        own = self.spanning(tree, start, end)
        if own is not None:
            return own
        spans, noun_phrase = self._spans(tree), self.noun_phrase[self.starts[tree] : self.starts[tree + 1]]
        over = np.flatnonzero(noun_phrase & (spans[:, 0] <= start) & (spans[:, 1] >= end))
        return int(over[-1]) if len(over) else 0

    def _spans(self, tree: int) -> Numbers:
        return self.span[self.starts[tree] : self.starts[tree + 1]]

    def text(self, tree: int, node: int) -> str:
        """The words of a node, with a space between them."""
        words = self.word[self.starts[tree] : self.starts[tree + 1]]
        start, end = self._spans(tree)[node]
        return " ".join(self.words[word] for word in words[words >= 0][start:end])

    def batch(self, trees: Sequence[int] | Numbers) -> TreeBatch:
        """Some of the trees, in this order, each as often as it is asked for."""
        nodes = Lists(self.starts, np.arange(len(self.parent)))
        tree, rows = nodes.joined(np.asarray(trees, dtype=np.int64))
        first = np.searchsorted(tree, np.arange(len(trees)))
        parent = self.parent[rows] + first[tree]
        depth, noun_phrase = self.depth[rows], self.noun_phrase[rows]
        is_root = self.parent[rows] < 0
        has_children = np.zeros(len(rows), dtype=bool)
        has_children[parent[~is_root]] = True
        kind = np.where(noun_phrase, 0, np.where(has_children, 1, 2))

        order = np.lexsort([kind, -depth])
        place = np.empty(len(rows), dtype=np.int64)
        place[order] = np.arange(len(rows))
        deepest = int(depth.max(initial=-1))
        counts = np.bincount(3 * (deepest - depth) + kind, minlength=3 * (deepest + 1)).reshape(-1, 3)
        begins = np.concatenate([[0], np.cumsum(counts.sum(axis=1))])
        above = np.zeros(len(rows), dtype=np.int64)
        children = order[~is_root[order]]  # by place: the roots stand last
        above[: len(children)] = place[parent[children]] - begins[deepest - depth[children] + 1]

        is_leaf = kind == 2
        word = np.where(self.word[rows] < 0, len(self.words), self.word[rows])
        leaves_before = np.concatenate([[0], np.cumsum(is_leaf)])
        return TreeBatch(
            tuple(Level(*map(int, row)) for row in counts),
            torch.from_numpy(above),
            torch.from_numpy(word[order][is_leaf[order]]),
            torch.from_numpy(place),
            torch.from_numpy(first),
            torch.from_numpy(word[is_leaf]),
            torch.from_numpy(self.span[rows] + leaves_before[first[tree]][:, None]),
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write one file that `load` reads."""
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in _COLUMNS}
        arrays |= {name: arrays[name].astype(np.int32) for name in ("parent", "word", "depth", "span")}
        header = {"format": _FORMAT, "words": json.dumps(self.words, ensure_ascii=False)}
        with new_file(path) as unfinished:
            save_file(arrays, unfinished, metadata=header)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Forest:
        """Open a file that `save` wrote."""
        path = Path(path)
        if not path.is_file():
            raise DeixisError(f"{path}: no such file")
        with damaged(path):
            try:
                with safe_open(path, framework="numpy") as file:
                    header: dict[str, Any] = file.metadata() or {}
                    if header.get("format") != _FORMAT:
                        raise DeixisError(f"{path}: holds no trees made by deixis")
                    columns = {name: file.get_tensor(name) for name in _COLUMNS}
            except SafetensorError as error:
                raise ValueError(str(error)) from error
            whole = {name: column.astype(np.int64) for name, column in columns.items() if name != "noun_phrase"}
            return cls(tuple(json.loads(header["words"])), **whole, noun_phrase=columns["noun_phrase"].astype(bool))


def _rows_of(tree: Tree, words: dict[str, int]) -> list[tuple[int, int, bool, int, int, int]]:
    """The columns of each node of a tree; words that are new get the next number."""
    rows: list[tuple[int, int, bool, int, int, int]] = []
    waiting = [(tree, -1, 0)]
    while waiting:
        node, parent, depth = waiting.pop()
        number = -1 if node.word is None else words.setdefault(node.word, len(words))
        is_noun_phrase = node.label == NOUN_PHRASE and bool(node.children)
        waiting += [(child, len(rows), depth + 1) for child in reversed(node.children)]
        rows.append((parent, number, is_noun_phrase, depth, node.start, node.end))
    return rows
