"""Relevance by captions."""

from __future__ import annotations

from deixis.search.relevance import Relevance

CAPTIONED = Relevance(
    [
        ["A brown dog runs through snow.", "A dog with a red collar."],
        ["A girl throws a ball.", "A child in a blue dress."],
        ["Two dogs play with a ball."],
    ]
)


def shows(query: str, *phrases: str) -> list[int]:
    return CAPTIONED.of(query, phrases or (query,)).nonzero()[0].tolist()


def test_words_of_all_captions_of_a_photo_count() -> None:
    assert shows("a brown dog with a red collar", "a brown dog", "a red collar") == [0]


def test_plurals_and_synonyms_match() -> None:
    assert shows("dogs") == [0, 2]
    assert shows("a kid") == [1]


def test_every_object_must_be_mentioned() -> None:
    assert shows("dogs with a ball", "dogs", "a ball") == [2]
    assert shows("a dog with a girl", "a dog", "a girl") == []
    assert shows("a red dog runs through snow with a girl", "a red dog", "a girl") == []  # four of five words are there


def test_two_thirds_of_all_words_are_enough() -> None:
    assert shows("a brown dog runs fast", "a brown dog") == [0]
    assert shows("a black dog") == []


def test_a_query_without_words_is_shown_by_none() -> None:
    assert shows("of the") == []
    assert not CAPTIONED.with_word("elephant").any()


def test_absent_words_are_found() -> None:
    assert CAPTIONED.has_absent_word("a dog and an elephant")
    assert not CAPTIONED.has_absent_word("a kid and the snow")
