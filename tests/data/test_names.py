"""Photo names, ids and captions collected by photo."""

from __future__ import annotations

import pytest

from deixis.data.names import CaptionCollector, NameIndex, PhotoIds, flickr_number, photo_stem, quote_text
from deixis.errors import DatasetError


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("a.jpg", "a"),
        ("folder/a.WEBP", "a"),
        ("folder\\a.heic", "a"),
        ("a.b.jpeg", "a.b"),
        ("no-ending", "no-ending"),
        ("version.2", "version.2"),
        ("COCO_val2014_000000000042.jpg", "COCO_val2014_000000000042"),
    ],
)
def test_the_stem_is_the_name_without_folders_and_suffix(name: str, stem: str) -> None:
    assert photo_stem(name) == stem


@pytest.mark.parametrize(
    ("stem", "number"),
    [
        ("1000268201", "1000268201"),
        ("1000268201_693b08cb0e_b", "1000268201"),
        *((f"1000268201_{'0a1b2c3d4e5f'[:digits]}", "1000268201") for digits in range(8, 13)),
        *((f"1000268201_{code}", None) for code in ("0a1b2c3", "0a1b2c3d4e5f6", "0a1b2c3d4g")),
        ("2024_holiday", None),
        ("IMG_1000268201", None),
    ],
)
def test_flickr_numbers_are_recognized(stem: str, number: str | None) -> None:
    assert flickr_number(stem) == number


def test_a_number_of_two_photos_matches_neither() -> None:
    photos = NameIndex({"12_0123456789": 1, "12_abcdefabcd": 2, "34_0123456789": 3})
    assert photos.find("12") is None
    assert photos.find("12_abcdefabcd") == 2
    assert photos.find("34") == 3
    assert photos.find("34_ffffffffff") == 3


def test_a_name_may_repeat_unless_it_must_be_new() -> None:
    names = PhotoIds()
    assert names.add_new("a/1.jpg", DatasetError) == "1"
    assert names.get("a/1.jpg", DatasetError) == "1"
    with pytest.raises(DatasetError, match=r"a/1\.jpg"):
        names.add_new("a/1.jpg", DatasetError)


def test_long_texts_are_shortened_and_invisible_characters_escaped() -> None:
    assert quote_text("\ud800\n") == r"'\ud800\n'"
    assert len(quote_text("x" * 10_000)) == 82


def test_captions_of_equal_number_keep_their_order() -> None:
    collector = CaptionCollector()
    for text, number in [("c", 1), ("a", 0), ("d", 1), ("b", 0)]:
        collector.add("1.jpg", f" {text}\n", DatasetError, number=number)
    photo = next(collector.source("kind").photos)
    assert [caption.text for caption in photo.captions] == ["a", "b", "c", "d"]
