"""Functions that writers share: photo files, splits, categories of boxes, and streamed JSON."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from deixis import geometry
from deixis.data.records import Photo
from deixis.errors import DatasetError
from deixis.storage.atomic import explain_os_errors
from deixis.storage.files import is_file_name, is_relative_path

NO_SPLIT = "rest"
"""Split of photos without a split, in formats that need one."""

OTHER_TYPE = "other"
"""Category of boxes without a label or type."""


def splits_of(photo: Photo) -> tuple[str, ...]:
    """Return the distinct splits of a photo, or `NO_SPLIT`."""
    for split in photo.splits:
        if not is_file_name(split):
            raise DatasetError(f"photo {photo.id!r}: split {split!r} cannot be used in a file name")
    return tuple(dict.fromkeys(photo.splits)) or (NO_SPLIT,)


def file_name(photo: Photo) -> str:
    """Return the path of the photo file below the photo folder, or its likely name."""
    if photo.file is not None:
        return photo.file
    return photo.annotated.file if photo.annotated else f"{photo.id}.jpg"


def sentences_of(photo: Photo) -> list[str]:
    """Return the captions of a photo, without region phrases and blank captions."""
    return [caption.text for caption in photo.captions if caption.text.strip() and not caption.region_phrase]


def path_of(photo: Photo, images: Path) -> Path | None:
    if photo.file is None:
        return None
    if not is_relative_path(photo.file):
        raise DatasetError(f"photo {photo.id!r}: file {photo.file!r} is outside the photo folder")
    return images / photo.file


def copy_photos(photos: Iterable[Photo], folder: Path, images: Path | None) -> Iterator[Photo]:
    """Yield photos. If `images` is given, copy each photo file to ``folder/images``."""
    for photo in photos:
        source = None if images is None else path_of(photo, images)
        if source is not None:
            target = folder / "images" / file_name(photo)
            with explain_os_errors(source):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        yield photo


def categories_of_boxes(photo: Photo) -> list[str]:
    """Return the category of each box: its label, or the first entity type of its chains."""
    types: dict[str, str] = {}
    for caption in photo.captions:
        for mention in caption.mentions:
            if mention.chain is not None and mention.types:
                types.setdefault(mention.chain, mention.types[0])
    return [
        box.label or next((types[chain] for chain in box.chains if chain in types), OTHER_TYPE) for box in photo.boxes
    ]


def boxes_array(photo: Photo) -> geometry.Boxes:
    """Return the boxes of a photo as an array (n, 4)."""
    return np.array([box.xyxy for box in photo.boxes], dtype=np.float64).reshape(-1, 4)


def compact_number(value: float) -> float:
    """Return an integer if the value is one, for shorter JSON."""
    return int(value) if float(value).is_integer() else float(value)


def to_json(value: object) -> str:
    """Return JSON on one line, in ASCII, so that readers with any encoding parse it correctly."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def json_list(items: Iterable[object]) -> Iterator[str]:
    """Yield the pieces of a JSON list, one item per line."""
    yield "["
    for index, item in enumerate(items):
        yield (",\n" if index else "\n") + to_json(item)
    yield "\n]"


def json_document(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield the pieces of a JSON object. Iterators in it are written as lists, item by item."""
    for index, (name, value) in enumerate(fields.items()):
        yield (",\n" if index else "{") + to_json(name) + ":"
        yield from json_list(value) if isinstance(value, Iterator) else [to_json(value)]
    yield "}\n"


def write_text(path: Path, pieces: Iterable[str]) -> None:
    """Write a UTF-8 file piece by piece, with line feeds on every system."""
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(pieces)
