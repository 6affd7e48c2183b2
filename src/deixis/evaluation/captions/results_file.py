"""Anybody's captions: COCO's results format, and how its ids meet the photos of a data set.

A results file is a JSON list, one entry for each photo::

    [{"image_id": 42, "caption": "a dog runs through the snow"}, …]

Further keys are ignored. Everything that is wrong is an error that names the file and the entry.
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
_SHOWN = 60


def read_results(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read a results file: from each image id, as text, to its caption.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "results.json"
    ...     _ = file.write_text('[{"image_id": 42, "caption": "a dog"}]')
    ...     read_results(file)
    {'42': 'a dog'}
    """
    try:
        entries = json.loads(Path(path).read_bytes(), parse_constant=_refuse_constant)
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror or 'cannot be opened'}") from error
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: {_what_json_says(error)}") from error
    if not isinstance(entries, list):
        raise DatasetError(f'{path}: must be a list of {{"image_id", "caption"}}, not {_short(entries)}')
    if not entries:
        raise DatasetError(f"{path}: the list is empty")
    results: dict[str, str] = {}
    for number, entry in enumerate(entries):
        image_id, caption = _entry(entry, f"{path}: entry {number} (from 0)")
        if image_id in results:
            raise DatasetError(f"{path}: entry {number} (from 0): image_id {image_id} has a caption already")
        results[image_id] = caption
    return results


def match_results(results: Mapping[str, str], photos: Iterable[Photo]) -> dict[str, str]:
    """Bring captions and photos together: from each photo's id to its caption, in the order of the photos.

    An image id is the id of a photo; else the id under which a photo was annotated; else the number at the end of a
    photo's name, as in ``COCO_val2014_000000000042``. Every photo must have one caption, and every caption a photo.

    Examples
    --------
    >>> match_results({"42": "a dog"}, [Photo("COCO_val2014_000000000042")])
    {'COCO_val2014_000000000042': 'a dog'}
    """
    photos = list(photos)
    ids = {photo.id for photo in photos}
    annotated = _only_ones((photo.annotated.id, photo.id) for photo in photos if photo.annotated)
    numbers = _only_ones((number, photo.id) for photo in photos for number in _numbers(photo))
    found: dict[str, str] = {}
    said_by: dict[str, str] = {}
    for image_id, caption in results.items():
        photo_id = image_id if image_id in ids else annotated.get(image_id) or numbers.get(_number(image_id))
        if photo_id is None:
            raise DatasetError(f"results: image_id {image_id} is not one of the {len(ids)} photos, or could be several")
        if photo_id in found:
            raise DatasetError(f"results: image_ids {said_by[photo_id]} and {image_id} are both photo {photo_id}")
        found[photo_id], said_by[photo_id] = caption, image_id
    missing = [photo.id for photo in photos if photo.id not in found]
    if missing:
        raise DatasetError(
            f"results: photo {missing[0]} has no caption ({len(missing)} of {len(ids)} photos have none)"
        )
    return {photo.id: found[photo.id] for photo in photos}


def _entry(entry: Any, place: str) -> tuple[str, str]:
    if not isinstance(entry, dict):
        raise DatasetError(f'{place}: must be an object with "image_id" and "caption", not {_short(entry)}')
    absent = [key for key in ("image_id", "caption") if key not in entry]
    if absent:
        raise DatasetError(f"{place}: has no {absent[0]!r}")
    image_id, caption = entry["image_id"], entry["caption"]
    if isinstance(image_id, bool) or not isinstance(image_id, int | str) or not str(image_id).strip():
        raise DatasetError(f"{place}: image_id must be a whole number or text, not {_short(image_id)}")
    if not isinstance(caption, str):
        raise DatasetError(f"{place}: the caption of image_id {image_id} must be text, not {_short(caption)}")
    if not caption.strip():
        raise DatasetError(f"{place}: the caption of image_id {image_id} is empty")
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


def _only_ones(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """From each name to the photo it belongs to; names of several photos belong to none."""
    photo_of: dict[str, str] = {}
    several = set()
    for name, photo in pairs:
        if photo_of.setdefault(name, photo) != photo:
            several.add(name)
    return {name: photo for name, photo in photo_of.items() if name not in several}


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")


def _what_json_says(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON (line {error.lineno}, column {error.colno}: {error.msg})"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
