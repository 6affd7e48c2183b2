"""What captions say that photos show."""

from __future__ import annotations

from deixis.tasks.search.relevance import Relevance

PHOTOS = Relevance(
    [
        ["A brown dog runs through snow.", "A dog with a red collar."],
        ["A girl throws a ball.", "A child in a blue dress."],
        ["Two dogs play with a ball."],
    ]
)


def shows(query: str, *phrases: str) -> list[int]:
    return PHOTOS.of(query, phrases or (query,)).nonzero()[0].tolist()


def test_words_are_gathered_from_all_captions_of_a_photo() -> None:
    assert shows("a brown dog with a red collar", "a brown dog", "a red collar") == [0]


def test_plurals_and_synonyms_mean_the_same() -> None:
    assert shows("dogs") == [0, 2]
    assert shows("a kid") == [1]


def test_every_thing_must_be_there() -> None:
    assert shows("dogs with a ball", "dogs", "a ball") == [2]
    assert shows("a dog with a girl", "a dog", "a girl") == []
    assert shows("a red dog runs through snow with a girl", "a red dog", "a girl") == []  # four of five words are there


def test_of_other_words_two_thirds_are_enough() -> None:
    assert shows("a brown dog runs fast", "a brown dog") == [0]
    assert shows("a black dog") == []


def test_a_query_without_words_is_shown_by_none() -> None:
    assert shows("of the") == []
    assert not PHOTOS.holding("elephant").any()
