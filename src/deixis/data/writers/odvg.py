"""ODVG for grounding, as MMDetection and Open-GroundingDino train on it: ``SPLIT.jsonl``, a caption a line.

Each box of each mention is a region with the mention's words and place. Both programs take that form; the one where a
region has a list of boxes is read by MMDetection only. Boxes are cut at the photo's border, and what is less than a
pixel wide or high afterwards is left out: MMDetection's converter does the same. Photos of no split are in ``rest``.

Lost: mentions without a box and captions without a region (the published files have none, and Open-GroundingDino fails
on them), photos of unknown size, entity types, chains as such, and labels of boxes. White space around captions goes
too, because MMDetection strips it without moving the places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from deixis import geometry
from deixis.data.records import Caption, Photo
from deixis.data.writers.common import bring_along, corners_of, file_name, number, splits_of, to_json
from deixis.errors import DatasetError

_SMALLEST_SIDE = 1


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    """Write ``SPLIT.jsonl`` for each split."""
    files: dict[str, TextIO] = {}
    any_region = any_photo = False
    with ExitStack() as stack:
        for photo in bring_along(photos, folder, images):
            any_photo = True
            for split in splits_of(photo):
                if split not in files:
                    path = folder / f"{split}.jsonl"
                    files[split] = stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))
                for line in _lines(photo):
                    files[split].write(to_json(line) + "\n")
                    any_region = True
    if any_photo and not any_region:
        raise DatasetError("no caption has a mention with a box, so there is nothing to write as odvg")


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


def _usable_boxes(photo: Photo, width: int, height: int) -> dict[str, list[list[float]]]:
    """The boxes of each chain, cut at the photo's border, less those of which too little is left."""
    found: dict[str, list[list[float]]] = {}
    clipped = geometry.clip(corners_of(photo), width, height).tolist()
    for box, (x1, y1, x2, y2) in zip(photo.boxes, clipped, strict=True):
        if x2 - x1 >= _SMALLEST_SIDE and y2 - y1 >= _SMALLEST_SIDE:
            for chain in box.chains:
                found.setdefault(chain, []).append([number(value) for value in (x1, y1, x2, y2)])
    return found


def _regions(caption: Caption, corners: dict[str, list[list[float]]]) -> Iterator[dict[str, Any]]:
    stripped = len(caption.text) - len(caption.text.lstrip())
    for mention in caption.mentions:
        place = [max(0, mention.start - stripped), mention.end - stripped]
        for box in corners.get(mention.chain, []) if mention.chain is not None else []:
            yield {"bbox": box, "phrase": caption.phrase(mention), "tokens_positive": [place]}
