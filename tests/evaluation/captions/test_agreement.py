from __future__ import annotations

import pytest

from deixis.evaluation.captions.agreement import PeopleCaptions

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
