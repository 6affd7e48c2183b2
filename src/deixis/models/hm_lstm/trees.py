"""Constituency trees as arrays, so that a network computes many trees at once, level by level.

A `Forest` holds the trees of many sentences; it is parsed once and cached. A `TreeBatch` is a selection of these trees
with the nodes sorted by depth, the deepest first. The children of the nodes at one depth are then exactly the nodes at
the next depth: each level is computed from the previous one, whatever the shapes of the trees.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from deixis.data.pairs import Integers, RaggedArray
from deixis.errors import DeixisError
from deixis.language import parser
from deixis.language.sentence import Sentence, parse_sentences
from deixis.language.trees import Tree
from deixis.storage.artifacts import Artifact, Storable, fingerprint_artifact
from deixis.storage.atomic import explain_os_errors, make_parents
from deixis.storage.progress import OnProgress, no_progress

SENTENCES_PER_ARTIFACT = 5000
"""Sentences in one part of the cache, about two seconds of parsing: the most that an interruption can lose."""


@dataclass(frozen=True)
class Level:
    """Number of nodes at one depth, in this order: noun phrases, other phrases, leaves."""

    noun_phrases: int
    others: int
    leaves: int

    @property
    def inner(self) -> int:
        return self.noun_phrases + self.others

    @property
    def nodes(self) -> int:
        return self.inner + self.leaves


A = TypeVar("A")
"""Type of arrays: numpy for inference, torch for training."""


@dataclass(frozen=True)
class TreeBatch(Generic[A]):
    """Trees for a network, which computes them from the deepest level up.

    A node has an *index*: tree by tree, parents before children, from left to right. It also has a *position*: the same
    nodes ordered level by level.
    """

    ARRAYS: ClassVar = ("parent", "leaf_words", "position", "roots", "words", "spans")

    levels: tuple[Level, ...]  # from the deepest level to that of the roots
    parent: A  # (nodes,) by position: the parent's index among the inner nodes of the level above; 0 for roots
    leaf_words: A  # (leaves,) by position; the number of words stands for a leaf without a word
    position: A  # (nodes,) by index
    roots: A  # (trees,) indices of the roots
    words: A  # (leaves,) in sentence order, one sentence after another
    spans: A  # (nodes, 2) by index: first word of the node in `words`, and the end (exclusive)

    def by_level(self, kinds: int) -> Iterator[tuple[Level, slice, A]]:
        """Yield each level, the deepest first, with its leaves among all leaves and the sum that each child belongs to.

        The children are the nodes of the level before. With two kinds, a parent has a sum over noun phrases and one
        over other children.
        """
        begin = leaves = 0
        before = Level(0, 0, 0)
        for level in self.levels:
            owner: Any = kinds * self.parent[begin : begin + before.nodes]  # type: ignore[index]
            owner[before.noun_phrases :] += kinds - 1
            yield level, slice(leaves, leaves + level.leaves), owner
            begin, leaves, before = begin + before.nodes, leaves + level.leaves, level


@dataclass(frozen=True)
class Forest(Storable):
    """Trees of many sentences as columns with one row per node: parents before children, from left to right."""

    KIND: ClassVar = "forest"
    COLUMNS: ClassVar = ("starts", "parent", "word", "noun_phrase", "depth", "span")

    words: tuple[str, ...]  # distinct words of all leaves, as written
    starts: Integers  # first row of each tree, and the number of rows
    parent: Integers  # counted within its tree; −1 for roots
    word: Integers  # index in `words` for leaves; −1 for other nodes and for the single node of a tree without words
    noun_phrase: NDArray[np.bool_]  # whether the node is an NP with children
    depth: Integers  # distance from the root
    span: Integers  # (nodes, 2) first token of the node in its sentence, and the end (exclusive)

    @classmethod
    def from_trees(cls, trees: Iterable[Tree]) -> Forest:
        word_index: dict[str, int] = {}
        starts, rows = [0], []
        for tree in trees:
            rows += _tree_rows(tree, word_index)
            starts.append(len(rows))
        columns = np.array(rows, dtype=np.int64).reshape(-1, 6).T
        parent, word, noun_phrase, depth = columns[:4]
        span = columns[4:].T.copy()
        return cls(tuple(word_index), np.array(starts), parent, word, noun_phrase.astype(bool), depth, span)

    @classmethod
    def concatenate(cls, forests: Sequence[Forest]) -> Forest:
        """Join forests with different words."""
        if not forests:
            return cls.from_trees([])
        word_index: dict[str, int] = {}
        # The last entry maps -1, the number of a node without a word, to itself.
        words = [
            np.array([*(word_index.setdefault(word, len(word_index)) for word in forest.words), -1])[forest.word]
            for forest in forests
        ]
        ends = np.concatenate([[0], np.cumsum([len(forest.parent) for forest in forests])])
        starts = [forest.starts[:-1] + begin for forest, begin in zip(forests, ends[:-1], strict=True)]
        columns = {
            name: np.concatenate([getattr(forest, name) for forest in forests])
            for name in ("parent", "noun_phrase", "depth", "span")
        }
        all_starts = np.concatenate([*starts, ends[-1:]])
        return cls(tuple(word_index), starts=all_starts, word=np.concatenate(words), **columns)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def leaf_words(self) -> Iterator[str]:
        """The word of each leaf, in order."""
        return (self.words[word] for word in self.word.tolist() if word >= 0)

    def used_words(self, trees: Integers) -> Integers:
        """Indices of the words of some trees."""
        is_used = np.zeros(len(self.words) + 1, dtype=bool)
        is_used[self.word[RaggedArray(self.starts, np.arange(len(self.word))).gather(np.unique(trees))[1]]] = True
        return np.flatnonzero(is_used[:-1])

    @cached_property
    def noun_phrases(self) -> RaggedArray:
        """The noun phrases of each tree, as node indices within the tree.

        Nodes that span the whole sentence are excluded. Of several nodes with the same span, only the highest is used.
        """
        tree = np.repeat(np.arange(len(self)), np.diff(self.starts))
        spans_sentence = (self.span == self.span[self.starts[tree]]).all(axis=1)
        rows = np.flatnonzero(self.noun_phrase & (self.parent >= 0) & ~spans_sentence)
        keys = np.column_stack([tree[rows], self.span[rows]])
        # Parents come before children, so the first row of a span is the highest node.
        rows = rows[np.sort(np.unique(keys, axis=0, return_index=True)[1])]
        return RaggedArray.from_owners(tree[rows], rows - self.starts[tree[rows]], len(self))

    def find_node(self, tree: int, start: int, end: int) -> int | None:
        """Index of the highest node that spans exactly the tokens from `start` to `end`."""
        found = np.flatnonzero((self._spans(tree) == (start, end)).all(axis=1))
        return int(found[0]) if len(found) else None

    def find_covering_node(self, tree: int, start: int, end: int) -> int:
        """Like `find_node`, but falls back to the smallest noun phrase around these tokens, or the root."""
        node = self.find_node(tree, start, end)
        if node is not None:
            return node
        spans, noun_phrase = self._spans(tree), self.noun_phrase[self.starts[tree] : self.starts[tree + 1]]
        covering = np.flatnonzero(noun_phrase & (spans[:, 0] <= start) & (spans[:, 1] >= end))
        return int(covering[-1]) if len(covering) else 0

    def _spans(self, tree: int) -> Integers:
        return self.span[self.starts[tree] : self.starts[tree + 1]]

    def text(self, tree: int, node: int) -> str:
        """The words of a node, separated by spaces."""
        words = self.word[self.starts[tree] : self.starts[tree + 1]]
        start, end = self._spans(tree)[node]
        return " ".join(self.words[word] for word in words[words >= 0][start:end])

    def batch(self, trees: Sequence[int] | Integers) -> TreeBatch[Integers]:
        """Select trees; a tree may occur more than once."""
        nodes = RaggedArray(self.starts, np.arange(len(self.parent)))
        tree, rows = nodes.gather(np.asarray(trees, dtype=np.int64))
        first = np.searchsorted(tree, np.arange(len(trees)))
        parent = self.parent[rows] + first[tree]
        depth, noun_phrase = self.depth[rows], self.noun_phrase[rows]
        is_root = self.parent[rows] < 0
        has_children = np.zeros(len(rows), dtype=bool)
        has_children[parent[~is_root]] = True
        kind = np.where(noun_phrase, 0, np.where(has_children, 1, 2))

        order = np.lexsort([kind, -depth])
        position = np.empty(len(rows), dtype=np.int64)
        position[order] = np.arange(len(rows))
        deepest = int(depth.max(initial=-1))
        counts = np.bincount(3 * (deepest - depth) + kind, minlength=3 * (deepest + 1)).reshape(-1, 3)
        begins = np.concatenate([[0], np.cumsum(counts.sum(axis=1))])
        parent_in_level = np.zeros(len(rows), dtype=np.int64)
        children = order[~is_root[order]]  # by position; the roots come last
        parent_in_level[: len(children)] = position[parent[children]] - begins[deepest - depth[children] + 1]

        is_leaf = kind == 2
        word = np.where(self.word[rows] < 0, len(self.words), self.word[rows])
        leaves_before = np.concatenate([[0], np.cumsum(is_leaf)])
        return TreeBatch(
            tuple(Level(*map(int, row)) for row in counts),
            parent_in_level,
            word[order][is_leaf[order]],
            position,
            first,
            word[is_leaf],
            self.span[rows] + leaves_before[first[tree]][:, None],
        )

    def to_artifact(self) -> Artifact:
        arrays = {name: getattr(self, name) for name in self.COLUMNS}
        arrays |= {name: arrays[name].astype(np.int32) for name in ("parent", "word", "depth", "span")}
        return Artifact(self.KIND, {"words": self.words}, arrays)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        columns: dict[str, Any] = {name: artifact.arrays[name].astype(np.int64) for name in cls.COLUMNS}
        columns["noun_phrase"] = columns["noun_phrase"].astype(bool)
        return cls(tuple(artifact.settings["words"]), **columns)


def _tree_rows(tree: Tree, word_index: dict[str, int]) -> list[tuple[int, int, bool, int, int, int]]:
    """Columns of each node of a tree; new words are added to `word_index`."""
    rows: list[tuple[int, int, bool, int, int, int]] = []
    stack = [(tree, -1, 0)]
    while stack:
        node, parent, depth = stack.pop()
        word = -1 if node.word is None else word_index.setdefault(node.word, len(word_index))
        is_noun_phrase = node.label == "NP" and bool(node.children)
        stack += [(child, len(rows), depth + 1) for child in reversed(node.children)]
        rows.append((parent, word, is_noun_phrase, depth, node.start, node.end))
    return rows


def parse_forest(
    sentences: Sequence[Sentence], folder: str | PathLike[str], on_progress: OnProgress = no_progress
) -> Forest:
    """Parse sentences, with a cache in `folder`. Sentences that have a tree keep it.

    Each part of the cache holds some thousand sentences and is named after a hash of these and of the parser, so an
    interrupted run continues and a change of either is noticed. A damaged part is written again.
    """
    forests = []
    for begin in range(0, len(sentences), SENTENCES_PER_ARTIFACT):
        chunk = sentences[begin : begin + SENTENCES_PER_ARTIFACT]
        path = Path(folder) / f"trees-{_hash(chunk)}"
        try:
            forests.append(Forest.load(path))
        except DeixisError:  # missing or damaged
            parse_sentences(chunk)
            forests.append(Forest.from_trees(sentence.tree for sentence in chunk))
            with explain_os_errors(path), make_parents(path):
                forests[-1].save(path)
            on_progress("parsing sentences", begin + len(chunk), len(sentences))
    return Forest.concatenate(forests)


def _hash(sentences: Sequence[Sentence]) -> str:
    digest = hashlib.sha256(_parser_fingerprint().encode())
    for sentence in sentences:
        tree = str(sentence.tree) if sentence.has_tree else ""
        digest.update("\0".join([sentence.text, *(token.text for token in sentence.tokens), tree, "\n"]).encode())
    return digest.hexdigest()[:16]


@cache
def _parser_fingerprint() -> str:
    return fingerprint_artifact(parser.SHIPPED)
