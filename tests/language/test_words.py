from __future__ import annotations

import pytest

from deixis.language.words import function_words, senses, singular, stated_count


def test_function_words_are_those_of_meteor() -> None:
    assert {"a", "the", "'s", "people", "two"} <= function_words()
    assert len(function_words()) == 93
    assert "dog" not in function_words()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("bike", "bicycle"),
        ("bikes", "bicycles"),
        ("man", "men"),
        ("ran", "running"),
        ("sofa", "couch"),
        ("kid", "child"),
    ],
)
def test_synonyms_and_forms_of_one_word_share_a_sense(one: str, other: str) -> None:
    assert senses(one) & senses(other)


@pytest.mark.parametrize(("one", "other"), [("dog", "cat"), ("xyzzy", "xyzzy"), ("man", "woman")])
def test_unrelated_words_share_no_sense(one: str, other: str) -> None:
    assert not senses(one) & senses(other)


@pytest.mark.parametrize(
    ("phrase", "count"),
    [("a dog", 1), ("the dog", None), ("dogs", None), ("a group of dogs", None), ("two dogs", 2), ("", None)],
)
def test_an_article_or_a_number_states_a_count(phrase: str, count: int | None) -> None:
    assert stated_count(phrase.split()) == count


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *[(word, word) for word in ("dog", "gas", "grass", "bus", "tennis")],
        *[("dogs", "dog"), ("puppies", "puppy"), ("dresses", "dress"), ("boxes", "box"), ("benches", "bench")],
        *[("dishes", "dish"), ("people", "person"), ("firewomen", "firewoman"), ("grandchildren", "grandchild")],
    ],
)
def test_the_singular_of_a_noun_follows_its_ending(word: str, expected: str) -> None:
    assert singular(word) == expected
