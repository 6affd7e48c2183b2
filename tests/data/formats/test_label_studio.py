"""Label Studio's export."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from defusedxml import ElementTree

from deixis.data.formats import read_captions
from deixis.data.formats.label_studio import write
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.errors import DeixisError


def box(name, x, **more):
    value = {"x": x, "y": 20, "width": 10, "height": 50, "rotation": 0, "rectanglelabels": ["animals"]}
    return {"id": name, "type": "rectanglelabels", "original_width": 200, "original_height": 100, "value": value} | more


def span(name, start, end, **more):
    return {"id": name, "type": "labels", "value": {"start": start, "end": end, "labels": ["animals"]}} | more


def relation(one, other):
    return {"type": "relation", "from_id": one, "to_id": other, "direction": "right"}


TASK = {
    "data": {"image": "/data/upload/3/0a1b2c3d-dog.jpg", "text": "A dog runs.\nThe dog and a cat."},
    "annotations": [
        {"was_cancelled": True, "result": []},
        {
            "result": [
                box("b1", 10),
                box("b2", 60),
                span("s1", 0, 5),
                span("s2", 12, 19),
                span("s3", 24, 29),
                relation("s1", "b1"),
                relation("b1", "s2"),
                relation("s3", "b2"),
            ]
        },
    ],
}


def test_relations_connect_phrases_with_boxes(store):
    source = read_captions(store("export.json", [TASK]))
    [photo] = source.photos
    assert (source.kind, photo.id, photo.width, photo.height) == ("label-studio", "dog", 200, 100)
    [first] = photo.captions[0].mentions
    second, cat = photo.captions[1].mentions
    assert [photo.captions[1].phrase(mention) for mention in (second, cat)] == ["The dog", "a cat"]
    assert first.chain == second.chain != cat.chain
    assert [box.xyxy for box in photo.boxes_of(first.chain)] == [(20, 20, 40, 70)]
    assert [box.xyxy for box in photo.boxes_of(cat.chain)] == [(120, 20, 140, 70)]


def test_notes_name_chains(store):
    task = copy.deepcopy(TASK)
    note = {"meta": {"text": ["chain 7"]}}
    task["annotations"] = [{"result": [box("b", 10, **note), span("s1", 0, 5, **note), span("s2", 12, 19, **note)]}]
    [photo] = read_captions(store("export.json", [task])).photos
    assert [mention.chain for caption in photo.captions for mention in caption.mentions] == ["7", "7"]
    assert len(photo.boxes_of("7")) == 1


def tasks_of(photos: list[Photo], folder: Path) -> list[dict[str, Any]]:
    write(photos, folder)
    loaded: list[dict[str, Any]] = json.loads((folder / "tasks.json").read_text())
    return loaded


def regions(task: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [region for region in task["annotations"][0]["result"] if region["type"] == kind]


def labels_in_interface(folder: Path, tag: str) -> list[str]:
    root = ElementTree.parse(folder / "config.xml").getroot()
    return [label.attrib["value"] for label in root.iter(tag).__next__().iter("Label")]


def test_a_line_break_inside_a_caption_moves_no_span(folder: Path) -> None:
    captions = [Caption.from_text(text, (Mention(3, 6, None),)) for text in ("A\r\ndog", "\nA cat")]
    task = tasks_of([Photo("1", tuple(captions))], folder)[0]
    assert task["data"]["captions"] == "A  dog\n A cat"
    assert [region["value"]["text"] for region in regions(task, "labels")] == ["dog", "cat"]


def test_a_box_at_the_border_does_not_pass_100_percent(folder: Path) -> None:
    photo = Photo("1", boxes=(Box((11, 11, 11, 11)),), width=11, height=11)
    value = regions(tasks_of([photo], folder)[0], "rectanglelabels")[0]["value"]
    assert (value["x"], value["y"]) == (100, 100)


@pytest.mark.parametrize("odd", ['<a> & "b"', "two\nlines", "control \x01", "\x01", "  "])
def test_the_interface_has_every_label_of_the_tasks(odd: str, folder: Path) -> None:
    mention = Mention(0, 1, "1", (odd, "people"))
    photo = Photo("1", (Caption.from_text("a", (mention,)),), (Chain("1"),), (Box((0, 0, 1, 1), label=odd),), 9, 9)
    task = tasks_of([photo], folder)[0]
    box, span = regions(task, "rectanglelabels")[0], regions(task, "labels")[0]
    assert set(box["value"]["rectanglelabels"]) <= set(labels_in_interface(folder, "RectangleLabels"))
    assert set(span["value"]["labels"]) <= set(labels_in_interface(folder, "Labels"))


def test_an_address_that_is_none_is_an_error_of_one_line(store):
    task = {**TASK, "data": {**TASK["data"], "image": "http://["}}
    with pytest.raises(DeixisError):
        list(read_captions(store("export.json", [task])).photos)
