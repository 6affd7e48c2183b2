"""The parser: any input has a tree, the chart is exact, and the training data has no photo of dev."""

from __future__ import annotations

import hashlib
import shutil
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parseval import bracket_scores, caption_scores, read_caption_trees, sentence_roots
from treebank import read_treebank

from deixis.errors import DeixisError
from deixis.language.parser import SHIPPED, Parser, SpanScores, _best_trees, all_spans, parse
from deixis.language.trees import Tree, read_tree
from deixis.storage.artifacts import WEIGHTS, read_config
from deixis.tokens import tokenize
from tests.scenes import make_scene


def is_whole(tree: Tree, words: list[str]) -> bool:
    """Whether the tree has the words in order and every node spans its children."""
    fits = all(not n.children or (n.start, n.end) == (n.children[0].start, n.children[-1].end) for n in tree.nodes())
    return fits and tree.words() == words


@pytest.mark.parametrize("text", ["", "dog", ".", "🐕 🐈 🏠", "((( )", "Ein Hund läuft.", "一只狗", "x. " * 700])
def test_any_text_has_a_tree_over_all_its_tokens(text: str) -> None:
    tree = parse(text)
    assert is_whole(tree, [token.text for token in tokenize(text)])
    assert not tree.is_leaf


@settings(max_examples=50)
@given(st.text(max_size=80))
def test_every_text_can_be_parsed(text: str) -> None:
    assert is_whole(parse(text), [token.text for token in tokenize(text)])


def test_text_tokens_and_words_are_accepted() -> None:
    sentence = "A man's dog runs."
    by_text = parse(sentence)
    assert parse(tokenize(sentence)) == by_text
    assert str(parse([token.text for token in tokenize(sentence)])) == str(by_text)
    assert [sentence[leaf.char_start : leaf.char_end] for leaf in by_text.leaves()] == by_text.words()


def test_batches_give_the_same_trees_as_single_sentences() -> None:
    rng = np.random.default_rng(6)
    captions = [caption.text for _ in range(12) for caption in make_scene("scene", rng)[1].captions]
    texts = ["", *captions, "dog", "the " * 150, "the " * 300, *captions[:3]]
    assert Parser.shipped().parse_all(texts) == [parse(text) for text in texts]


@pytest.mark.parametrize(
    "tree",
    [
        "(S (NP (DT A) (NN dog)) (VP (VBZ runs)) (. .))",
        "(S (NP (DT A) (NN man)) (VP (VBZ is) (VP (VBG holding) (NP (DT a) (JJ red) (NN ball)))) (. .))",
        "(NP (NP (CD Two) (NNS dogs)) (PP (IN in) (NP (DT the) (NN snow))) (. .))",
        "(S (NP (DT A) (NN cat)) (VP (VBD sat) (PP (IN on) (NP (DT a) (NN mat)))) (. .))",
    ],
)
def test_simple_captions_are_parsed_correctly(tree: str) -> None:
    assert str(parse(read_tree(tree).words())) == tree


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_the_chart_finds_the_best_of_all_trees(count: int) -> None:
    two_sentences = np.random.default_rng(count).normal(size=(2, count * (count + 1) // 2, 3)).astype(np.float32)
    two_sentences[..., 0] = 0
    scores = np.zeros((count + 1, count + 1, 3))
    scores[all_spans(count)] = two_sentences[1]

    def own(start: int, end: int) -> float:
        return float(scores[start, end, 1:].max() if (start, end) == (0, count) else scores[start, end].max())

    @lru_cache
    def best(start: int, end: int) -> float:
        inside = max((best(start, k) + best(k, end) for k in range(start + 1, end)), default=0.0)
        return own(start, end) + inside

    def of_chart(start: int, end: int) -> float:
        below = of_chart(start, splits[start, end]) + of_chart(splits[start, end], end) if end - start > 1 else 0.0
        return float(scores[start, end, labels[start, end]]) + below

    labels, splits = (of_both[1] for of_both in _best_trees(two_sentences, count))
    assert labels[0, count] != 0
    assert of_chart(0, count) == pytest.approx(best(0, count), abs=1e-4)


def test_the_network_agrees_with_a_plain_loop_over_cells() -> None:
    scores = SpanScores.load(SHIPPED)
    layer = scores._layers[0]
    two_sentences = np.random.default_rng(0).normal(size=(2, 5, layer.from_input.shape[1])).astype(np.float32)
    inputs, known = two_sentences[1], layer(two_sentences)[1]
    size = layer.from_state.shape[1]
    for direction, order in enumerate(([0, 1, 2, 3, 4], [4, 3, 2, 1, 0])):
        state, cell = np.zeros(size), np.zeros(size)
        for at in order:
            gates = (
                inputs[at] @ layer.from_input[direction]
                + state @ layer.from_state[direction]
                + layer.bias[direction, 0]
            )
            # The weights of the first three gates are halved on loading.
            input_gate, forget_gate, output_gate = (
                1 / (1 + np.exp(-2 * gates[i * size : (i + 1) * size])) for i in range(3)
            )
            cell = forget_gate * cell + input_gate * np.tanh(gates[3 * size :])
            state = output_gate * np.tanh(cell)
            assert known[at, direction * size : (direction + 1) * size] == pytest.approx(state, abs=1e-4)


def test_a_missing_or_damaged_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="parser"):
        SpanScores.load(tmp_path / "parser")
    shutil.copytree(SHIPPED, tmp_path / "parser")
    (tmp_path / "parser" / WEIGHTS).write_bytes((SHIPPED / WEIGHTS).read_bytes()[:-1])
    with pytest.raises(DeixisError, match=WEIGHTS):
        SpanScores.load(tmp_path / "parser")
    (tmp_path / "parser" / WEIGHTS).unlink()
    with pytest.raises(DeixisError, match="parser"):
        SpanScores.load(tmp_path / "parser")


def test_the_training_data_has_no_photo_of_dev(real_data: Path) -> None:
    about = read_config(SHIPPED)["provenance"]
    dev = (real_data / "flickr8k" / "Flickr_8k.devImages.txt").read_text().split()
    learned = sorted((real_data / "flickr30k_entities" / "train.txt").read_text().split())
    assert about["sha256_of_photos"] == hashlib.sha256("\n".join(learned).encode()).hexdigest()
    assert about["photos"] == len(learned)
    assert not set(learned) & {name.split("_")[0] for name in dev}


def test_held_out_newspaper_text_is_parsed_well_enough(real_data: Path) -> None:
    gold = read_treebank(real_data / "nltk" / "treebank.zip", held_out=True)[::5]
    parser = Parser.shipped()
    assert bracket_scores(gold, [parser.parse(tree.words()) for tree in gold]).f1 > 0.78


def test_phrases_and_roots_of_captions_checked_by_hand_are_found() -> None:
    gold = read_caption_trees()
    found = Parser.shipped().parse_all([tree.words() for tree in gold])
    assert caption_scores(gold, found).f1 > 0.965
    sentences, fragments = sentence_roots(gold, found)
    assert sentences >= 0.95
    assert fragments >= 0.94
