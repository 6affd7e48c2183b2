"""Vocabularies: ids of words."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.language.vocabulary import Vocabulary

SENTENCES = st.lists(st.lists(st.sampled_from(["a", "dog", "cat", "runs", "é", "'s"]), max_size=6), max_size=8)


def test_words_below_the_minimum_count_are_unknown() -> None:
    vocabulary = Vocabulary.fit([["a", "dog"], ["a", "cat"], ["dog"]], min_count=2)
    assert vocabulary.words == ("a", "dog")
    assert vocabulary.counts == (2, 2)
    assert "cat" not in vocabulary


@given(SENTENCES, st.randoms())
def test_ids_do_not_depend_on_the_order_of_the_sentences(sentences: list[list[str]], chance: random.Random) -> None:
    shuffled = list(sentences)
    chance.shuffle(shuffled)
    assert Vocabulary.fit(sentences) == Vocabulary.fit(shuffled)


@given(SENTENCES)
def test_known_words_round_trip(sentences: list[list[str]]) -> None:
    vocabulary = Vocabulary.fit(sentences)
    for sentence in sentences:
        assert vocabulary.decode(vocabulary.encode(sentence)) == sentence


def test_an_unknown_word_gets_the_passed_id_or_is_left_out() -> None:
    vocabulary = Vocabulary.fit([["a", "dog"]])
    assert vocabulary.encode(["a", "cat", "dog"], unknown=7) == [0, 7, 1]
    assert vocabulary.encode(["a", "cat", "dog"]) == [0, 1]


def test_an_id_outside_the_vocabulary_is_an_error() -> None:
    with pytest.raises(DeixisError, match="5"):
        Vocabulary.fit([["a"]]).decode([5])
