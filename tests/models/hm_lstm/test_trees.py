"""Trees as arrays, compared with the trees themselves, and the cache of parsed sentences."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.language.sentence import Sentence
from deixis.language.trees import Tree, phrase, read_tree
from deixis.models.hm_lstm import trees as trees_module
from deixis.models.hm_lstm.trees import Forest, Level, parse_forest
from tests.models.hm_lstm.made_trees import CHAIN, WIDE, WORD, trees


def nodes_of(tree: Tree) -> list[Tree]:
    return list(tree.nodes())


def assert_same(one: Forest, other: Forest) -> None:
    for field in fields(Forest):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), err_msg=field.name)


@given(st.lists(trees(), min_size=1, max_size=6))
def test_a_batch_holds_each_node_once_and_children_one_level_below_their_parent(some: list[Tree]) -> None:
    batch = Forest.from_trees(some).batch(range(len(some)))
    every = [node for tree in some for node in nodes_of(tree)]
    assert sorted(batch.position.tolist()) == list(range(len(every)))

    at = dict(zip(batch.position.tolist(), every, strict=True))
    begin = 0
    for number, level in enumerate(batch.levels):
        nodes = [at[begin + index] for index in range(level.nodes)]
        assert [bool(node.children) for node in nodes] == [True] * level.inner + [False] * level.leaves
        is_np = [node.label == "NP" for node in nodes[: level.inner]]
        assert is_np == [True] * level.noun_phrases + [False] * level.others
        if number + 1 < len(batch.levels):
            above = begin + level.nodes
            for index, node in enumerate(nodes):
                parent = at[above + int(batch.parent[begin + index])]
                assert any(child is node for child in parent.children)
        begin += level.nodes
    assert [at[int(batch.position[root])] for root in batch.roots] == some


@given(st.lists(trees(), min_size=1, max_size=4))
def test_words_are_in_sentence_order_for_each_node(some: list[Tree]) -> None:
    forest = Forest.from_trees(some)
    batch = forest.batch(range(len(some)))
    words = [*forest.words, None]
    every = [node for tree in some for node in nodes_of(tree)]
    for node, (start, end) in zip(every, batch.spans.tolist(), strict=True):
        assert [words[word] for word in batch.words[start:end]] == node.words()
    for number, tree in enumerate(some):
        for node_number, node in enumerate(nodes_of(tree)):
            assert forest.text(number, node_number) == node.text


@given(trees())
def test_noun_phrases_are_the_highest_node_of_a_span_and_exclude_the_sentence(tree: Tree) -> None:
    forest = Forest.from_trees([tree])
    every = nodes_of(tree)
    expected: dict[tuple[int, int], int] = {}
    for number, node in enumerate(every):
        whole = (node.start, node.end) == (tree.start, tree.end)
        if node.label == "NP" and node.children and not whole:
            expected.setdefault((node.start, node.end), number)
    assert forest.noun_phrases[0].tolist() == sorted(expected.values())


@given(trees(), st.integers(0, 12), st.integers(1, 12))
def test_nodes_are_found_by_span_like_in_the_tree(tree: Tree, start: int, length: int) -> None:
    forest, every = Forest.from_trees([tree]), nodes_of(tree)
    end = min(start + length, tree.end)
    if start >= end:
        return
    own = forest.find_node(0, start, end)
    expected = tree.spanning(start, end)
    assert (own is None) == (expected is None)
    assert own is None or every[own] is expected
    if own is None:
        assert every[forest.find_covering_node(0, start, end)] is (tree.covering(start, end, "NP") or tree)


def test_trees_can_be_selected_in_any_order_and_repeatedly() -> None:
    some = [read_tree("(S (NP (DT A) (NN dog)) (VP (VBZ runs)))"), WORD, CHAIN]
    batch = Forest.from_trees(some).batch([2, 0, 0, 1])
    assert batch.roots.tolist() == [0, 401, 407, 413]
    assert sum(level.nodes for level in batch.levels) == 414


def test_degenerate_trees_have_levels() -> None:
    forest = Forest.from_trees([WORD, phrase("", []), WIDE])
    assert forest.batch([0]).levels == (Level(0, 0, 1),)
    assert forest.batch([1]).levels == (Level(0, 0, 1),)
    assert forest.batch([1]).leaf_words.tolist() == [len(forest.words)]
    assert [level.nodes for level in forest.batch([2]).levels] == [300, 1]
    assert len(Forest.from_trees([CHAIN]).batch([0]).levels) == 201
    assert forest.batch([]).levels == ()


def test_a_forest_survives_saving_and_loading(tmp_path: Path) -> None:
    forest = Forest.from_trees([read_tree("(S (NP (DT Ein) (NN Bär)) (VP (VBZ läuft)))"), WORD])
    forest.save(tmp_path / "trees")
    again = Forest.load(tmp_path / "trees")
    assert_same(again, forest)


TEXTS = ["A dog runs.", "Two men in the snow"]


def sentences(*texts: str) -> list[Sentence]:
    return [Sentence(text) for text in texts]


def test_parsed_sentences_are_read_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = parse_forest(sentences(*TEXTS), tmp_path / "cache")
    monkeypatch.setattr(trees_module, "parse_sentences", lambda *_: pytest.fail("parsed again"))
    assert_same(parse_forest(sentences(*TEXTS), tmp_path / "cache"), first)


def test_other_sentences_are_parsed_again_and_those_with_a_tree_keep_it(tmp_path: Path) -> None:
    for texts in (TEXTS, reversed(TEXTS), TEXTS[:1]):
        parse_forest(sentences(*texts), tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    own = "(X (NP (DT A) (NN dog) (VBZ runs)) (. .))"
    forest = parse_forest([Sentence(TEXTS[0], tree=own)], tmp_path)
    assert forest.text(0, 1) == "A dog runs"
    assert parse_forest(sentences(TEXTS[0]), tmp_path).text(0, 1) == "A dog"


def test_interrupted_parsing_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*TEXTS, "A cat sleeps.", "Snow", ""]
    whole = parse_forest(sentences(*texts), tmp_path / "whole")
    monkeypatch.setattr(trees_module, "SENTENCES_PER_ARTIFACT", 2)

    class Killed(BaseException):
        pass

    def kill(description: str, done: int, total: int | None) -> None:
        if done == 4:
            raise Killed

    with pytest.raises(Killed):
        parse_forest(sentences(*texts), tmp_path / "broken", kill)
    reported: list[int] = []
    again = parse_forest(sentences(*texts), tmp_path / "broken", lambda description, done, total: reported.append(done))
    assert reported == [5]
    assert_same(again, whole)
