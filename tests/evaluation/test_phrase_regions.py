"""Distinct phrases, and the regions of all photos."""

from __future__ import annotations

import numpy as np

from deixis.evaluation.localization_items import Item
from deixis.evaluation.phrase_regions import MentionRegions, Regions, distinct_phrases, usual_words


def items(*phrases: str) -> list[Item]:
    return [Item("7", place, (0, 5), phrase, (), ((0, 0, 10, 10),)) for place, phrase in enumerate(phrases)]


def test_phrases_come_in_the_order_of_their_first_mentions_as_the_rows_of_scores_do() -> None:
    found = distinct_phrases(items("Two men", "a  Dog", "the dog", "two men"))
    assert {phrase: places.tolist() for phrase, places in found.items()} == {"two men": [0, 3], "dog": [1, 2]}


def test_a_phrase_is_written_as_most_mentions_write_it() -> None:
    assert usual_words(items("Dog", "The dog", "the  Dog", "two men")) == ["the dog", "two men"]
    assert usual_words(items("the dog", "a dog")) == ["the dog"]


def test_a_photo_may_have_no_regions() -> None:
    regions = Regions.of({"6": [], "7": [[0, 0, 10, 10]], "8": []})
    assert (regions.counts.tolist(), regions.photo.tolist(), regions.starts.tolist()) == ([0, 1, 0], [1], [0, 0, 1])


def test_what_stands_before_each_find_is_counted_by_photo() -> None:
    """Photo 7 mentions the dog twice, so that its regions stand twice; the better region of photo 8 comes first."""
    regions = Regions.of({"7": [[0, 0, 10, 10], [50, 0, 60, 10]], "8": [[0, 0, 10, 10], [0, 0, 10, 10]]})
    mentions = MentionRegions.of(items("a dog", "a dog"), regions, "union")
    found = mentions.finds(np.array([0, 1]), np.array([0.5, 0.7, 0.9, 0.5]))
    assert found.photo.tolist() == [0, 0]
    assert found.boxes.tolist() == [[3.0, 1.0], [1.0, 0.0]]
    assert found.mentions.tolist() == [0, 0]


def test_a_phrase_that_nothing_finds_has_no_finds_but_mentions() -> None:
    regions = Regions.of({"7": [[50, 0, 60, 10]], "8": [[0, 0, 10, 10]]})
    found = MentionRegions.of(items("a dog"), regions, "union").finds(np.array([0]), np.array([0.5, 0.7]))
    assert (found.photo.shape, found.boxes.shape, found.mentions.tolist()) == ((0,), (0, 2), [0])
