from __future__ import annotations

from pathlib import Path

import pytest

from deixis.data.records import AnnotationSource, Photo
from deixis.errors import DatasetError
from deixis.evaluation.captions.results_file import match_results, read_results


def results_file(folder: Path, text: str) -> Path:
    path = folder / "results.json"
    path.write_text(text, encoding="utf-8")
    return path


def test_ids_may_be_numbers_or_text(tmp_path: Path) -> None:
    text = '[{"image_id": 42, "caption": "a dog"}, {"image_id": "b", "caption": "ein Müller", "id": 7}]'
    assert read_results(results_file(tmp_path, text)) == {"42": "a dog", "b": "ein Müller"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"image_id": 1}', "list"),
        ("[]", "empty"),
        ("[1]", r"\[0\]"),
        ('[{"caption": "a"}]', r"\[0\].*image_id"),
        ('[{"image_id": 1}]', r"\[0\].*caption"),
        ('[{"image_id": 1, "caption": "a"}, {"image_id": "1", "caption": "b"}]', r"\[1\].*image_id 1"),
        ('[{"image_id": NaN, "caption": "a"}]', r"\[0\].image_id"),
        ('[{"image_id": 1.5, "caption": "a"}]', "image_id.*number"),
        ('[{"image_id": true, "caption": "a"}]', "image_id.*true"),
        ('[{"image_id": " ", "caption": "a"}]', r"\[0\].image_id"),
        ('[{"image_id": 1, "caption": null}]', "caption"),
        ('[{"image_id": 1, "caption": " "}]', r"\[0\].caption"),
        ('[{"image_id": 1, "caption": "a"', "line 1 column"),
        ("[" * 100_000, "nested|JSON"),
    ],
)
def test_an_invalid_file_is_reported_in_one_line_with_the_entry(tmp_path: Path, text: str, message: str) -> None:
    path = results_file(tmp_path, text)
    with pytest.raises(DatasetError, match=message) as caught:
        read_results(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="none.json"):
        read_results(tmp_path / "none.json")
    (tmp_path / "bytes.json").write_bytes(b'["\xff\xfe"]')
    with pytest.raises(DatasetError, match="bytes.json"):
        read_results(tmp_path / "bytes.json")


def test_ids_are_matched_by_id_then_by_annotation_then_by_number() -> None:
    photos = [
        Photo("42"),
        Photo("1000_abc", annotated=AnnotationSource("1000", "1000_abc.jpg")),
        Photo("COCO_val2014_000000000007"),
        Photo("x", file="val/COCO_val2014_000000000008.jpg"),
    ]
    results = {"7": "seven", "42": "forty-two", "1000": "thousand", "000000000008": "eight"}
    assert match_results(results, photos) == {
        "42": "forty-two",
        "1000_abc": "thousand",
        "COCO_val2014_000000000007": "seven",
        "x": "eight",
    }


def test_an_exact_id_wins_over_a_number() -> None:
    photos = [Photo("7"), Photo("COCO_val2014_000000000007")]
    assert match_results({"7": "a", "COCO_val2014_000000000007": "b"}, photos) == {
        "7": "a",
        "COCO_val2014_000000000007": "b",
    }


@pytest.mark.parametrize(
    ("results", "photos", "message"),
    [
        ({"1": "a"}, ["1", "2"], "photo 2"),
        ({"1": "a", "9": "b"}, ["1"], "image_id 9"),
        ({"7": "a", "x_7": "b"}, ["x_7"], "7 and x_7"),
        ({"7": "a"}, ["x_7", "y_7"], "image_id 7"),
    ],
)
def test_captions_that_do_not_match_the_photos_are_reported(
    results: dict[str, str], photos: list[str], message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        match_results(results, [Photo(photo) for photo in photos])
