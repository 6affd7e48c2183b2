"""Karpathy's JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deixis.data.readers import read_captions
from deixis.data.records import Photo
from deixis.data.writers.karpathy import tokens, write


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
