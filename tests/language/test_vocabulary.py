"""Words and their numbers."""

from __future__ import annotations

import random
from pathlib import Path

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
    assert vocabulary.id_of("cat") is None


@given(SENTENCES, st.randoms())
def test_ids_do_not_depend_on_the_order_of_the_sentences(sentences: list[list[str]], chance: random.Random) -> None:
    shuffled = list(sentences)
    chance.shuffle(shuffled)
    assert Vocabulary.fit(sentences) == Vocabulary.fit(shuffled)


@given(SENTENCES)
def test_known_words_survive_encoding_and_decoding(sentences: list[list[str]]) -> None:
    vocabulary = Vocabulary.fit(sentences)
    for sentence in sentences:
        assert vocabulary.decode(vocabulary.encode(sentence)) == sentence
    assert vocabulary.unknown_rate(sentences) == 0


def test_an_unknown_word_gets_the_passed_id_or_is_left_out() -> None:
    vocabulary = Vocabulary.fit([["a", "dog"]])
    assert vocabulary.encode(["a", "cat", "dog"], unknown=7) == [0, 7, 1]
    assert vocabulary.encode(["a", "cat", "dog"]) == [0, 1]


def test_the_unknown_rate_counts_running_words() -> None:
    assert Vocabulary.fit([["a"]]).unknown_rate([["a", "a", "dog"], ["dog"]]) == 0.5
    assert Vocabulary.fit([["a"]]).unknown_rate([]) == 0


def test_a_vocabulary_survives_saving_and_loading(tmp_path: Path) -> None:
    vocabulary = Vocabulary.fit([["café", "dog", "dog"]], min_count=1)
    vocabulary.save(tmp_path / "words.json")
    assert Vocabulary.load(tmp_path / "words.json") == vocabulary


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"words": ["a", "a"], "counts": [1, 1], "min_count": 1}',
        '{"words": 3, "counts": [], "min_count": 1}',
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    file = tmp_path / "words.json"
    file.write_text(content)
    with pytest.raises(DeixisError, match="words.json") as caught:
        Vocabulary.load(file)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="nowhere.json"):
        Vocabulary.load(tmp_path / "nowhere.json")


def test_an_id_outside_the_vocabulary_is_an_error() -> None:
    with pytest.raises(DeixisError, match="5"):
        Vocabulary.fit([["a"]]).decode([5])
