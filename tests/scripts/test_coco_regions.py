"""scripts/coco_regions.py: noun phrases get the boxes of things that the picture leaves no doubt about."""

from __future__ import annotations

import json
from pathlib import Path

import coco_regions

from deixis.data.dataset import Dataset
from deixis.data.derived import make_dataset
from deixis.data.records import Caption, Photo

TEXTS = {
    1: "A man holds two dogs beside a fire hydrant.",
    2: "A woman and a man look at a hydrant.",
    3: "A teddy bear on a table.",
}
LEFT, RIGHT, WHOLE = (0, 0, 0.5, 1), (0.5, 0.5, 0.75, 1), (0, 0, 1, 1)
BOXES = [
    (1, True, [("person", *LEFT), ("dog", *RIGHT), ("dog", 0.75, 0.5, 1, 1), ("fire hydrant", *RIGHT)]),
    (2, False, [("person", *LEFT), ("person", *RIGHT), ("fire hydrant", *WHOLE)]),
    (3, True, [("teddy bear", *LEFT), ("bear", *WHOLE)]),
]


def test_phrases_have_the_boxes_of_what_they_name_without_doubt(tmp_path: Path) -> None:
    photos = []
    for number, text in TEXTS.items():
        photos.append(Photo(f"{number:012d}", (Caption.from_text(text),), width=80, height=40, splits=("train",)))
    make_dataset(tmp_path / "coco.data", photos)
    lines = ({"id": number, "complete": complete, "boxes": boxes} for number, complete, boxes in BOXES)
    (tmp_path / "boxes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert coco_regions.main([str(tmp_path / name) for name in ("coco.data", "boxes.jsonl", "regions.data")]) == 0
    found = {photo.id: photo for photo in Dataset(tmp_path / "regions.data").photos}
    assert set(found) == {f"{1:012d}", f"{3:012d}"}, "two people may be either, and other things are not all boxed"
    first, third = (found[f"{number:012d}"] for number in (1, 3))
    [caption] = first.captions
    assert [(caption.phrase(each), each.chain) for each in caption.mentions] == [
        ("A man", "person"), ("two dogs", "dog"), ("a fire hydrant", "fire hydrant")
    ]  # fmt: skip
    assert first.union_boxes()["dog"] == (40, 20, 80, 40)
    assert {(caption.phrase(each), each.chain) for caption in third.captions for each in caption.mentions} == {
        ("A teddy bear", "teddy bear")
    }
