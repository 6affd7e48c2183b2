"""Random and degenerate trees for tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from deixis.language.trees import Tree, leaf, phrase, read_tree
from deixis.tokens import Token

WORDS = ("a", "dog", "runs", "Snow", ".")
WORD = read_tree("(NN snow)")
CHAIN = read_tree("(NP (DT a) " * 199 + "(NP (NN dog) (NN dog))" + ")" * 199)
"""200 levels of phrases over 201 words."""
WIDE = read_tree("(NP " + "(NN dog) " * 300 + ")")

Shape = Any
"""The index of a word, or a label with child shapes."""


def trees() -> st.SearchStrategy[Tree]:
    """Random trees of up to about twenty nodes."""
    words = st.integers(0, len(WORDS) - 1)
    shapes: st.SearchStrategy[Shape] = st.recursive(
        words,
        lambda below: st.tuples(st.sampled_from(["NP", "VP", "S"]), st.lists(below, min_size=1, max_size=4)),
        max_leaves=12,
    )
    return shapes.map(lambda shape: built(shape, [0]))


def built(shape: Shape, position: list[int]) -> Tree:
    """Build a tree from a shape, with its words from left to right."""
    if isinstance(shape, int):
        word, index = WORDS[shape], position[0]
        position[0] += 1
        return leaf("NN", Token(word, index * 10, index * 10 + len(word)), index)
    label, below = shape
    return phrase(label, [built(one, position) for one in below])
