"""Trees to test with: random ones, and degenerate ones."""

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
"""A word's number, or a label with shapes below it."""


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
    """A shape as a tree, its words from left to right."""
    if isinstance(shape, int):
        word, place = WORDS[shape], position[0]
        position[0] += 1
        return leaf("NN", Token(word, place * 10, place * 10 + len(word)), place)
    label, below = shape
    return phrase(label, [built(one, position) for one in below])
