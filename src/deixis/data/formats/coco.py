"""COCO: ``captions_*.json``, and ``instances_*.json`` with boxes.

Written are ``captions_SPLIT.json``, and ``instances_SPLIT.json`` for splits that have boxes. Photos without a split are
in ``rest``. A photo of two splits is in the files of both, under the same id. Image ids are the photo ids if all are
numbers, else consecutive numbers. Entity types are categories 1 to 8; labels of the data set follow in alphabetical
order. All files list the same categories.

Not written: mentions, chains and trees, whether a caption is about another photo, flags of chains without boxes, all
but the first type of an entity, blank captions and region phrases.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from deixis import geometry
from deixis.data.documents import Value, read_document
from deixis.data.formats.common import (
    boxes_array,
    categories_of_boxes,
    compact_number,
    copy_photos,
    file_name,
    json_document,
    sentences_of,
    splits_of,
    to_json,
    write_text,
)
from deixis.data.formats.content import Content, xywh_to_corners
from deixis.data.names import CaptionSource, PhotoIds
from deixis.data.records import ENTITY_TYPES, AnnotationSource, Box, Caption, Photo
from deixis.errors import DatasetError

KIND = "coco-captions"
FORM = "COCO's captions_*.json (images and annotations)"

_Key = int | str


def recognizes(content: Content) -> bool:
    match content.document:
        case {"images": [*_], "annotations": [*_]}:
            return True
    return False


def read(content: Content) -> CaptionSource:
    """Photos in the order of ``images``, captions in the order of ``annotations``."""
    document = Value(content.document, content.path)
    images = _by_key(document["images"].items())
    captions = _by_image(document["annotations"].items())
    for key, values in captions.items():
        if key not in images:
            raise values[0]["image_id"].error("no such image")
    boxes = _read_instances(content.instances, images) if content.instances else {}
    return CaptionSource(KIND, _photos(images, captions, boxes), len(images))


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
    document = read_document(path)
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


_LARGEST_ID = 2**53 - 1
"""Largest integer that JSON readers with double precision represent exactly."""

_INFO = {"description": "written by deixis"}


class _Spool:
    """JSON items in a temporary file, which `stack` closes."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._file = stack.enter_context(tempfile.TemporaryFile("w+", dir=folder, encoding="utf-8"))  # noqa: SIM115
        self.count = 0

    def add(self, items: Sequence[Mapping[str, Any]]) -> None:
        self._file.writelines(to_json(item) + "\n" for item in items)
        self.count += len(items)

    def items(self) -> Iterator[dict[str, Any]]:
        self._file.seek(0)
        for line in self._file:
            yield json.loads(line)


_Draft = tuple[_Spool, _Spool, _Spool]
"""Images, captions and boxes of a split. Ids are assigned at the end, when all photos and categories are known."""


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    drafts: dict[str, _Draft] = {}
    photo_ids: list[str] = []
    names: set[str] = set()
    caption_id = instance_id = 1
    with ExitStack() as stack:
        for index, photo in enumerate(copy_photos(photos, folder, images)):
            photo_ids.append(photo.id)
            captions = list(_captions(photo, index, caption_id))
            instances = list(_instances(photo, index, instance_id))
            caption_id += len(captions)
            instance_id += len(instances)
            names.update(instance["category_id"] for instance in instances)
            for split in splits_of(photo):
                if split not in drafts:
                    drafts[split] = _Spool(folder, stack), _Spool(folder, stack), _Spool(folder, stack)
                for spool, items in zip(drafts[split], ([_image(photo, index)], captions, instances), strict=True):
                    spool.add(items)
        image_ids, categories = _image_ids(photo_ids), _category_ids(names)
        for split, draft in drafts.items():
            _finish(draft, split, folder, image_ids, categories)


def _image(photo: Photo, index: int) -> dict[str, Any]:
    size = {"width": photo.width, "height": photo.height}
    return {"id": index, "file_name": file_name(photo)} | {k: v for k, v in size.items() if v is not None}


def _captions(photo: Photo, index: int, first_id: int) -> Iterator[dict[str, Any]]:
    for caption_id, text in enumerate(sentences_of(photo), start=first_id):
        yield {"id": caption_id, "image_id": index, "caption": text}


def _instances(photo: Photo, index: int, first_id: int) -> Iterator[dict[str, Any]]:
    """Yield the boxes of a photo, with category names for category ids."""
    corners = boxes_array(photo)
    shapes = zip(corners.tolist(), geometry.to_xywh(corners).tolist(), geometry.area(corners).tolist(), strict=True)
    named = zip(categories_of_boxes(photo), shapes, strict=True)
    for instance_id, (category, (xyxy, xywh, area)) in enumerate(named, start=first_id):
        x1, y1, x2, y2 = map(compact_number, xyxy)
        yield {
            "id": instance_id,
            "image_id": index,
            "category_id": category,
            "bbox": [compact_number(value) for value in xywh],
            "area": compact_number(area),
            "iscrowd": 0,
            "segmentation": [[x1, y1, x2, y1, x2, y2, x1, y2]],
        }


def _image_ids(photo_ids: Sequence[str]) -> list[int]:
    """Return the photo ids as numbers if possible, else consecutive numbers from 1."""
    if all(photo_id.isascii() and photo_id.isdigit() for photo_id in photo_ids):
        own = [int(photo_id) for photo_id in photo_ids]
        if len(set(own)) == len(own) and max(own, default=0) <= _LARGEST_ID:
            return own
    return list(range(1, len(photo_ids) + 1))


def _category_ids(names: set[str]) -> dict[str, int]:
    """Return a number for each category; those of entity types are fixed."""
    known = {name: number for number, name in enumerate(ENTITY_TYPES, start=1)}
    new = {name: number for number, name in enumerate(sorted(names - known.keys()), start=len(known) + 1)}
    return {name: number for name, number in (known | new).items() if name in names}


def _finish(draft: _Draft, split: str, folder: Path, image_ids: Sequence[int], categories: Mapping[str, int]) -> None:
    images, captions, instances = draft

    def numbered(spool: _Spool, key: str) -> Iterator[dict[str, Any]]:
        for item in spool.items():
            category = {"category_id": categories[item["category_id"]]} if "category_id" in item else {}
            yield item | {key: image_ids[item[key]]} | category

    def document(annotations: _Spool) -> dict[str, object]:
        lists = {"images": numbered(images, "id"), "annotations": numbered(annotations, "image_id")}
        return {"info": _INFO, "licenses": [], **lists}

    write_text(folder / f"captions_{split}.json", json_document(document(captions)))
    if instances.count:
        listed = [{"id": number, "name": name, "supercategory": name} for name, number in categories.items()]
        write_text(folder / f"instances_{split}.json", json_document(document(instances) | {"categories": listed}))
