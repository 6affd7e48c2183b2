"""A sentence is worked on at most once, and its phrases know their places and their nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deixis.language.sentence as module
from deixis.data.records import Caption, Mention
from deixis.data.scenes import make_scenes
from deixis.errors import DatasetError, DeixisError
from deixis.language.chunks import Chunker
from deixis.language.entity_types import EntityTypes
from deixis.language.parser import parse
from deixis.language.sentence import Phrase, Sentence, parse_together
from deixis.language.tagger import Tagger, tag
from deixis.tokens import tokenize, words

HATS = "A man in an orange hat pets his dog while they wait."
WITH_TREE = "(S (NP (DT A) (NN man) (CC and) (NN woman)) (VP (VBP run)))"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each kind of work was done."""
    counted: Counter[str] = Counter()

    def counting(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def counted_work(*arguments: Any, **named: Any) -> Any:
            counted[name] += 1
            return work(*arguments, **named)

        return counted_work

    for name in ("tokenize", "parse", "read_tree"):
        monkeypatch.setattr(module, name, counting(name, getattr(module, name)))
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


def test_nothing_is_done_before_it_is_asked_for(calls: Counter[str]) -> None:
    sentence = Sentence(HATS)
    assert repr(sentence) == f"Sentence({HATS!r})"
    assert not calls


def test_everything_is_done_once_however_often_it_is_asked_for(calls: Counter[str]) -> None:
    sentence = Sentence(HATS)
    for _ in range(3):
        take_everything(sentence)
    assert calls == {"tokenize": 1, "tag": 1, "chunks": 1, "types_of": len(sentence.chunks), "parse": 1}


def test_a_caption_brings_its_tokens_and_its_tree(calls: Counter[str]) -> None:
    caption = Caption.from_text("A man and woman run", tree=WITH_TREE)
    sentence = Sentence.of_caption(caption)
    take_everything(sentence)
    assert sentence.tokens is caption.tokens
    assert str(sentence.tree) == WITH_TREE
    assert calls == {"tag": 1, "chunks": 1, "types_of": len(sentence.chunks), "read_tree": 1}


def test_a_caption_without_a_tree_is_parsed_over_its_own_tokens(calls: Counter[str]) -> None:
    sentence = Sentence.of_caption(Caption.from_text(HATS))
    assert [leaf.word for leaf in sentence.tree.leaves()] == [token.text for token in tokenize(HATS)]
    assert calls == {"parse": 1}


def test_sentences_parsed_together_are_not_parsed_again(calls: Counter[str]) -> None:
    given, made = Sentence("A man and woman run", tree=WITH_TREE), Sentence("A dog runs.")
    kept = made.tree
    fresh = [Sentence(HATS), Sentence("A cat sleeps."), Sentence("")]
    assert [sentence.has_tree for sentence in (given, made, *fresh)] == [True, True, False, False, False]
    parse_together([given, made, *fresh])
    assert made.tree is kept
    assert str(given.tree) == WITH_TREE
    assert [sentence.tree for sentence in fresh] == [parse(sentence.text) for sentence in fresh]
    assert calls["parse"] == 1


def test_a_tree_of_other_words_is_one_clear_line() -> None:
    with pytest.raises(DatasetError, match="the tree of 'A dog': line 1, column 12: the word 'cat' where"):
        _ = Sentence("A dog", tree="(NP (DT A) (NN cat))").tree.label


def test_what_is_found_is_what_the_tagger_and_the_chunker_find_alone() -> None:
    sentence = Sentence(HATS)
    texts = [token.text for token in tokenize(HATS)]
    assert list(sentence.tags) == tag(texts)
    assert list(sentence.chunks) == Chunker.shipped().chunks(texts)
    assert HATS[slice(*Phrase(sentence, *sentence.chunks[-1]).span)] == "they"
    assert [phrase.text for phrase in sentence.phrases] == ["A man", "an orange hat", "his dog"]


def test_spans_count_code_points_of_the_sentence_as_given() -> None:
    text = "  🐕 A  café's\u200b dog"
    assert [Sentence(text).phrase(start, end).span for start, end in ((4, 5), (7, 11), (4, 18))] == [
        (4, 5),
        (7, 11),
        (4, 18),
    ]
    assert Sentence(text).whole.span == (2, 18)
    assert Sentence(text).whole.text == text.strip()


def test_a_phrase_takes_every_token_that_its_span_touches() -> None:
    assert Sentence("A black dog runs.").phrase(4, 9).text == "black dog"


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (-1, 3, "'A  dog': no code points from -1 to 3 in 6"),
        (2, 9, "'A  dog': no code points from 2 to 9 in 6"),
        (3, 2, "'A  dog': no code points from 3 to 2 in 6"),
        (1, 3, "'A  dog': no token from 1 to 3"),
    ],
)
def test_a_span_that_is_no_phrase_is_one_clear_line(start: int, end: int, message: str) -> None:
    with pytest.raises(DeixisError) as raised:
        Sentence("A  dog").phrase(start, end)
    assert str(raised.value) == message


def test_words_of_a_phrase_are_cut_and_spelled_as_in_its_sentence() -> None:
    sentence = Sentence('He can\'t hold (the "T-shirt").')
    assert list(sentence.words) == words(sentence.text)
    assert sentence.phrase(14, 29).words == ("-lrb-", "the", "t-shirt", "-rrb-")


def test_initials_keep_their_full_stop() -> None:
    sentence = Sentence("A man reads J. Smith.")
    assert sentence.words == ("a", "man", "reads", "j.", "smith")
    assert sentence.phrase(12, 20).words == ("j.", "smith")


def test_a_phrase_that_is_no_node_takes_the_smallest_noun_phrase_over_it() -> None:
    sentence = Sentence("A man and woman run", tree=WITH_TREE)
    man, woman, crossing = sentence.phrase(0, 5), sentence.phrase(10, 15), sentence.phrase(10, 19)
    assert (man.is_node, man.node.text) == (False, "A man and woman")
    assert (woman.is_node, str(woman.node)) == (True, "(NN woman)")
    assert (crossing.is_node, crossing.node) == (False, sentence.tree)


def test_the_phrase_over_it_must_be_a_noun_phrase() -> None:
    tree = "(S (NP (NP (NNS boys)) (VP (VBG riding) (PRT (RP around)) (NP (NNS bikes)))) (VP (VBP wave)))"
    riding = Sentence("boys riding around bikes wave", tree=tree).phrase(5, 18)
    assert (riding.text, riding.is_node, riding.node.text) == ("riding around", False, "boys riding around bikes")


def test_the_whole_sentence_is_the_root_whatever_has_the_same_words() -> None:
    sentence = Sentence("a dog", tree="(FRAG (NP (NP (DT a) (NN dog))))")
    assert sentence.whole.node is sentence.tree
    assert sentence.whole.is_node


def test_a_sentence_of_nothing_is_one_empty_phrase() -> None:
    nothing = Sentence(" \n")
    assert (nothing.whole.text, nothing.whole.span, nothing.whole.words) == ("", (0, 0), ())
    assert nothing.whole.node is nothing.tree
    assert nothing.phrases == nothing.chunks == nothing.tags == ()


def test_gold_mentions_of_made_up_scenes_become_phrases_that_are_nodes() -> None:
    for scene in make_scenes(20, seed=4, size=48, things=(1, 4)):
        for caption in scene.photo.captions:
            sentence = Sentence.of_caption(caption)
            for mention in caption.mentions:
                phrase = sentence.phrase_of(mention)
                assert (phrase.span, phrase.types) == ((mention.start, mention.end), mention.types)
                assert phrase.text == caption.phrase(mention)
                assert phrase.is_node
                assert phrase.node.label == "NP"


@settings(max_examples=60)
@given(st.text(max_size=60) | st.lists(st.sampled_from(HATS.split()), max_size=12).map(" ".join))
def test_any_text_has_phrases_inside_it_and_each_has_a_node_over_it(text: str) -> None:
    sentence = Sentence(text)
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


def test_a_mention_keeps_its_types() -> None:
    caption = Caption.from_text("A bus", (Mention(0, 5, "1", ("vehicles", "scene")),))
    assert Sentence.of_caption(caption).phrase_of(caption.mentions[0]).types == ("vehicles", "scene")
