"""A sentence is analysed at most once, and its phrases have spans and nodes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deixis.language.sentence as module
from deixis.data.records import ENTITY_TYPES, Caption
from deixis.errors import DatasetError, DeixisError
from deixis.language import parser, trees
from deixis.language.entity_types import EntityTypes
from deixis.language.parser import parse
from deixis.language.sentence import Phrase, Sentence, find_mentions, parents, parse_sentences
from deixis.language.tagger import MODELS, Chunker, Tagger, tag
from deixis.storage.artifacts import read_config
from deixis.tokens import tokenize, words

HATS = "A man in an orange hat pets his dog while they wait."
WITH_TREE = "(S (NP (DT A) (NN man) (CC and) (NN woman)) (VP (VBP run)))"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Number of calls of each analysis."""
    counted: Counter[str] = Counter()

    def counting(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def counted_work(*arguments: Any, **named: Any) -> Any:
            counted[name] += 1
            return work(*arguments, **named)

        return counted_work

    for owner, name in ((module, "tokenize"), (parser, "parse"), (trees, "read_tree")):
        monkeypatch.setattr(owner, name, counting(name, getattr(owner, name)))
    monkeypatch.setattr(Tagger, "tag", counting("tag", Tagger.tag))
    monkeypatch.setattr(Chunker, "chunks", counting("chunks", Chunker.chunks))
    monkeypatch.setattr(EntityTypes, "types_of", counting("types_of", EntityTypes.types_of))
    return counted


def take_everything(sentence: Sentence) -> None:
    for phrase in (*sentence.phrases, sentence.whole, sentence.phrase(0, 3)):
        assert phrase.words
        assert phrase.text
        assert phrase.node
    assert sentence.relations()
    assert sentence.words
    assert len(sentence.tags) == len(sentence.tokens)


def test_everything_is_computed_once(calls: Counter[str]) -> None:
    sentence = Sentence(HATS)
    for _ in range(3):
        take_everything(sentence)
    assert calls == {"tokenize": 1, "tag": 1, "chunks": 1, "types_of": len(sentence.chunks), "parse": 1}


def test_the_tokens_and_the_tree_of_a_caption_are_used(calls: Counter[str]) -> None:
    caption = Caption.from_text("A man and woman run", tree=WITH_TREE)
    sentence = Sentence.from_caption(caption)
    take_everything(sentence)
    assert sentence.tokens is caption.tokens
    assert str(sentence.tree) == WITH_TREE
    assert calls == {"tag": 1, "chunks": 1, "types_of": len(sentence.chunks), "read_tree": 1}


def test_a_caption_without_a_tree_is_parsed_over_its_own_tokens(calls: Counter[str]) -> None:
    sentence = Sentence.from_caption(Caption.from_text(HATS))
    assert [leaf.word for leaf in sentence.tree.leaves()] == [token.text for token in tokenize(HATS)]
    assert calls == {"parse": 1}


def test_sentences_parsed_in_a_batch_are_not_parsed_again(calls: Counter[str]) -> None:
    with_tree, parsed = Sentence("A man and woman run", tree=WITH_TREE), Sentence("A dog runs.")
    kept = parsed.tree
    fresh = [Sentence(HATS), Sentence("A cat sleeps."), Sentence("")]
    assert [sentence.has_tree for sentence in (with_tree, parsed, *fresh)] == [True, True, False, False, False]
    parse_sentences([with_tree, parsed, *fresh])
    assert parsed.tree is kept
    assert str(with_tree.tree) == WITH_TREE
    assert [sentence.tree for sentence in fresh] == [parse(sentence.text) for sentence in fresh]
    assert calls["parse"] == 1


def test_a_tree_with_other_words_is_an_error() -> None:
    with pytest.raises(DatasetError, match="'A dog': line 1, column 12: .*'cat'"):
        _ = Sentence("A dog", tree="(NP (DT A) (NN cat))").tree.label


def test_tags_and_chunks_equal_those_of_the_tagger_and_the_chunker() -> None:
    sentence = Sentence(HATS)
    texts = [token.text for token in tokenize(HATS)]
    assert list(sentence.tags) == tag(texts)
    assert list(sentence.chunks) == Chunker.shipped().chunks(texts)
    assert HATS[slice(*Phrase(sentence, *sentence.chunks[-1]).span)] == "they"
    assert [phrase.text for phrase in sentence.phrases] == ["A man", "an orange hat", "his dog"]


def test_spans_are_in_code_points_of_the_sentence() -> None:
    text = "  🐕 A  café's\u200b dog"
    assert [Sentence(text).phrase(start, end).span for start, end in ((4, 5), (7, 11), (4, 18))] == [
        (4, 5),
        (7, 11),
        (4, 18),
    ]
    assert Sentence(text).whole.span == (2, 18)
    assert Sentence(text).whole.text == text.strip()
    assert Sentence("A black dog runs.").phrase(4, 9).text == "black dog"  # every token that the span overlaps


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (2, 9), (3, 2), (1, 3)])
def test_an_invalid_span_is_an_error(start: int, end: int) -> None:
    with pytest.raises(DeixisError, match=f"'A  dog': .*{start} to {end}"):
        Sentence("A  dog").phrase(start, end)


def test_the_words_of_a_phrase_are_tokenized_as_in_its_sentence() -> None:
    sentence = Sentence('He can\'t hold (the "T-shirt").')
    assert list(sentence.words) == words(sentence.text)
    assert sentence.phrase(14, 29).words == ("-lrb-", "the", "t-shirt", "-rrb-")


def test_a_phrase_that_is_not_a_node_uses_the_smallest_covering_noun_phrase() -> None:
    sentence = Sentence("A man and woman run", tree=WITH_TREE)
    man, woman, crossing = sentence.phrase(0, 5), sentence.phrase(10, 15), sentence.phrase(10, 19)
    assert (man.is_node, man.node.text) == (False, "A man and woman")
    assert (woman.is_node, str(woman.node)) == (True, "(NN woman)")
    assert (crossing.is_node, crossing.node) == (False, sentence.tree)


def test_the_covering_phrase_must_be_a_noun_phrase() -> None:
    tree = "(S (NP (NP (NNS boys)) (VP (VBG riding) (PRT (RP around)) (NP (NNS bikes)))) (VP (VBP wave)))"
    riding = Sentence("boys riding around bikes wave", tree=tree).phrase(5, 18)
    assert (riding.text, riding.is_node, riding.node.text) == ("riding around", False, "boys riding around bikes")


def test_the_node_of_the_sentence_is_the_root() -> None:
    sentence = Sentence("a dog", tree="(FRAG (NP (NP (DT a) (NN dog))))")
    assert sentence.whole.node is sentence.tree
    assert sentence.whole.is_node


def test_an_empty_sentence_is_one_empty_phrase() -> None:
    nothing = Sentence(" \n")
    assert (nothing.whole.text, nothing.whole.span, nothing.whole.words) == ("", (0, 0), ())
    assert nothing.whole.node is nothing.tree
    assert nothing.phrases == nothing.chunks == nothing.tags == ()


@settings(max_examples=60)
@given(st.text(max_size=60) | st.lists(st.sampled_from([*HATS.split(), "😀", "\u200b", ""]), max_size=12).map(" ".join))
def test_the_phrases_of_any_text_are_inside_it_in_order_and_have_types_and_a_node(text: str) -> None:
    sentence = Sentence(text)
    edges = [edge for phrase in sentence.phrases for edge in phrase.span]
    assert edges == sorted(edges)
    for phrase in sentence.phrases:
        assert phrase.text == phrase.text.strip() != ""
        assert phrase.types
        assert set(phrase.types) <= set(ENTITY_TYPES)
    for phrase in (*sentence.phrases, sentence.whole):
        start, end = phrase.span
        assert phrase.text == text[start:end]
        assert phrase.node.start <= phrase.start <= phrase.end <= phrase.node.end
        assert phrase.is_node == ((phrase.node.start, phrase.node.end) == (phrase.start, phrase.end))


def test_equal_sentences_have_equal_phrases() -> None:
    assert Sentence("A dog").whole == Sentence("A dog").whole
    assert len({Sentence("A dog").whole, Sentence("A dog").whole}) == 1
    assert Sentence("A dog") != Sentence("A cat")
    assert Sentence("A dog") != Sentence("A dog", tree="(NP (DT A) (NN dog))")
    assert Sentence("A dog") != "A dog"


def phrases(text: str) -> list[str]:
    return [found.text for found in find_mentions(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A dog, a cat and a man's hat.", ["A dog", "a cat", "a man's hat"]),
        ("A dog , a cat and a man 's hat .", ["A dog", "a cat", "a man 's hat"]),
        ("Two men in orange hats are playing guitars.", ["Two men", "orange hats", "guitars"]),
        ("  A girl\tis jumping   into the pool", ["A girl", "the pool"]),
        ("", []),
    ],
)
def test_phrases_are_found_in_raw_and_in_tokenized_captions(text: str, found: list[str]) -> None:
    assert phrases(text) == found


def test_pronouns_and_non_visual_words_are_left_out() -> None:
    assert phrases("She shows him a ball while they jump in the air .") == ["a ball"]
    assert phrases("A man stands in front of it with trees in the background .") == ["A man", "trees"]


def test_a_colour_that_is_worn_is_clothing() -> None:
    text = "A woman in dark blue talks to a man in red ."
    assert [(found.text, found.types) for found in find_mentions(text)] == [
        ("A woman", ("people",)),
        ("dark blue", ("clothing",)),
        ("a man", ("people",)),
        ("red", ("clothing",)),
    ]


@pytest.mark.parametrize("name", ["tagger", "chunker", "entity_types"])
def test_the_training_data_of_the_shipped_models_has_no_photo_of_dev(name: str, real_data: Path) -> None:
    learned = (real_data / "flickr30k_entities" / "train.txt").read_text().split()
    dev = {line.split("_")[0] for line in (real_data / "flickr8k" / "Flickr_8k.devImages.txt").read_text().split()}
    assert len(dev) == 1000
    assert not dev & set(learned)
    digest = hashlib.sha256("\n".join(sorted(learned)).encode()).hexdigest()
    assert read_config(MODELS / name)["provenance"]["caption_ids"] == {"count": len(learned), "sha256": digest}


def test_models_are_loaded_on_first_use() -> None:
    code = (
        "import sys, deixis.language.sentence as m, deixis.language.tagger as c, deixis.language.entity_types as e\n"
        "assert c.Chunker.shipped.cache_info().currsize == e.EntityTypes.shipped.cache_info().currsize == 0\n"
        "assert not {'torch', 'spacy', 'scipy'} & set(sys.modules)\n"
        "assert m.find_mentions('A dog runs.')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("A man in a red hat holds a guitar.", ["A man in a red hat", "A man", "a red hat", "a guitar"]),
        (
            "Two people sitting on chairs on the deck .",
            ["Two people sitting on chairs on the deck", "Two people", "chairs", "the deck"],
        ),
        ("Dogs run.", ["Dogs"]),
        ("Quickly!", []),
    ],
)
def test_nested_phrases_are_the_phrases_and_the_longer_ones_around_them(text: str, phrases: list[str]) -> None:
    sentence = Sentence(text)
    assert [phrase.text for phrase in sentence.nested_phrases] == phrases
    assert set(sentence.phrases) <= set(sentence.nested_phrases)
    by_start = {phrase.start: phrase.types for phrase in sentence.phrases}
    assert all(phrase.types == by_start[phrase.start] for phrase in sentence.nested_phrases)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 12)), max_size=8))
def test_the_parent_of_a_span_is_the_smallest_longer_one_around_it(pairs: list[tuple[int, int]]) -> None:
    spans = [(start, start + length) for start, length in pairs]
    for (start, end), parent in zip(spans, parents(spans), strict=True):
        around = [
            other[1] - other[0] for other in spans if other[0] <= start and end <= other[1] and other != (start, end)
        ]
        if parent is None:
            assert not around
        else:
            assert spans[parent][0] <= start
            assert end <= spans[parent][1]
            assert spans[parent][1] - spans[parent][0] == min(around)
