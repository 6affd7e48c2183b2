"""Wrong kinds of things, handed to every public function: one line each, and no traceback."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import deixis
from deixis.data.samples import SAMPLES

DOGS = SAMPLES / "images" / "dogs.jpg"


def searched(index: Path, **options: Any) -> object:
    with deixis.open_index(index) as photos:
        return photos.search(options.pop("sentence", "two dogs"), **options)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda _: deixis.open_index(5), "index: "),
        (lambda index: searched(index, sentence=None), "sentence: "),
        (lambda index: searched(index, sentence=b"two dogs"), "sentence: "),
        (lambda index: searched(index, top=0), "top=0: "),
        (lambda index: searched(index, top="5"), "top='5': "),
        (lambda index: searched(index, top=True), "top=True: "),
        (lambda index: searched(index, after=2024), "after=2024: "),
        (lambda index: searched(index, before="soon"), "'soon': "),
        (lambda index: searched(index, folder=Path("holiday")), "folder: "),
        (lambda index: deixis.open_index(index).like(None), "photo: "),
        (lambda index: deixis.open_index(index).like(DOGS, top=0), "top=0: "),
        (lambda _: deixis.load(None), "model: "),
        (lambda _: deixis.load(b"two-branch"), "model: "),
        (lambda _: deixis.load("two-branch").encode_sentences([None]), r"sentences\[0\]: "),
        (lambda _: deixis.load("two-branch").encode_sentences(["a", b"b"]), r"sentences\[1\]: "),
        (lambda _: deixis.load("two-branch").encode_sentences(None), "sentences: "),
        (lambda _: deixis.load("two-branch").encode_sentences("a dog"), "sentences: "),
        (lambda _: deixis.load("two-branch").encode_images(DOGS), "photos: "),
        (lambda _: deixis.load("two-branch").encode_images([None]), "photo: "),
        (lambda _: deixis.ground(DOGS, None), "sentence: "),
        (lambda _: deixis.ground(None, "two dogs"), "photo: "),
        (lambda _: deixis.ground(DOGS, "two dogs", model=None), "model: "),
        (lambda _: deixis.caption(DOGS, beam=0), "beam=0: "),
        (lambda _: deixis.caption(DOGS, top=0), "top=0: "),
        (lambda _: deixis.caption(DOGS, top=1.5), "top=1.5: "),
        (lambda _: deixis.caption(5), "photo: "),
        (lambda _: deixis.describe(DOGS, top=0), "top=0: "),
        (lambda _: deixis.describe(DOGS, regions=0), "regions=0: "),
        (lambda _: deixis.describe(DOGS, region="0,0,9,9"), "region '0,0,9,9': "),
        (lambda _: deixis.describe(DOGS, region=5), "region 5: "),
        (lambda _: deixis.describe(DOGS, bank=5), "bank: "),
        (lambda _: deixis.describe("nowhere.jpg"), "nowhere.jpg: "),
    ],
)
def test_arguments_of_a_wrong_type_are_refused(
    sample_index: Path, call: Callable[[Path], object], argument: str
) -> None:
    with pytest.raises(deixis.DeixisError, match=f"^{argument}") as error:
        call(sample_index)
    assert "\n" not in str(error.value)


def test_paths_may_be_strings_and_dates_may_be_date_objects(sample_index: Path) -> None:
    index = deixis.open_index(str(sample_index))
    assert index.like(str(DOGS), everything=True) == index.like(DOGS, everything=True)
    for then in (date(1990, 1, 1), datetime(1990, 1, 1, 12), "1990"):
        assert searched(sample_index, after=then, everything=True) == searched(
            sample_index, after="1990", everything=True
        )
    assert deixis.ground(str(DOGS), "Two dogs.") == deixis.ground(DOGS, "Two dogs.")


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1"])
def test_an_open_image_in_any_mode_is_a_photo(mode: str) -> None:
    assert deixis.load("two-branch").encode_images([Image.open(DOGS).convert(mode)]).shape == (1, 512)
