"""Trees: reading and writing brackets, spans, and malformed text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DatasetError
from deixis.language.trees import Tree, leaf, phrase, read_tree, read_trees
from deixis.tokens import Token, tokenize

DOG = "(S (NP (DT A) (NN dog)) (VP (VBZ runs)) (. .))"

LABELS = st.sampled_from(["NP", "VP", "S", "PP", "NP-SBJ"])
WORDS = st.text(
    st.characters(blacklist_categories=["Cc", "Cs", "Z"], blacklist_characters="-\\"), min_size=1, max_size=5
)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """A tree of a few words, built by joining adjacent nodes."""
    words = draw(st.lists(WORDS.filter(lambda word: not any(c.isspace() for c in word)), min_size=1, max_size=8))
    places = [sum(len(word) + 1 for word in words[:i]) for i in range(len(words))]
    nodes = [leaf("NN", Token(w, p, p + len(w)), i) for i, (w, p) in enumerate(zip(words, places, strict=True))]
    while len(nodes) > 1 or nodes[0].is_leaf:
        first = draw(st.integers(0, len(nodes) - 1))
        last = draw(st.integers(first + 1, len(nodes)))
        nodes[first:last] = [phrase(draw(LABELS), nodes[first:last])]
        if len(nodes) > 1 and last - first == 1:
            nodes = [phrase("S", nodes)]
    return nodes[0]


@given(trees())
def test_a_tree_round_trips(tree: Tree) -> None:
    assert read_tree(str(tree)) == tree
    assert hash(read_tree(str(tree))) == hash(tree)


def test_trees_that_differ_in_one_label_word_or_bracket_are_not_equal() -> None:
    others = [
        DOG.replace("VP", "NP"),
        DOG.replace("runs", "sits"),
        "(S (NP (DT A) (NN dog)) (VBZ runs) (. .))",
        "(S (NP (DT A) (NN dog)) (VP (VBZ runs)))",
    ]
    assert all(read_tree(other) != read_tree(DOG) for other in others)
    assert read_tree(DOG) != DOG


def test_every_node_has_its_token_and_character_spans() -> None:
    tree = read_tree(DOG)
    sentence = "A dog runs ."
    for node in tree.nodes():
        assert sentence[node.char_start : node.char_end] == node.text
        assert sentence.split()[node.start : node.end] == node.words()


def test_character_spans_refer_to_the_sentence_if_tokens_are_passed() -> None:
    sentence = "A  dog runs."
    tree = read_tree(DOG, tokenize(sentence))
    assert [sentence[node.char_start : node.char_end] for node in tree.children] == ["A  dog", "runs", "."]


def test_brackets_and_slashes_in_words_are_escaped_and_unescaped() -> None:
    tree = read_tree(r"(NP (-LRB- -LRB-) (CD 1\/2) (NN :-RRB-) (-RSB- -RSB-))")
    assert tree.words() == ["(", "1/2", ":)", "]"]
    assert str(tree) == "(NP (-LRB- -LRB-) (CD 1/2) (NN :-RRB-) (-RSB- -RSB-))"


def test_empty_brackets_are_an_empty_tree() -> None:
    assert read_tree("()").words() == []
    assert str(read_tree("()")) == "()"
    assert read_trees("  \n ") == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("(S (NP (NN dog))\n (VP", "x.mrg: line 2, column 2:"),
        ("(NP (NN dog)))", "x.mrg: line 1, column 14:"),
        ("(NP (NN dog)) cat", "x.mrg: line 1, column 15:"),
        ("(NP (NN a dog))", "x.mrg: line 1, column 11:"),
        ("(NP (NN dog) cat)", "x.mrg: line 1, column 14:"),
        ("(NP a\n(NN dog))", "x.mrg: line 2, column 1:"),
        ("(NP (NN))", "x.mrg: line 1, column 5:"),
    ],
)
def test_malformed_text_is_reported_with_line_and_column(text: str, place: str) -> None:
    with pytest.raises(DatasetError, match=f"^{place}"):
        read_trees(text, name="x.mrg")


def test_spans_of_each_tree_start_at_zero() -> None:
    first, second = read_trees(DOG + "\n" + DOG)
    assert first == second
    assert (second.start, second.char_start) == (0, 0)


def test_words_that_are_not_the_tokens_are_an_error() -> None:
    with pytest.raises(DatasetError, match="'runs'.*'sits'"):
        read_tree(DOG, tokenize("A dog sits."))
    with pytest.raises(DatasetError, match="after the last token"):
        read_tree(DOG, tokenize("A dog runs"))
    with pytest.raises(DatasetError, match="4 words for the 5 tokens"):
        read_tree(DOG, tokenize("A dog runs. Yes"))
    with pytest.raises(DatasetError, match="2 trees"):
        read_tree(DOG + DOG)


def test_deep_and_wide_trees_are_read_written_and_compared() -> None:
    deep = "(NP " * 20_000 + "(NN dog)" + ")" * 20_000
    wide = "(NP" + " (NN dog)" * 20_000 + ")"
    for text in (deep, wide):
        tree = read_tree(text)
        assert str(tree) == text
        assert tree == read_tree(text)
        assert tree.covering(0, 1) is not None


def test_covering_returns_the_smallest_phrase() -> None:
    tree = read_tree("(S (NP (NP (DT A) (NN dog)) (PP (IN in) (NP (NN snow)))) (VP (VBZ runs)))")
    assert [str(found and found.text) for found in (tree.covering(0, 2), tree.covering(1, 3), tree.covering(3, 5))] == [
        "A dog",
        "A dog in snow",
        "A dog in snow runs",
    ]
    assert tree.covering(3, 5, "NP") is None
    assert tree.covering(0, 9) is None


def test_spanning_returns_the_highest_exact_node() -> None:
    tree = read_tree("(S (NP (NP (DT A) (NN dog)) (CC and) (NN cat)) (S (VP (VBP run))))")
    spans = [(0, 5), (0, 2), (3, 4), (4, 5), (0, 3), (1, 9), (5, 5)]
    assert [str(found) if (found := tree.spanning(*span)) else None for span in spans] == [
        str(tree),
        "(NP (DT A) (NN dog))",
        "(NN cat)",
        "(S (VP (VBP run)))",
        None,
        None,
        None,
    ]


def test_nodes_of_a_phrase_must_be_adjacent() -> None:
    first, second = leaf("DT", Token("a", 0, 1), 0), leaf("NN", Token("dog", 6, 9), 2)
    with pytest.raises(ValueError, match="adjacent"):
        phrase("NP", [first, second])
