"""The words of text models: ids, frozen and learned vectors, ids for training, neighbours, and the recorded table."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.language import vocabulary as vocabularies
from deixis.language.vectors import WordVectors, shipped_vectors
from deixis.language.vocabulary import MIN_SIMILARITY, Vocabulary, WordTable, frozen_reference, open_frozen

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


FROZEN = WordVectors(np.arange(8, dtype=np.float32).reshape(4, 2), ["dog", "puppy", "Turkey", "turkey"])
VOCABULARY = Vocabulary(("dog", "selfie", "turkey"), (3, 2, 1))
LEARNED = np.array([[10, 20], [30, 40], [50, 60], [7, 7], [0, 0]], np.float32)
TABLE = WordTable(VOCABULARY, LEARNED, FROZEN)
CASES = {
    "dog": (0, [10 + 0, 20 + 1]),
    "Dog": (0, [10 + 0, 20 + 1]),
    "selfie": (1, [30, 40]),  # only learned
    "puppy": (5 + 1, [2, 3]),  # only frozen
    "turkey": (2, [50 + 6, 60 + 7]),
    "Turkey": (2, [50 + 6, 60 + 7]),  # the word of the vocabulary, in both parts
    "xyzzy": (3, [7, 7]),  # unknown
}


@pytest.mark.parametrize("word", CASES)
def test_a_vector_is_the_sum_of_its_frozen_and_its_learned_part(word: str) -> None:
    number, vector = CASES[word]
    np.testing.assert_array_equal(TABLE.vectors([word]), [vector])
    assert TABLE.encode([word], unknown=3) == [number]
    assert (word in TABLE) == (word != "xyzzy")


def test_vectors_by_id_are_those_by_word() -> None:
    ids = np.array(TABLE.encode(CASES, unknown=len(TABLE)))
    by_id = TABLE.frozen_by_id()[ids] + LEARNED[np.minimum(ids, len(TABLE) + 1)]
    np.testing.assert_array_equal(by_id, TABLE.vectors(CASES))
    padding = len(TABLE) + 1
    assert not TABLE.frozen_by_id()[padding].any()


def test_unknown_words_can_be_left_out_and_there_may_be_no_words() -> None:
    assert TABLE.encode(["xyzzy", "dog"]) == [0]
    assert TABLE.vectors([]).shape == (0, 2)
    np.testing.assert_array_equal(WordTable(VOCABULARY, frozen=FROZEN).vectors(["dog", "xyzzy"]), [[0, 1], [0, 0]])


def test_without_frozen_vectors_only_the_vocabulary_is_known() -> None:
    table = WordTable(VOCABULARY, LEARNED)
    np.testing.assert_array_equal(table.vectors(["dog", "puppy"]), LEARNED[[0, 3]])
    assert "puppy" not in table
    assert table.frozen_by_id().shape == (5, 2)
    assert table.nearest_known("dog") == []


def test_half_precision_is_looked_up_as_single() -> None:
    vectors = WordTable(VOCABULARY, LEARNED.astype(np.float16), FROZEN).vectors(["dog", "puppy"])
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, [[10, 21], [2, 3]])


@pytest.mark.parametrize("shape", [(4, 2), (5, 3), (5,)])
def test_learned_rows_must_fit_the_vocabulary_and_the_vectors(shape: tuple[int, ...]) -> None:
    with pytest.raises(DeixisError, match="do not fit"):
        WordTable(VOCABULARY, np.zeros(shape, np.float32), FROZEN)


KNOWN = Vocabulary(("a", "dog", "refrigerator", "sofa", "guitar", "stove", "qwertyish"), (7, 6, 5, 4, 3, 2, 1))
SHIPPED = WordTable(KNOWN, frozen=shipped_vectors())


def test_the_nearest_words_that_captions_taught_are_found() -> None:
    assert SHIPPED.nearest_known("fridge", n=1) == ["refrigerator"]
    animals = WordTable(Vocabulary(("sofa", "cat", "dog", "puppy"), (4, 3, 2, 1)), frozen=shipped_vectors())
    assert animals.nearest_known("Puppy", 2)[0] == "puppy"
    few = WordTable(Vocabulary(("sofa", "dog", "puppy"), (3, 2, 1)), frozen=shipped_vectors())
    assert few.nearest_known("puppy", 2) == ["dog"]  # not itself, not a sofa
    assert SHIPPED.nearest_known("couch") == ["sofa"]
    assert SHIPPED.nearest_known("fridge") == ["refrigerator", "stove"]  # most similar first


@pytest.mark.parametrize("rows_at_once", [3, 1000])
def test_neighbours_are_those_of_a_loop_over_all_cosines(rows_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabularies, "_ROWS_AT_ONCE", rows_at_once)
    rng = np.random.default_rng(3)
    words = [f"word{number}" for number in range(40)]
    vectors = rng.standard_normal((40, 3)).astype(np.float32)
    vectors[7] = 0  # no cosine
    known = ("selfie", *words[:30])  # the first one has no vector
    table = WordTable(Vocabulary(known, tuple(range(31, 0, -1))), frozen=WordVectors(vectors, words))
    for number in (2, 35):
        cosines = {
            other: float(vectors[number] @ vectors[other])
            / float(np.prod(np.linalg.norm(vectors[[number, other]], axis=1)))
            for other in range(30)
            if other not in (number, 7)
        }
        best = sorted((other for other in cosines if cosines[other] >= MIN_SIMILARITY), key=lambda each: -cosines[each])
        assert len(best) > 4
        assert table.nearest_known(words[number], 4) == [words[other] for other in best[:4]]


@pytest.mark.parametrize("word", ["xyzzyx", "democracy"])
def test_an_unknown_or_unrelated_word_has_no_neighbours(word: str) -> None:
    assert SHIPPED.nearest_known(word) == []


def test_a_model_opens_only_with_the_vectors_that_it_was_trained_with() -> None:
    reference = frozen_reference(shipped_vectors())
    assert reference is not None
    assert open_frozen(reference) is shipped_vectors()
    assert open_frozen(frozen_reference(None)) is None
    for changed in ({"fingerprint": "0" * 64}, {"name": "others"}):
        with pytest.raises(DeixisError, match=r"^[^\n]*word vectors[^\n]*$"):
            open_frozen(reference | changed)
