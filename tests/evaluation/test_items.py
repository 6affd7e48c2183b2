"""The scored sentences, regions and phrases of a data set, and their order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.errors import DatasetError
from deixis.evaluation.items import (
    Item,
    distinct_phrases,
    indices_by_type,
    localization_items,
    regions_of,
    sentences_of,
    typical_wording,
)
from deixis.tokens import distinct_phrase

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


def test_a_region_is_the_union_of_the_boxes_of_a_mentioned_chain() -> None:
    found = regions_of([DOG, CAT])
    assert found.boxes == ((0, 0, 9, 8), (1, 1, 2, 2), (5, 5, 6, 6))
    assert found.photo_of_region == (0, 0, 1)
    assert found.phrases == ("Two dogs", "red collar", "The dogs", "a collar", "A cat")
    assert found.photo_of_phrase == (0, 0, 0, 0, 1)
    assert found.positives == ((0, 0), (1, 1), (0, 2), (1, 3), (2, 4))


def test_unrelated_captions_add_no_regions_or_phrases() -> None:
    elsewhere = Caption.from_text("A cat and a dog", (Mention(0, 5, "a"), Mention(10, 15, "b")), related=False)
    boxes = (*CAT.boxes, Box((0, 0, 3, 3), ("b",)))
    found = regions_of(
        [replace(CAT, captions=(elsewhere, *CAT.captions), chains=(Chain("a"), Chain("b")), boxes=boxes)]
    )
    assert (found.phrases, found.boxes) == (("A cat",), ((5, 5, 6, 6),))


def test_photos_with_nothing_to_score_are_an_error() -> None:
    with pytest.raises(DatasetError, match="captions"):
        sentences_of([Photo("1")])
    with pytest.raises(DatasetError, match="regions"):
        regions_of([Photo("1", (Caption.from_text("A dog"),))])


def photo(*captions: Caption) -> Photo:
    boxes = (Box((0, 0, 10, 10), ("1",)), Box((20, 0, 30, 10), ("1", "2")))
    return Photo("7", captions, boxes=boxes, width=100, height=80)


def caption(text: str, *mentions: Mention, **more: bool) -> Caption:
    return Caption.from_text(text, mentions, **more)


def test_an_item_has_the_span_types_boxes_and_size_of_its_mention() -> None:
    related = caption("Two men walk.", Mention(0, 7, "1", ("people",)))
    (found,) = localization_items([photo(related)])
    assert (found.photo, found.caption, found.span, found.phrase) == ("7", 0, (0, 7), "Two men")
    assert (found.types, found.size) == (("people",), (100, 80))
    assert found.boxes == ((0, 0, 10, 10), (20, 0, 30, 10))


def test_mentions_without_a_chain_or_without_boxes_are_left_out() -> None:
    related = caption("Dogs in air at sea.", Mention(0, 4, "2"), Mention(8, 11, None), Mention(15, 18, "9"))
    assert [item.phrase for item in localization_items([photo(related)])] == ["Dogs"]


def test_unrelated_captions_are_left_out_but_keep_their_index() -> None:
    unrelated = caption("A cat sleeps.", Mention(0, 5, "1"), related=False)
    related = caption("A dog runs.", Mention(0, 5, "1"))
    assert [(item.phrase, item.caption) for item in localization_items([photo(unrelated, related)])] == [("A dog", 1)]


def test_region_phrases_are_included_on_request() -> None:
    region = caption("a red hat", Mention(0, 9, "1"), region_phrase=True)
    assert localization_items([photo(region)]) == []
    assert len(localization_items([photo(region)], region_phrases=True)) == 1


@pytest.mark.parametrize(
    ("phrase", "same"),
    [("A man", "man"), ("the  Man", "man"), ("An ox", "ox"), ("two men", "two men"), ("A", "a"), ("another man",) * 2],
)
def test_case_spaces_and_a_leading_article_do_not_distinguish_phrases(phrase: str, same: str) -> None:
    assert distinct_phrase(phrase) == same


def test_types_are_in_the_order_of_the_tables_of_entities_then_by_name() -> None:
    item = Item("1", 0, (0, 3), "dog", ("robots", "animals", "cars", "people"), ((0, 0, 9, 9),))
    assert list(indices_by_type([item])) == ["people", "animals", "cars", "robots"]


def items(*phrases: str) -> list[Item]:
    return [Item("7", place, (0, 5), phrase, (), ((0, 0, 10, 10),)) for place, phrase in enumerate(phrases)]


def test_phrases_are_in_the_order_of_their_first_mentions() -> None:
    found = distinct_phrases(items("Two men", "a  Dog", "the dog", "two men"))
    assert {phrase: places.tolist() for phrase, places in found.items()} == {"two men": [0, 3], "dog": [1, 2]}


def test_the_typical_wording_is_the_most_frequent_one() -> None:
    assert typical_wording(items("Dog", "The dog", "the  Dog", "two men")) == ["the dog", "two men"]
    assert typical_wording(items("the dog", "a dog")) == ["the dog"]
