"""Karpathy's JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

from deixis.data.formats import read_captions
from deixis.data.formats.karpathy import tokens, write
from deixis.data.records import Photo
from tests.data.test_hostile import with_change

FLICKR = {
    "images": [
        {
            "sentids": [0, 1],
            "imgid": 0,
            "sentences": [
                {"tokens": ["a", "black", "dog"], "raw": "A black dog .", "imgid": 0, "sentid": 0},
                {"tokens": ["it", "runs"], "raw": "It runs .", "imgid": 0, "sentid": 1},
            ],
            "split": "train",
            "filename": "2513260012_03d33305cf.jpg",
        },
        {"sentids": [], "imgid": 1, "sentences": [], "split": "test", "filename": "2903617548_d3e38d7f88.jpg"},
    ],
    "dataset": "flickr8k",
}


def test_sentences_and_splits_of_each_photo_are_kept(store):
    source = read_captions(store("dataset_flickr8k.json", FLICKR))
    photos = list(source.photos)
    assert (source.kind, source.total) == ("karpathy", 2)
    assert [photo.id for photo in photos] == ["2513260012_03d33305cf", "2903617548_d3e38d7f88"]
    assert [caption.text for caption in photos[0].captions] == ["A black dog .", "It runs ."]
    assert [photo.splits for photo in photos] == [("train",), ("test",)]


def test_a_folder_of_coco_is_part_of_the_name(store):
    image = {
        "filepath": "val2014",
        "filename": "COCO_val2014_000000391895.jpg",
        "cocoid": 391895,
        "split": "restval",
        "sentences": [{"raw": "A man with a red helmet. ", "tokens": [], "sentid": 1}],
    }
    photo = next(read_captions(store("dataset_coco.json", {"images": [image], "dataset": "coco"})).photos)
    assert photo.id == "COCO_val2014_000000391895"
    assert photo.annotated.file == "val2014/COCO_val2014_000000391895.jpg"
    assert photo.splits == ("restval",)
    assert photo.captions[0].text == "A man with a red helmet."


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (("images", 0, "sentences", 1, "raw"), 3, "images[0].sentences[1].raw: "),
        (("images", 0, "sentences", 1, "raw"), " ", "images[0].sentences[1].raw: "),
        (("images", 0, "sentences", 0, "raw"), "half \ud83d", "images[0].sentences[0].raw: "),
        (("images", 0, "sentences", 1), {}, "images[0].sentences[1]: "),
        (("images", 0, "sentences"), "x", "images[0].sentences: "),
        (("images", 1), [], "images[1]: "),
        (("images", 1, "filename"), None, "images[1]: "),
        (("images", 1, "split"), "../x", "images[1].split: "),
        (("images", 1, "filename"), "2513260012_03d33305cf.jpg", "images[1]: "),
        (("images", 1, "filename"), "2513260012_03d33305cf.png", "images[1]: "),
    ],
)
def test_a_bad_value_is_named_by_its_path(store, refused, path, value, where):
    refused(store("dataset.json", with_change(FLICKR, path, value)), where)


@pytest.fixture
def document(dogs: list[Photo], folder: Path) -> dict[str, Any]:
    write(dogs, folder)
    loaded: dict[str, Any] = json.loads((folder / "dataset.json").read_text())
    return loaded


def test_a_photo_has_the_published_keys(document: dict[str, Any]) -> None:
    assert document["dataset"] == "deixis"
    assert document["images"][0] == {
        "filepath": "zoo",
        "filename": "101.jpg",
        "imgid": 0,
        "split": "train",
        "sentids": [0, 1],
        "sentences": [
            {
                "tokens": ["a", "man", "🙂", "and", "his", "dogs"],
                "raw": "A man 🙂 and his dogs.",
                "imgid": 0,
                "sentid": 0,
            },
            {"tokens": ["a", "sunny", "day"], "raw": "A sunny day.", "imgid": 0, "sentid": 1},
        ],
    }


def test_sentences_are_numbered_and_other_photos_are_in_the_rest(document: dict[str, Any]) -> None:
    assert [image["sentids"] for image in document["images"]] == [[0, 1], [2], []]
    assert [image["split"] for image in document["images"]] == ["train", "rest", "rest"]
    assert document["images"][1]["filename"] == "a name.jpg"
    assert "filepath" not in document["images"][1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # From the published dataset_flickr30k.json and dataset_coco.json.
        ("Two young, White males are outside.", ["two", "young", "white", "males", "are", "outside"]),
        ("A background of cloud-wreathed mountains. ", ["a", "background", "of", "cloud", "wreathed", "mountains"]),
        ("The back of a chef's knife. ", ["the", "back", "of", "a", "chefs", "knife"]),
        # Our own.
        ("“Café”… costs 5$ — हिंदी!", ["café", "costs", "5", "हिंदी"]),
        (" . ", []),
    ],
)
def test_tokens_are_words_in_lower_case_without_punctuation(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


def test_the_written_file_can_be_imported(document: dict[str, Any], dogs: list[Photo], folder: Path) -> None:
    photos = list(read_captions(folder / "dataset.json").photos)
    assert [photo.splits for photo in photos] == [("train",), ("rest",), ("rest",)]
    assert [[c.text for c in photo.captions] for photo in photos] == [
        ["A man 🙂 and his dogs.", "A sunny day."],
        ["A dog."],
        [],
    ]
