"""COCO's ``captions_*.json``, and the boxes of ``instances_*.json`` beside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from deixis.data.readers.boxes import corners
from deixis.data.readers.content import Content
from deixis.data.readers.names import Names
from deixis.data.readers.source import Source
from deixis.data.readers.values import Value
from deixis.data.records import Annotated, Box, Caption, Photo
from deixis.errors import DatasetError

KIND = "coco-captions"
FORM = "COCO's captions_*.json (images and annotations)"

_Key = int | str


def recognises(content: Content) -> bool:
    """Whether it is a document of ``images`` and ``annotations``."""
    match content.document:
        case {"images": [*_], "annotations": [*_]}:
            return True
    return False


def read(content: Content) -> Source:
    """Photos in the order of ``images``, captions in the order of ``annotations``."""
    document = Value(content.document, content.path)
    images = _by_key(document["images"].items())
    captions = _by_image(document["annotations"].items())
    for key, said in captions.items():
        if key not in images:
            raise said[0]["image_id"].wrong("there is no such image")
    boxes = _read_instances(content.instances, images) if content.instances else {}
    return Source(KIND, _photos(images, captions, boxes), len(images))


def _by_key(values: list[Value]) -> dict[_Key, Value]:
    """Images or categories by their ``id``."""
    found: dict[_Key, Value] = {}
    for value in values:
        key = value["id"].key()
        if key in found:
            raise value["id"].wrong("comes a second time")
        found[key] = value
    return found


def _by_image(annotations: list[Value]) -> dict[_Key, list[Value]]:
    found: dict[_Key, list[Value]] = defaultdict(list)
    for annotation in annotations:
        found[annotation["image_id"].key()].append(annotation)
    return found


def _photos(
    images: dict[_Key, Value], captions: dict[_Key, list[Value]], boxes: dict[_Key, tuple[Box, ...]]
) -> Iterator[Photo]:
    names = Names()
    for key, image in images.items():
        name = image["file_name"].sentence()
        photo_id = names.new_id_of(name, image.wrong)
        width, height = image.side("width"), image.side("height")
        yield Photo(
            photo_id,
            tuple(Caption.from_text(said["caption"].sentence()) for said in captions.get(key, ())),
            boxes=boxes.get(key, ()),
            width=width,
            height=height,
            annotated=Annotated(photo_id, name, width, height),
        )


def _read_instances(path: Path, images: dict[_Key, Value]) -> dict[_Key, tuple[Box, ...]]:
    """The boxes of each image, crowds among them; those of images without captions are left out."""
    content = Content(path)
    if content.is_tree or content.document is None:
        raise DatasetError(f"{path}: expected COCO's instances_*.json")
    document = Value(content.document, path)
    categories = {key: category["name"].text() for key, category in _by_key(document["categories"].items()).items()}
    drawn = _by_image(document["annotations"].items())
    if drawn and not drawn.keys() & images.keys():
        raise DatasetError(f"{path}: none of its boxes is in an image of the captions; is it another split?")
    return {key: _boxes(drawn[key], categories) for key in images if key in drawn}


def _boxes(annotations: list[Value], categories: dict[_Key, str]) -> tuple[Box, ...]:
    labels = []
    for annotation in annotations:
        label = categories.get(annotation["category_id"].key())
        if label is None:
            raise annotation["category_id"].wrong("there is no such category")
        labels.append(label)
    given = [annotation["bbox"] for annotation in annotations]
    places = corners([box.numbers(4) for box in given], given)
    return tuple(Box(xyxy, label=label) for xyxy, label in zip(places, labels, strict=True))
