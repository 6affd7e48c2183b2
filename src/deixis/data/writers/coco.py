"""COCO: ``captions_SPLIT.json``, and ``instances_SPLIT.json`` for splits that have boxes.

Photos of no split are in ``rest``; a photo of two splits is in the files of both, under the same ids. Image ids are the
photos' own ids where all of them are numbers, else running ones. Entities' types are categories 1 to 8, labels of the
data's own follow in the order of the alphabet; all files list the same categories.

Lost: which words a box belongs to (mentions, chains, trees), which captions are about another photo, what is said of
chains without boxes, all but the first type of a thing, blank captions, and phrases that describe a region, which are
no captions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from deixis import geometry
from deixis.data.records import ENTITY_TYPES, Photo
from deixis.data.writers.common import (
    Spool,
    bring_along,
    categories_of_boxes,
    corners_of,
    file_name,
    json_document,
    number,
    sentences_of,
    splits_of,
    write_text,
)

_LARGEST_ID = 2**53 - 1
"""Beyond it, programs that read JSON numbers as doubles confuse ids."""

_INFO = {"description": "written by deixis"}


class _Draft:
    """What a split's files will hold. Photos and categories are not numbered before the last of them is known."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.images, self.captions, self.instances = (Spool(folder) for _ in range(3))
        for spool in (self.images, self.captions, self.instances):
            stack.callback(spool.close)


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    """Write ``captions_SPLIT.json`` and ``instances_SPLIT.json`` for each split."""
    drafts: dict[str, _Draft] = {}
    photo_ids: list[str] = []
    names: set[str] = set()
    caption_id = instance_id = 1
    with ExitStack() as stack:
        for place, photo in enumerate(bring_along(photos, folder, images)):
            photo_ids.append(photo.id)
            captions = list(_captions(photo, place, caption_id))
            instances = list(_instances(photo, place, instance_id))
            caption_id += len(captions)
            instance_id += len(instances)
            names.update(instance["category_id"] for instance in instances)
            for split in splits_of(photo):
                if split not in drafts:
                    drafts[split] = _Draft(folder, stack)
                drafts[split].images.add(_image(photo, place))
                for caption in captions:
                    drafts[split].captions.add(caption)
                for instance in instances:
                    drafts[split].instances.add(instance)
        image_ids, categories = _image_ids(photo_ids), _category_ids(names)
        for split, draft in drafts.items():
            _finish(draft, split, folder, image_ids, categories)


def _image(photo: Photo, place: int) -> dict[str, Any]:
    size = {"width": photo.width, "height": photo.height}
    return {"id": place, "file_name": file_name(photo)} | {k: v for k, v in size.items() if v is not None}


def _captions(photo: Photo, place: int, first_id: int) -> Iterator[dict[str, Any]]:
    for caption_id, text in enumerate(sentences_of(photo), start=first_id):
        yield {"id": caption_id, "image_id": place, "caption": text}


def _instances(photo: Photo, place: int, first_id: int) -> Iterator[dict[str, Any]]:
    """The boxes of a photo; in place of a category's id stands its name."""
    corners = corners_of(photo)
    shapes = zip(corners.tolist(), geometry.to_xywh(corners).tolist(), geometry.area(corners).tolist(), strict=True)
    named = zip(categories_of_boxes(photo), shapes, strict=True)
    for instance_id, (category, (xyxy, xywh, area)) in enumerate(named, start=first_id):
        x1, y1, x2, y2 = map(number, xyxy)
        yield {
            "id": instance_id,
            "image_id": place,
            "category_id": category,
            "bbox": [number(value) for value in xywh],
            "area": number(area),
            "iscrowd": 0,
            "segmentation": [[x1, y1, x2, y1, x2, y2, x1, y2]],
        }


def _image_ids(photo_ids: Sequence[str]) -> list[int]:
    """A number for each photo: its own id, if all ids are different numbers of a fair size, else its place from 1."""
    if all(photo_id.isascii() and photo_id.isdigit() for photo_id in photo_ids):
        own = [int(photo_id) for photo_id in photo_ids]
        if len(set(own)) == len(own) and max(own, default=0) <= _LARGEST_ID:
            return own
    return list(range(1, len(photo_ids) + 1))


def _category_ids(names: set[str]) -> dict[str, int]:
    """A number for each name; those of Entities' types never change."""
    known = {name: number for number, name in enumerate(ENTITY_TYPES, start=1)}
    new = {name: number for number, name in enumerate(sorted(names - known.keys()), start=len(known) + 1)}
    return {name: number for name, number in (known | new).items() if name in names}


def _finish(draft: _Draft, split: str, folder: Path, image_ids: Sequence[int], categories: Mapping[str, int]) -> None:
    def numbered(spool: Spool, key: str) -> Iterator[dict[str, Any]]:
        for item in spool.items():
            category = {"category_id": categories[item["category_id"]]} if "category_id" in item else {}
            yield item | {key: image_ids[item[key]]} | category

    def document(annotations: Spool) -> dict[str, object]:
        return {
            "info": _INFO,
            "licenses": [],
            "images": numbered(draft.images, "id"),
            "annotations": numbered(annotations, "image_id"),
        }

    write_text(folder / f"captions_{split}.json", json_document(document(draft.captions)))
    if draft.instances.count:
        listed = [{"id": number, "name": name, "supercategory": name} for name, number in categories.items()]
        instances = document(draft.instances) | {"categories": listed}
        write_text(folder / f"instances_{split}.json", json_document(instances))
