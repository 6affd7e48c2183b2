"""JSON Lines in the full format of deixis: one photo per line in ``photos.jsonl``. ``deixis data import`` reads it.

Nothing is lost: tokens are computed again from the text. Default values are not written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from deixis.data.records import Box, Caption, Mention, Photo
from deixis.data.writers.common import compact_number, copy_photos, write_text

_ORDER = ("id", "file", "width", "height", "splits", "sha256", "annotated", "captions", "chains", "boxes")


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    # Not escaped to ASCII, because people read this format.
    lines = (
        json.dumps(_photo(photo), separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"
        for photo in copy_photos(photos, folder, images)
    )
    write_text(folder / "photos.jsonl", lines)


def _photo(photo: Photo) -> dict[str, Any]:
    found = _fields(photo)
    return {name: found[name] for name in _ORDER if name in found}


def _plain(value: Any) -> Any:
    match value:
        case tuple():
            return [_plain(each) for each in value]
        case Mention():
            return {"span": [value.start, value.end]} | _fields(value, "start", "end")
        case Box():
            return {"box": [compact_number(side) for side in value.xyxy]} | _fields(value, "xyxy")
        case Caption():
            return _fields(value, "tokens")
        case None | str() | int():
            return value
    return _fields(value)


def _fields(record: Any, *left_out: str) -> dict[str, Any]:
    """Return the fields of a record that differ from their defaults."""
    values = {field.name: (getattr(record, field.name), field.default) for field in fields(record)}
    return {
        name: _plain(value) for name, (value, default) in values.items() if name not in left_out and value != default
    }
