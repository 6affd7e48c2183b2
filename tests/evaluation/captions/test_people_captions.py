from __future__ import annotations

import pytest

from deixis.evaluation.captions.people_captions import PeopleCaptions, WordMatcher

PEOPLE = PeopleCaptions(
    [
        "Two kids sit on a brown couch.",
        "Children watch television on a sofa.",
        "A boy and a girl in red look at a screen.",
    ]
)


@pytest.mark.parametrize(
    "caption",
    [
        "two children are sitting on a sofa",
        "a boy and a girl on a couch",
        "a group of people are watching television",
        "two kids in front of a television",
        "kids on a brown couch",
    ],
)
def test_captions_of_what_people_say_agree(caption: str) -> None:
    assert PEOPLE.agree(caption.split())


@pytest.mark.parametrize(
    "caption",
    [
        "two children are sitting on a bench",  # a noun that nobody says
        "a dog on a couch",
        "three small happy children",  # most words are not said
        "there is",
        "",
    ],
)
def test_captions_of_other_things_do_not_agree(caption: str) -> None:
    assert not PEOPLE.agree(caption.split())


def test_general_words_for_people_need_a_person() -> None:
    assert PeopleCaptions(["A skier on a slope."]).have("person")
    assert not PeopleCaptions(["A giraffe beside a tree."]).have("people")


def test_the_matcher_finds_the_words_that_people_have() -> None:
    captions = ["Two kids sit on a brown couch.", "A goalkeeper in red."]
    vocabulary = ["sofa", "bench", "child", "person", "people", "sat", "brown", "dog", "crowd", "two", "three"]
    people, matcher = PeopleCaptions(captions), WordMatcher(vocabulary)
    expected = {index for index, word in enumerate(vocabulary) if people.have(word)}
    assert matcher.matches(captions) == expected
    assert {vocabulary[index] for index in expected} >= {"sofa", "child", "person", "brown", "two"}
    assert not {vocabulary[index] for index in expected} & {"bench", "dog", "three"}
    nobody = ["A dog runs.", "The brown dog."]
    assert {vocabulary[index] for index in matcher.matches(nobody)} == {"brown", "dog"}
