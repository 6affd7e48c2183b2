"""Names of photos that mean the same photo."""

from __future__ import annotations

import pytest

from deixis.data.matching import ByName, flickr_number, names_in_list, stem_of


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
def test_the_stem_is_the_name_without_folders_and_ending(name: str, stem: str) -> None:
    assert stem_of(name) == stem


def test_flickr_numbers_are_told_from_other_names() -> None:
    assert flickr_number("1000268201_693b08cb0e") == "1000268201"
    assert flickr_number("1000268201_693b08cb0e_b") == "1000268201"
    assert flickr_number("1000268201") == "1000268201"
    assert flickr_number("2024_holiday") is None
    assert flickr_number("IMG_1000268201") is None


def test_a_number_that_two_photos_share_decides_nothing() -> None:
    photos = ByName({"12_0123456789": 1, "12_abcdefabcd": 2, "34_0123456789": 3})
    assert photos.find("12") is None
    assert photos.find("12_abcdefabcd") == 2
    assert photos.find("34") == 3
    assert photos.find("34_ffffffffff") == 3


def test_lists_pass_over_blank_lines_and_remarks() -> None:
    assert names_in_list(["# made by hand", "", " a.jpg ", "b"]) == ["a", "b"]


@pytest.mark.parametrize("digits", [8, 9, 10, 11, 12])
def test_the_code_after_a_flickr_number_has_eight_to_twelve_digits(digits: int) -> None:
    assert flickr_number("1000268201_" + "0a1b2c3d4e5f"[:digits]) == "1000268201"


@pytest.mark.parametrize("code", ["0a1b2c3", "0a1b2c3d4e5f6", "0a1b2c3d4g"])
def test_another_code_is_not_flickrs(code: str) -> None:
    assert flickr_number(f"1000268201_{code}") is None
