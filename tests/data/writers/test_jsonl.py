"""JSON Lines."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings

from deixis.data.readers import read_captions
from deixis.data.records import Photo
from deixis.data.writers.jsonl import write
from tests.data.strategies import photo_lists


def read_again(photos: list[Photo]) -> list[Photo]:
    with tempfile.TemporaryDirectory() as folder:
        write(photos, Path(folder))
        return list(read_captions(Path(folder) / "photos.jsonl").photos)


@settings(deadline=None)
@given(photo_lists.filter(bool))
def test_any_photo_round_trips(photos: list[Photo]) -> None:
    assert read_again(photos) == photos


def test_example_photos_round_trip(dogs: list[Photo]) -> None:
    assert read_again(dogs) == dogs


def test_a_line_has_the_documented_keys(dogs: list[Photo], folder: Path) -> None:
    write(dogs, folder)
    first, second, third = (folder / "photos.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(first) == {
        "id": "101",
        "file": "zoo/101.jpg",
        "width": 200,
        "height": 100,
        "splits": ["train", "dev"],
        "sha256": "ab" * 32,
        "annotated": {"id": "101", "file": "101.jpg", "width": 400, "height": 200, "depth": 3},
        "captions": [
            {
                "text": "A man 🙂 and his dogs.",
                "mentions": [
                    {"span": [0, 5], "chain": "7", "types": ["people"]},
                    {"span": [12, 15], "chain": None, "types": ["notvisual"]},
                    {"span": [16, 20], "chain": "8", "types": ["animals", "other"]},
                ],
                "tree": "(NP (DT A) (NN man))",
            },
            {
                "text": "A sunny day.",
                "mentions": [{"span": [0, 11], "chain": "9", "types": ["scene"]}],
                "related": False,
            },
            {"text": "red hat", "mentions": [{"span": [0, 7], "chain": "10"}], "region_phrase": True},
        ],
        "chains": [
            {"id": "7"},
            {"id": "8"},
            {"id": "9", "scene": True, "no_box": True},
            {"id": "10", "annotated": False},
        ],
        "boxes": [
            {"box": [10, 20, 60, 80], "chains": ["7", "10"]},
            {"box": [100, 50, 150.5, 90], "chains": ["8"]},
            {"box": [150, 50, 210, 90], "chains": ["8"]},
            {"box": [0, 0, 5, 5], "label": "hat"},
        ],
    }
    assert "🙂" in first
    assert '"box":[10,20,60,80]' in first
    assert json.loads(second)["annotated"] == {"id": "0102", "file": "a name.jpg"}
    assert third == '{"id":"103"}'
