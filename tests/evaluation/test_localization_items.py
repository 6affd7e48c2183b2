"""What there is to localise."""

from __future__ import annotations

import pytest

from deixis.data.records import Box, Caption, Mention, Photo
from deixis.evaluation.localization_items import distinct_phrase, localization_items


def photo(*captions: Caption) -> Photo:
    boxes = (Box((0, 0, 10, 10), ("1",)), Box((20, 0, 30, 10), ("1", "2")))
    return Photo("7", captions, boxes=boxes, width=100, height=80)


def caption(text: str, *mentions: Mention, **more: bool) -> Caption:
    return Caption.from_text(text, mentions, **more)


def test_a_mention_with_boxes_carries_all_that_is_needed_to_score_it() -> None:
    said = caption("Two men walk.", Mention(0, 7, "1", ("people",)))
    (found,) = localization_items([photo(said)])
    assert (found.photo, found.caption, found.span, found.phrase) == ("7", 0, (0, 7), "Two men")
    assert (found.types, found.size) == (("people",), (100, 80))
    assert found.boxes == ((0, 0, 10, 10), (20, 0, 30, 10))


def test_mentions_without_a_chain_or_without_boxes_are_left_out() -> None:
    said = caption("Dogs in air at sea.", Mention(0, 4, "2"), Mention(8, 11, None), Mention(15, 18, "9"))
    assert [item.phrase for item in localization_items([photo(said)])] == ["Dogs"]


def test_captions_about_other_photos_are_left_out_but_still_counted() -> None:
    unrelated = caption("A cat sleeps.", Mention(0, 5, "1"), related=False)
    said = caption("A dog runs.", Mention(0, 5, "1"))
    assert [(item.phrase, item.caption) for item in localization_items([photo(unrelated, said)])] == [("A dog", 1)]


def test_phrases_of_regions_are_taken_only_when_asked_for() -> None:
    region = caption("a red hat", Mention(0, 9, "1"), region_phrase=True)
    assert localization_items([photo(region)]) == []
    assert len(localization_items([photo(region)], region_phrases=True)) == 1


@pytest.mark.parametrize(
    ("phrase", "same"),
    [("A man", "man"), ("the  Man", "man"), ("An ox", "ox"), ("two men", "two men"), ("A", "a"), ("another man",) * 2],
)
def test_phrases_are_the_same_without_case_spaces_and_a_leading_article(phrase: str, same: str) -> None:
    assert distinct_phrase(phrase) == same
