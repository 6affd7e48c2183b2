"""What of a data set is scored, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.errors import DatasetError
from deixis.evaluation.of_data import regions_of, sentences_of

DOG = Photo(
    "1",
    (
        Caption.from_text("Two dogs in snow", (Mention(0, 8, "a"), Mention(12, 16, "s"))),
        Caption.from_text("red collar", (Mention(0, 10, "b"),), region_phrase=True),
        Caption.from_text("The dogs and a collar", (Mention(0, 8, "a"), Mention(13, 21, "b"))),
    ),
    (Chain("a"), Chain("s", scene=True, no_box=True), Chain("b"), Chain("never mentioned")),
    (
        Box((0, 0, 4, 4), ("a",)),
        Box((2, 2, 9, 8), ("a",)),
        Box((1, 1, 2, 2), ("b",)),
        Box((0, 0, 1, 1), ("never mentioned",)),
    ),
)
CAT = Photo("2", (Caption.from_text("A cat", (Mention(0, 5, "a"),)),), (Chain("a"),), (Box((5, 5, 6, 6), ("a",)),))


def test_sentences_come_photo_by_photo_without_region_phrases() -> None:
    found = sentences_of([DOG, CAT])
    assert found.texts == ("Two dogs in snow", "The dogs and a collar", "A cat")
    assert found.photo_of_sentence == (0, 0, 1)


def test_a_region_is_the_union_of_a_mentioned_chains_boxes() -> None:
    found = regions_of([DOG, CAT])
    assert found.boxes == ((0, 0, 9, 8), (1, 1, 2, 2), (5, 5, 6, 6))
    assert found.photo_of_region == (0, 0, 1)
    assert found.phrases == ("Two dogs", "red collar", "The dogs", "a collar", "A cat")
    assert found.photo_of_phrase == (0, 0, 0, 0, 1)
    assert found.positives == ((0, 0), (1, 1), (0, 2), (1, 3), (2, 4))


def test_what_a_caption_about_another_photo_mentions_is_no_region_and_no_phrase() -> None:
    elsewhere = Caption.from_text("A cat and a dog", (Mention(0, 5, "a"), Mention(10, 15, "b")), related=False)
    boxes = (*CAT.boxes, Box((0, 0, 3, 3), ("b",)))
    found = regions_of(
        [replace(CAT, captions=(elsewhere, *CAT.captions), chains=(Chain("a"), Chain("b")), boxes=boxes)]
    )
    assert (found.phrases, found.boxes) == (("A cat",), ((5, 5, 6, 6),))


def test_nothing_to_score_is_said() -> None:
    with pytest.raises(DatasetError, match="no captions to score"):
        sentences_of([Photo("1")])
    with pytest.raises(DatasetError, match="no regions to score"):
        regions_of([Photo("1", (Caption.from_text("A dog"),))])
