"""Read captions in COCO's results format and match them with the photos of a data set.

A results file is a JSON list, one entry for each photo::

    [{"image_id": 42, "caption": "a dog runs through the snow"}, …]

Other keys are ignored. Errors name the file and the entry.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from deixis.data.records import Photo
from deixis.errors import DatasetError

_COCO_NUMBER = re.compile(r"(?:^|_)0*([0-9]+)$")
_MAX_SHOWN = 60


def read_results(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read a results file: a dictionary from image id, as text, to caption."""
    try:
        entries = json.loads(Path(path).read_bytes(), parse_constant=_reject_constant)
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror or 'cannot be opened'}") from error
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: {_json_problem(error)}") from error
    if not isinstance(entries, list):
        raise DatasetError(f'{path}: must be a list of {{"image_id", "caption"}}, not {_shorten(entries)}')
    if not entries:
        raise DatasetError(f"{path}: the list is empty")
    results: dict[str, str] = {}
    for number, entry in enumerate(entries):
        image_id, caption = _parse_entry(entry, f"{path}: entry {number} (from 0)")
        if image_id in results:
            raise DatasetError(f"{path}: entry {number} (from 0): image_id {image_id} already has a caption")
        results[image_id] = caption
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


def _parse_entry(entry: Any, where: str) -> tuple[str, str]:
    if not isinstance(entry, dict):
        raise DatasetError(f'{where}: must be an object with "image_id" and "caption", not {_shorten(entry)}')
    absent = [key for key in ("image_id", "caption") if key not in entry]
    if absent:
        raise DatasetError(f"{where}: has no {absent[0]!r}")
    image_id, caption = entry["image_id"], entry["caption"]
    if isinstance(image_id, bool) or not isinstance(image_id, int | str) or not str(image_id).strip():
        raise DatasetError(f"{where}: image_id must be a whole number or text, not {_shorten(image_id)}")
    if not isinstance(caption, str):
        raise DatasetError(f"{where}: the caption of image_id {image_id} must be text, not {_shorten(caption)}")
    if not caption.strip():
        raise DatasetError(f"{where}: the caption of image_id {image_id} is empty")
    return str(image_id), caption


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


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not valid JSON")


def _json_problem(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON (line {error.lineno}, column {error.colno}: {error.msg})"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _shorten(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
