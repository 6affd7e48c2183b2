"""ODVG, the grounding format of MMDetection and Open-GroundingDino: ``SPLIT.jsonl``, one caption per line.

Each box of each mention is a region with the text and offsets of the mention. Both programs read this variant; the one
with a list of boxes per region is read by MMDetection only. Boxes are clipped to the photo, and boxes that are then
narrower or lower than a pixel are dropped, as in MMDetection's converter. Photos without a split are in ``rest``.

Not written: mentions without a box and captions without a region (Open-GroundingDino fails on them), photos of unknown
size, entity types, chains and labels of boxes. Captions are stripped, because MMDetection strips them without adjusting
the offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from deixis import geometry
from deixis.data.records import Caption, Photo
from deixis.data.writers.common import boxes_array, compact_number, copy_photos, file_name, splits_of, to_json
from deixis.errors import DatasetError

_MIN_SIDE = 1


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    files: dict[str, TextIO] = {}
    any_region = any_photo = False
    with ExitStack() as stack:
        for photo in copy_photos(photos, folder, images):
            any_photo = True
            for split in splits_of(photo):
                if split not in files:
                    path = folder / f"{split}.jsonl"
                    files[split] = stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))
                for line in _lines(photo):
                    files[split].write(to_json(line) + "\n")
                    any_region = True
    if any_photo and not any_region:
        raise DatasetError("nothing to write as odvg: no caption has a mention with a box")


def _lines(photo: Photo) -> Iterator[dict[str, Any]]:
    if photo.width is None or photo.height is None:
        return
    corners = _usable_boxes(photo, photo.width, photo.height)
    for caption in photo.captions:
        if regions := list(_regions(caption, corners)):
            yield {
                "filename": file_name(photo),
                "height": photo.height,
                "width": photo.width,
                "grounding": {"caption": caption.text.strip(), "regions": regions},
            }


def _usable_boxes(photo: Photo, width: int, height: int) -> dict[str | None, list[list[float]]]:
    """Return the clipped boxes of each chain that are large enough."""
    found: dict[str | None, list[list[float]]] = {}
    clipped = geometry.clip(boxes_array(photo), width, height).tolist()
    for box, (x1, y1, x2, y2) in zip(photo.boxes, clipped, strict=True):
        if x2 - x1 >= _MIN_SIDE and y2 - y1 >= _MIN_SIDE:
            for chain in box.chains:
                found.setdefault(chain, []).append([compact_number(value) for value in (x1, y1, x2, y2)])
    return found


def _regions(caption: Caption, corners: dict[str | None, list[list[float]]]) -> Iterator[dict[str, Any]]:
    stripped = len(caption.text) - len(caption.text.lstrip())
    for mention in caption.mentions:
        span = [max(0, mention.start - stripped), mention.end - stripped]
        for box in corners.get(mention.chain, ()):
            yield {"bbox": box, "phrase": caption.phrase(mention), "tokens_positive": [span]}
