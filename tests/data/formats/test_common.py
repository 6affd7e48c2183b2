"""Functions that writers share."""

from __future__ import annotations

import json

import pytest

from deixis.data.formats.common import categories_of_boxes, compact_number, file_name, json_document, splits_of
from deixis.data.records import AnnotationSource, Box, Caption, Chain, Mention, Photo


def test_a_photo_is_once_in_each_split_or_in_the_rest() -> None:
    assert splits_of(Photo("1")) == ("rest",)
    assert splits_of(Photo("1", splits=("val", "train", "val"))) == ("val", "train")


def test_the_file_name_is_that_of_the_photo_of_the_annotation_or_of_the_id() -> None:
    annotated = AnnotationSource("7", "7.png")
    assert file_name(Photo("1", file="a/1.png", annotated=annotated)) == "a/1.png"
    assert file_name(Photo("1", annotated=annotated)) == "7.png"
    assert file_name(Photo("1")) == "1.jpg"


def test_the_category_of_a_box_is_the_type_of_its_first_typed_mention() -> None:
    captions = (
        Caption.from_text("a b", (Mention(0, 1, "1"), Mention(2, 3, "2", ("people", "other")))),
        Caption.from_text("a b", (Mention(0, 1, "1", ("animals",)), Mention(2, 3, "2", ("clothing",)))),
    )
    boxes = (Box((0, 0, 1, 1), ("1", "2")), Box((0, 0, 1, 1), ("2",)), Box((0, 0, 1, 1), ("3",)))
    photo = Photo("1", captions, (Chain("1"), Chain("2"), Chain("3")), boxes)
    assert categories_of_boxes(photo) == ["animals", "people", "other"]


@pytest.mark.parametrize(("value", "written"), [(5.0, "5"), (-0.0, "0"), (5.25, "5.25"), (7, "7")])
def test_integers_are_written_without_a_fraction(value: float, written: str) -> None:
    assert json.dumps(compact_number(value)) == written


def test_a_document_is_json_with_empty_lists_and_with_full_ones() -> None:
    document = {"a": 1, "none": iter([]), "some": iter([{"b": 2}, 3]), "list": [4]}
    assert json.loads("".join(json_document(document))) == {"a": 1, "none": [], "some": [{"b": 2}, 3], "list": [4]}
