"""Read captions in COCO's results format and match them with the photos of a data set.

A results file is a JSON list, one entry for each photo::

    [{"image_id": 42, "caption": "a dog runs through the snow"}, …]

Other keys are ignored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from deixis.data.documents import read_document
from deixis.data.records import Photo
from deixis.errors import DatasetError

_COCO_NUMBER = re.compile(r"(?:^|_)0*([0-9]+)$")


def read_results(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read a results file: a dictionary from image id, as text, to caption."""
    entries = read_document(Path(path)).items()
    if not entries:
        raise DatasetError(f"{path}: the list is empty")
    results: dict[str, str] = {}
    for entry in entries:
        image_id = str(entry["image_id"].key())
        if image_id in results:
            raise entry.error(f"image_id {image_id} already has a caption")
        results[image_id] = entry["caption"].nonblank_text()
    return results


def match_results(results: Mapping[str, str], photos: Iterable[Photo]) -> dict[str, str]:
    """Match captions with photos: a dictionary from photo id to caption, in the order of the photos.

    An image id is looked up as the id of a photo, then as the id under which a photo was annotated, then as the number
    at the end of a photo's name, as in ``COCO_val2014_000000000042``. Each photo must have exactly one caption.
    """
    photos = list(photos)
    ids = {photo.id for photo in photos}
    annotated = _unambiguous((photo.annotated.id, photo.id) for photo in photos if photo.annotated)
    numbers = _unambiguous((number, photo.id) for photo in photos for number in _numbers(photo))
    found: dict[str, str] = {}
    image_id_of: dict[str, str] = {}
    for image_id, caption in results.items():
        photo_id = image_id if image_id in ids else annotated.get(image_id) or numbers.get(_number(image_id))
        if photo_id is None:
            raise DatasetError(f"results: image_id {image_id} matches none of the {len(ids)} photos, or several")
        if photo_id in found:
            raise DatasetError(f"results: image_ids {image_id_of[photo_id]} and {image_id} are both photo {photo_id}")
        found[photo_id], image_id_of[photo_id] = caption, image_id
    missing = [photo.id for photo in photos if photo.id not in found]
    if missing:
        raise DatasetError(
            f"results: photo {missing[0]} has no caption ({len(missing)} of {len(ids)} photos have none)"
        )
    return {photo.id: found[photo.id] for photo in photos}


def _numbers(photo: Photo) -> set[str]:
    """The numbers at the end of a photo's id and file name."""
    names = [photo.id, Path(photo.file).stem if photo.file else ""]
    if photo.annotated:
        names.append(Path(photo.annotated.file).stem)
    return {number for name in names if (number := _number(name))}


def _number(name: str) -> str:
    found = _COCO_NUMBER.search(name)
    return found[1] if found else ""


def _unambiguous(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """A dictionary from name to photo, without names of several photos."""
    photo_of: dict[str, str] = {}
    several = set()
    for name, photo in pairs:
        if photo_of.setdefault(name, photo) != photo:
            several.add(name)
    return {name: photo for name, photo in photo_of.items() if name not in several}
