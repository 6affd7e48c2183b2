"""The penalty for words that nobody says about a photo."""

from __future__ import annotations

import numpy as np

from deixis.language.vocabulary import Vocabulary
from deixis.models.m_rnn.wrong_words import WrongWordPenalty
from deixis.tokens import words

CAPTIONS = [
    ["Two kids sit on a brown couch.", "Children watch television on a sofa in front of a wall."],
    ["A dog runs on green grass.", "The dog is running through a field."],
]
VOCABULARY = Vocabulary.fit([words(text) for captions in CAPTIONS for text in captions])


def penalties(*pairs: tuple[str, int]) -> list[float]:
    """The penalties of sentences, each for a photo; a sentence is followed by end tokens."""
    number = {word: index for index, word in enumerate(VOCABULARY.words)}
    unknown, end = len(number), len(number) + 1
    rows = np.full((len(pairs), 12), end)
    for row, (text, _) in enumerate(pairs):
        known = [number.get(word, unknown) for word in words(text)]
        rows[row, : len(known)] = known
    references = [[words(text) for text in captions] for captions in CAPTIONS]
    found = WrongWordPenalty(references, VOCABULARY)(rows, np.array([photo for _, photo in pairs]))
    return found.tolist()


def test_what_people_say_costs_nothing() -> None:
    assert penalties(("two kids sit on a sofa", 0), ("a dog is running on green grass", 1)) == [0, 0]


def test_synonyms_and_other_forms_of_words_cost_nothing() -> None:
    assert penalties(("children sitting on a couch", 0), ("a dog runs through grass", 1)) == [0, 0]


def test_a_wrong_noun_costs_one_and_another_wrong_word_half() -> None:
    assert penalties(("a dog on a sofa", 0), ("a brown dog", 1), ("a brown sofa", 1)) == [1, 0.5, 1.5]


def test_every_occurrence_of_a_wrong_noun_counts() -> None:
    assert penalties(("a dog and a dog on a couch", 0)) == [2]


def test_words_without_content_and_unknown_words_cost_nothing() -> None:
    assert penalties(("in front of the zebra", 1), ("", 0)) == [0, 0]
