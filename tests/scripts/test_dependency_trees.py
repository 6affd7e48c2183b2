"""Trees from dependency parses."""

from __future__ import annotations

import pytest
from dependency_trees import tree_from_dependencies
from hypothesis import given
from hypothesis import strategies as st

from deixis.tokens import tokenize

# Each word as word/tag/head/relation, heads counted from 0.
PARSES = {
    "A/DT/1/det dog/NN/3/nsubj is/VBZ/3/aux running/VBG/3/ROOT in/IN/3/prep snow/NN/4/pobj ././3/punct": (
        "(S (NP (DT A) (NN dog)) (VP (VBZ is) (VP (VBG running) (PP (IN in) (NP (NN snow))))) (. .))"
    ),
    "a/DT/1/det dog/NN/1/ROOT barking/VBG/1/acl at/IN/2/prep a/DT/5/det cat/NN/3/pobj": (
        "(NP (NP (DT a) (NN dog)) (VP (VBG barking) (PP (IN at) (NP (DT a) (NN cat)))))"
    ),
    "Red/JJ/1/amod hats/NNS/4/nsubj and/CC/1/cc coats/NNS/1/conj hang/VBP/4/ROOT": (
        "(S (NP (JJ Red) (NNS hats) (CC and) (NNS coats)) (VP (VBP hang)))"
    ),
    "a/DT/1/det man/NN/1/ROOT ,/,/1/punct a/DT/4/det dog/NN/1/conj and/CC/4/cc a/DT/7/det cat/NN/4/conj": (
        "(NP (NP (DT a) (NN man)) (, ,) (NP (DT a) (NN dog)) (CC and) (NP (DT a) (NN cat)))"
    ),
    "the/DT/1/det man/NN/3/poss 's/POS/1/case hat/NN/3/ROOT": "(NP (NP (DT the) (NN man) (POS 's)) (NN hat))",
    "boys/NNS/0/ROOT who/WP/2/nsubj run/VBP/0/relcl": "(NP (NP (NNS boys)) (SBAR (WHNP (WP who)) (S (VP (VBP run)))))",
    "He/PRP/1/nsubj sits/VBZ/1/ROOT and/CC/1/cc reads/VBZ/1/conj books/NNS/3/dobj": (
        "(S (NP (PRP He)) (VP (VP (VBZ sits)) (CC and) (VP (VBZ reads) (NP (NNS books)))))"
    ),
}


@pytest.mark.parametrize(("parse", "tree"), PARSES.items())
def test_a_dependency_parse_becomes_a_treebank_tree(parse: str, tree: str) -> None:
    words, tags, heads, relations = zip(*(item.rsplit("/", 3) for item in parse.split()), strict=True)
    tokens = tokenize(" ".join(words))
    assert str(tree_from_dependencies(tokens, tags, [int(head) for head in heads], relations)) == tree


RELATIONS = [
    "nsubj", "dobj", "prep", "pobj", "conj", "cc", "det", "amod", "aux", "relcl", "acl", "punct", "mark", "prt"
]  # fmt: skip
TAGS = ["NN", "VBZ", "IN", "JJ", "RB", "CC", ".", "PRP", "WP", "TO", "CD", "POS"]


@given(st.data(), st.integers(1, 12))
def test_any_parse_keeps_all_words_in_order(data: st.DataObject, count: int) -> None:
    order = data.draw(st.permutations(range(count)))
    heads = list(range(count))
    for i in range(1, count):
        heads[order[i]] = order[data.draw(st.integers(0, i - 1))]
    tags = data.draw(st.lists(st.sampled_from(TAGS), min_size=count, max_size=count))
    relations = data.draw(st.lists(st.sampled_from(RELATIONS), min_size=count, max_size=count))
    words = [f"w{i}" for i in range(count)]
    assert tree_from_dependencies(tokenize(" ".join(words)), tags, heads, relations).words() == words
