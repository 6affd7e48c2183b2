"""COCO ``captions_*.json``, with boxes from ``instances_*.json``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from deixis.data.names import PhotoIds, Source
from deixis.data.readers.content import Content
from deixis.data.readers.values import Value, xywh_to_corners
from deixis.data.records import AnnotationSource, Box, Caption, Photo
from deixis.errors import DatasetError

KIND = "coco-captions"
FORM = "COCO's captions_*.json (images and annotations)"

_Key = int | str


def recognizes(content: Content) -> bool:
    match content.document:
        case {"images": [*_], "annotations": [*_]}:
            return True
    return False


def read(content: Content) -> Source:
    """Photos in the order of ``images``, captions in the order of ``annotations``."""
    document = Value(content.document, content.path)
    images = _by_key(document["images"].items())
    captions = _by_image(document["annotations"].items())
    for key, values in captions.items():
        if key not in images:
            raise values[0]["image_id"].error("no such image")
    boxes = _read_instances(content.instances, images) if content.instances else {}
    return Source(KIND, _photos(images, captions, boxes), len(images))


def _by_key(values: list[Value]) -> dict[_Key, Value]:
    """Index images or categories by ``id``."""
    found: dict[_Key, Value] = {}
    for value in values:
        key = value["id"].key()
        if key in found:
            raise value["id"].error("duplicate id")
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
    ids = PhotoIds()
    for key, image in images.items():
        name = image["file_name"].nonblank_text()
        photo_id = ids.add_new(name, image.error)
        width, height = image.side("width"), image.side("height")
        yield Photo(
            photo_id,
            tuple(Caption.from_text(each["caption"].nonblank_text()) for each in captions.get(key, ())),
            boxes=boxes.get(key, ()),
            width=width,
            height=height,
            annotated=AnnotationSource(photo_id, name, width, height),
        )


def _read_instances(path: Path, images: dict[_Key, Value]) -> dict[_Key, tuple[Box, ...]]:
    """Return the boxes of each image with captions, including crowds."""
    content = Content(path)
    if content.is_tree or content.document is None:
        raise DatasetError(f"{path}: expected COCO's instances_*.json")
    document = Value(content.document, path)
    categories = {key: category["name"].text() for key, category in _by_key(document["categories"].items()).items()}
    drawn = _by_image(document["annotations"].items())
    if drawn and not drawn.keys() & images.keys():
        raise DatasetError(f"{path}: no box belongs to an image of the captions; use the instances of the same split")
    return {key: _boxes(drawn[key], categories) for key in images if key in drawn}


def _boxes(annotations: list[Value], categories: dict[_Key, str]) -> tuple[Box, ...]:
    boxes = []
    for annotation in annotations:
        label = categories.get(annotation["category_id"].key())
        if label is None:
            raise annotation["category_id"].error("no such category")
        bbox = annotation["bbox"]
        boxes.append(Box(xywh_to_corners(bbox.numbers(4), bbox), label=label))
    return tuple(boxes)
