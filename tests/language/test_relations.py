"""Relations from trees written by hand and from trees of the parser."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.data.records import Mention
from deixis.language.parser import parse
from deixis.language.relations import relations
from deixis.language.trees import read_tree

DOG = """
(NP (NP (DT a) (NN dog)) (PP (IN in) (NP (DT a) (NN field)))
    (VP (VBG barking) (PP (IN at) (NP (DT a) (NN cat)))))"""

BY_HAND = {
    DOG: "a dog|in|a field; a dog|barking; a dog|barking at|a cat",
    "(S (NP (DT A) (NN man)) (VP (VBZ holds) (NP (DT a) (NN guitar))) (. .))": "A man|holds; A man|holds|a guitar",
    # Forms of be are not part of a relation.
    "(S (NP (DT A) (NN dog)) (VP (VBZ is) (VP (VBG running) (PP (IN through) (NP (NN snow))))))": (
        "A dog|running; A dog|running through|snow"
    ),
    "(S (NP (DT A) (NN circle)) (VP (VBZ is) (PP (IN above) (NP (DT a) (NN square)))))": "A circle|above|a square",
    "(S (NP (DT This)) (VP (VBZ is) (NP (DT a) (NN dog))))": "",
    # The subject may be outside a relative clause or an infinitive.
    "(NP (NP (DT A) (NN boy)) (SBAR (WHNP (WP who)) (S (VP (VBZ wears) (NP (DT a) (NN hat))))))": (
        "A boy|wears; A boy|wears|a hat"
    ),
    "(S (NP (DT A) (NN dog)) (VP (VBZ tries) (S (VP (TO to) (VP (VB catch) (NP (DT a) (NN ball)))))))": (
        "A dog|tries; A dog|tries to catch; A dog|tries to catch|a ball"
    ),
    "(S (NP (DT A) (NN man)) (VP (VBZ stands) (S (VP (VBG holding) (NP (DT a) (NN cup))))))": (
        "A man|stands; A man|holding; A man|holding|a cup"
    ),
    # Coordination: one entity on the left, one for each part on the right.
    """(S (NP (NP (DT A) (NN man)) (CC and) (NP (DT a) (NN woman)))
          (VP (VBP wear) (NP (NP (JJ red) (NNS hats)) (CC and) (NP (JJ blue) (NNS coats)))))""": (
        "A man and a woman|wear; A man and a woman|wear|red hats; A man and a woman|wear|blue coats"
    ),
    """(S (NP (NNP Anna)) (VP (VP (VBZ sits) (PP (IN on) (NP (DT a) (NN bench))))
          (CC and) (VP (VBZ reads) (NP (DT a) (NN book)))))""": (
        "Anna|sits; Anna|sits on|a bench; Anna|reads; Anna|reads|a book"
    ),
    """(NP (NP (DT a) (NN bowl))
           (PP (PP (IN on) (NP (DT a) (NN table))) (CC and) (PP (IN near) (NP (DT a) (NN cup)))))""": (
        "a bowl|on|a table; a bowl|near|a cup"
    ),
    # An of phrase belongs to its noun; location nouns belong to the relation.
    """(NP (NP (NP (DT A) (NN group)) (PP (IN of) (NP (NNS people))))
           (PP (IN in) (NP (NP (NN front)) (PP (IN of) (NP (DT a) (NN house))))))""": (
        "A group of people|in front of|a house"
    ),
    """(S (NP (DT A) (NN cat)) (VP (VBZ lies) (ADVP (RB next) (PP (TO to) (NP (DT a) (NN cup) (. .))))))""": (
        "A cat|lies; A cat|lies next to|a cup"
    ),
    "(S (NP (DT A) (NN girl)) (VP (VBZ picks) (PRT (RP up)) (NP (DT a) (NN shell))))": (
        "A girl|picks up; A girl|picks up|a shell"
    ),
    """(S (NP (DT A) (NN woman)) (VP (VBZ holds) (NP (DT a) (NN cup)) (PP (IN in) (NP (PRP$ her) (NN hand)))))""": (
        "A woman|holds; A woman|holds|a cup; A woman|holds in|her hand"
    ),
    # "There" is no entity; inverted sentences have their subject on the right.
    "(S (NP (EX There)) (VP (VBZ is) (NP (NP (DT a) (NN dog)) (PP (IN in) (NP (NN snow))))))": "a dog|in|snow",
    "(S (NP (EX There)) (VP (VBZ is) (NP (DT a) (NN dog)) (PP (IN in) (NP (NN snow)))))": "a dog|in|snow",
    "(SINV (PP (IN On) (NP (DT the) (NN left))) (VP (VBZ is)) (NP (DT a) (NN star)))": "a star|On|the left",
    "(NP (NP (NP (DT the) (NN man) (POS 's)) (NN hat)) (PP (IN on) (NP (DT a) (NN chair))))": (
        "the man 's hat|on|a chair"
    ),
    "(NP (NP (DT a) (NN ball)) (VP (VBN thrown) (PP (IN by) (NP (DT a) (NN boy)))))": (
        "a ball|thrown; a ball|thrown by|a boy"
    ),
    # Wrong tags and misplaced conjunctions are tolerated.
    "(NP (NP (DT a) (NN dog)) (VP (NN wrestling) (PP (IN in) (NP (NN grass)))))": (
        "a dog|wrestling; a dog|wrestling in|grass"
    ),
    "(NP (NP (DT a) (NN boat)) (CC and) (VP (VBG rowing)))": "a boat|rowing",
    "(NP (NP (DT a) (NN man)) (CC and) (NP (DT a) (NN woman)) (PP (IN in) (NP (NNS hats))))": (
        "a man and a woman|in|hats"
    ),
    "(NP (NN dog))": "",
    "()": "",
}


@pytest.mark.parametrize(("tree", "expected"), BY_HAND.items())
def test_relations_of_captions_are_correct(tree: str, expected: str) -> None:
    found = ["|".join(part.text for part in relation.parts) for relation in relations(read_tree(tree))]
    assert sorted(found) == sorted(expected.split("; ") if expected else [])


@given(
    st.lists(
        st.sampled_from(
            ["a", "dog", ",", "and", "of", "in", "front", "is", "running", "to", "catch", ".", "there", "who", "'s"]
        ),
        max_size=14,
    )
)
def test_relations_of_any_tree_do_not_fail(words: list[str]) -> None:
    for relation in relations(parse(words)):
        assert relation.text


def test_spans_refer_to_the_sentence() -> None:
    sentence = "a dog in a field barking at a cat"
    for relation in relations(parse(sentence)):
        for part in relation.parts:
            assert sentence[part.tokens[0].start : part.tokens[-1].end] == part.text
            assert sentence.split()[part.start : part.end] == [token.text for token in part.tokens]


def test_with_mentions_the_entities_are_the_mentions_inside() -> None:
    dog, cat = Mention(0, 5, "1", ("animals",)), Mention(28, 33, "2", ("animals",))
    found = relations(read_tree(DOG), [dog, cat])
    assert [(relation.text, relation.mentions) for relation in found] == [
        ("a dog barking", (dog,)),
        ("a dog barking at a cat", (dog, cat)),
    ]


def test_a_coordination_has_the_mentions_of_all_its_parts() -> None:
    tree = read_tree("(S (NP (NP (DT A) (NN man)) (CC and) (NP (DT a) (NN woman))) (VP (VBP hold) (NP (NNS cups))))")
    man, woman, cups = Mention(0, 5, "1"), Mention(10, 17, "2"), Mention(23, 27, "3")
    for order in ([man, woman, cups], [cups, woman, man]):
        last = relations(tree, order)[-1]
        assert (last.text, last.mentions) == ("A man and a woman hold cups", (man, woman, cups))


def test_a_mention_larger_than_the_phrase_is_used_completely() -> None:
    tree = read_tree("(NP (NP (DT a) (NN pair)) (PP (IN of) (NP (NNS shoes))) (PP (IN on) (NP (NN grass))))")
    shoes, grass = Mention(0, 15, "1"), Mention(19, 24, "2")
    [only] = [relation for relation in relations(tree, [shoes, grass]) if relation.relation.text == "on"]
    assert (only.first.text, only.mentions) == ("a pair of shoes", (shoes, grass))
    tree = read_tree("(S (NP (NP (DT a) (NN boy)) (ADJP (JJ aged) (CD five))) (VP (VBZ holds) (NP (DT a) (NN pear))))")
    boy, pear = Mention(0, 15, "1"), Mention(22, 28, "2")
    assert [relation.text for relation in relations(tree, [boy, pear])] == [
        "a boy aged five holds",
        "a boy aged five holds a pear",
    ]


def test_a_relation_inside_one_mention_is_left_out() -> None:
    tree = read_tree("(S (NP (NP (DT the) (NN man)) (PP (IN in) (NP (NN black)))) (VP (VBZ sings)))")
    assert [relation.text for relation in relations(tree)] == ["the man in black", "the man sings"]
    assert [relation.text for relation in relations(tree, [Mention(0, 16, "1")])] == ["the man in black sings"]


def test_words_are_lower_case_without_punctuation() -> None:
    tree = read_tree(
        "(S (NP (NNP Bob) (POS 's) (NN T-shirt)) (VP (VBZ hangs) (PP (IN on) (NP (DT a) (NN hook)))) (. .))"
    )
    assert [relation.words for relation in relations(tree)] == [
        ("bob", "'s", "t-shirt", "hangs"),
        ("bob", "'s", "t-shirt", "hangs", "on", "a", "hook"),
    ]
