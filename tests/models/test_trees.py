"""Trees as arrays, held against the trees themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.language.trees import Tree, phrase, read_tree
from deixis.models.trees import Forest, Level
from tests.models.made_trees import CHAIN, WIDE, WORD, trees


def nodes_of(tree: Tree) -> list[Tree]:
    return list(tree.nodes())


@given(st.lists(trees(), min_size=1, max_size=6))
def test_a_batch_holds_every_node_once_and_children_in_the_level_after_their_parents(some: list[Tree]) -> None:
    batch = Forest.of(some).batch(range(len(some)))
    every = [node for tree in some for node in nodes_of(tree)]
    assert sorted(batch.place.tolist()) == list(range(len(every)))

    at = dict(zip(batch.place.tolist(), every, strict=True))
    begin = 0
    for number, level in enumerate(batch.levels):
        stands = [at[begin + place] for place in range(level.nodes)]
        assert [bool(node.children) for node in stands] == [True] * level.inner + [False] * level.leaves
        is_np = [node.label == "NP" for node in stands[: level.inner]]
        assert is_np == [True] * level.noun_phrases + [False] * level.others
        if number + 1 < len(batch.levels):
            above = begin + level.nodes
            for place, node in enumerate(stands):
                parent = at[above + int(batch.parent[begin + place])]
                assert any(child is node for child in parent.children)
        begin += level.nodes
    assert [at[int(batch.place[root])] for root in batch.roots] == some


@given(st.lists(trees(), min_size=1, max_size=4))
def test_words_come_back_in_the_order_of_the_sentences_and_of_every_node(some: list[Tree]) -> None:
    forest = Forest.of(some)
    batch = forest.batch(range(len(some)))
    words = [*forest.words, None]
    every = [node for tree in some for node in nodes_of(tree)]
    for node, (start, end) in zip(every, batch.spans.tolist(), strict=True):
        assert [words[word] for word in batch.words[start:end]] == node.words()
    for number, tree in enumerate(some):
        for node_number, node in enumerate(nodes_of(tree)):
            assert forest.text(number, node_number) == node.text


@given(trees())
def test_noun_phrases_are_the_highest_of_their_span_and_never_the_sentence(tree: Tree) -> None:
    forest = Forest.of([tree])
    every = nodes_of(tree)
    wanted: dict[tuple[int, int], int] = {}
    for number, node in enumerate(every):
        whole = (node.start, node.end) == (tree.start, tree.end)
        if node.label == "NP" and node.children and not whole:
            wanted.setdefault((node.start, node.end), number)
    assert forest.noun_phrases[0].tolist() == sorted(wanted.values())


@given(trees(), st.integers(0, 12), st.integers(1, 12))
def test_a_span_is_found_as_the_tree_itself_finds_it(tree: Tree, start: int, length: int) -> None:
    forest, every = Forest.of([tree]), nodes_of(tree)
    end = min(start + length, tree.end)
    if start >= end:
        return
    own = forest.spanning(0, start, end)
    expected = tree.spanning(start, end)
    assert (own is None) == (expected is None)
    assert own is None or every[own] is expected
    if own is None:
        assert every[forest.covering(0, start, end)] is (tree.covering(start, end, "NP") or tree)


def test_trees_may_be_taken_in_any_order_and_more_than_once() -> None:
    some = [read_tree("(S (NP (DT A) (NN dog)) (VP (VBZ runs)))"), WORD, CHAIN]
    batch = Forest.of(some).batch([2, 0, 0, 1])
    assert batch.roots.tolist() == [0, 401, 407, 413]
    assert sum(level.nodes for level in batch.levels) == 414


def test_degenerate_trees_have_levels_as_any() -> None:
    forest = Forest.of([WORD, phrase("", []), WIDE])
    assert forest.batch([0]).levels == (Level(0, 0, 1),)
    assert forest.batch([1]).levels == (Level(0, 0, 1),)
    assert forest.batch([1]).leaf_words.tolist() == [len(forest.words)]
    assert [level.nodes for level in forest.batch([2]).levels] == [300, 1]
    assert len(Forest.of([CHAIN]).batch([0]).levels) == 201
    assert forest.batch([]).levels == ()


def test_words_that_are_known_keep_their_numbers() -> None:
    forest = Forest.of([read_tree("(NP (DT a) (NN cat))")], words=("dog", "a"))
    assert forest.words == ("dog", "a", "cat")
    assert forest.batch([0]).words.tolist() == [1, 2]


def test_a_forest_that_is_saved_comes_back(tmp_path: Path) -> None:
    forest = Forest.of([read_tree("(S (NP (DT Ein) (NN Bär)) (VP (VBZ läuft)))"), WORD])
    forest.save(tmp_path / "trees.safetensors")
    again = Forest.load(tmp_path / "trees.safetensors")
    assert again.words == forest.words
    for name in ("starts", "parent", "word", "noun_phrase", "depth", "span"):
        np.testing.assert_array_equal(getattr(again, name), getattr(forest, name))


def test_what_is_no_forest_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="no such file"):
        Forest.load(tmp_path / "nothing")
    (tmp_path / "torn").write_bytes(b"\x00" * 20)
    with pytest.raises(DeixisError, match="torn"):
        Forest.load(tmp_path / "torn")
