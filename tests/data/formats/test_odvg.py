"""ODVG."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deixis.data.formats import read_captions
from deixis.data.formats.odvg import write
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.errors import DatasetError

REGIONS = [
    {"bbox": [1, 2, 30, 40], "phrase": "A man", "tokens_positive": [[0, 5]]},
    {"bbox": [5, 5, 9, 9], "phrase": "dogs", "tokens_positive": [[12, 16]]},
    {"bbox": [10, 5, 19, 9], "phrase": "dogs", "tokens_positive": [[12, 16]]},
]
LINES = [
    {
        "filename": "a/1.jpg",
        "height": 50,
        "width": 60,
        "grounding": {"caption": "A man walks dogs.", "regions": REGIONS},
    },
    {
        "filename": "a/1.jpg",
        "height": 50,
        "width": 60,
        "grounding": {"caption": "The guy is there.", "regions": [{"bbox": [[1, 2, 30, 40]], "phrase": "The guy"}]},
    },
    {
        "filename": "2.jpg",
        "height": 50,
        "width": 60,
        "detection": {"instances": [{"bbox": [0, 0, 5, 5], "label": 3, "category": "cat"}]},
    },
]


def lines(records):
    return "".join(json.dumps(record) + "\n" for record in records)


def test_phrases_with_the_same_boxes_in_other_captions_are_one_chain(store):
    source = read_captions(store("train.jsonl", lines(LINES)))
    first, second = source.photos
    assert (source.kind, source.total) == ("odvg", 2)
    assert (first.id, first.annotated.file, first.width, first.height) == ("1", "a/1.jpg", 60, 50)
    man, dogs = first.captions[0].mentions
    [guy] = first.captions[1].mentions
    assert first.captions[0].phrase(dogs) == "dogs"
    assert man.chain == guy.chain != dogs.chain
    assert [box.xyxy for box in first.boxes_of(man.chain)] == [(1, 2, 30, 40)]
    assert len(first.boxes_of(dogs.chain)) == 2
    assert [(box.label, box.chains) for box in second.boxes] == [("cat", ())]


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def dog(**changes: Any) -> Photo:
    caption = Caption.from_text("A dog", (Mention(2, 5, "1"),))
    photo = Photo("1", (caption,), (Chain("1"),), (Box((0, 0, 9, 9), ("1",)),), 10, 10)
    return replace(photo, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"width": None},
        *({"boxes": (Box(box, ("1",)),)} for box in [(5, 5, 5.5, 9), (5, 5, 9, 5), (-9, 0, 0.5, 9), (12, 0, 19, 9)]),
    ],
    ids=["unknown size", "thin", "flat", "left", "right"],
)
def test_photos_of_unknown_size_and_boxes_with_less_than_a_pixel_in_the_photo_are_skipped(
    changes: dict[str, Any], folder: Path
) -> None:
    write([dog(), dog(id="2", **changes)], folder)
    assert [line["filename"] for line in lines_of(folder / "rest.jsonl")] == ["1.jpg"]


def test_offsets_match_the_stripped_caption(folder: Path) -> None:
    write([dog(captions=(Caption.from_text("  A dog ", (Mention(4, 7, "1"),)),))], folder)
    grounding = lines_of(folder / "rest.jsonl")[0]["grounding"]
    (start, end), *_ = grounding["regions"][0]["tokens_positive"]
    assert grounding["caption"] == "A dog"
    assert grounding["caption"][start:end] == grounding["regions"][0]["phrase"] == "dog"


def test_data_without_any_region_is_refused(folder: Path) -> None:
    with pytest.raises(DatasetError, match="odvg"):
        write([dog(boxes=())], folder)
