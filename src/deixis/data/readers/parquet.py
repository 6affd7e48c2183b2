"""Parquet files that `deixis.data.writers.parquet` writes: one of them, or the folder of all splits.

A photo of two splits is in two files; of the folder it is read once. Pictures inside the files are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deixis.data.names import Source
from deixis.data.readers.content import Content
from deixis.data.readers.jsonl import read_full_photo
from deixis.data.readers.values import Value
from deixis.data.records import Photo
from deixis.errors import DatasetError

KIND = "parquet"
FORM = "Parquet (of deixis)"

_MAGIC = b"PAR1"
_IMAGE = "image"
_REQUIRED = {"id", "captions", "chains", "boxes"}


def recognizes(content: Content) -> bool:
    if content.path.is_file():
        with content.path.open("rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    return bool(_files(content.path))


def read(content: Content) -> Source:
    files = [content.path] if content.path.is_file() else _files(content.path)
    opened = [_open(path) for path in files]
    return Source(KIND, _photos(files), sum(file.metadata.num_rows for file in opened))


def _files(folder: Path) -> list[Path]:
    """The files of a folder, or of the folder ``data`` in it."""
    if not folder.is_dir():
        return []
    return sorted(folder.glob("*.parquet")) or sorted(folder.glob("data/*.parquet"))


def _open(path: Path) -> pq.ParquetFile:
    try:
        opened = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise DatasetError(f"{path}: damaged Parquet ({error})") from error
    if missing := sorted(_REQUIRED - set(opened.schema_arrow.names)):
        raise DatasetError(f"{path}: no column {missing[0]!r}; only Parquet files that deixis has written can be read")
    return opened


def _photos(files: list[Path]) -> Iterator[Photo]:
    seen = set()
    for path in files:
        for number, row in enumerate(_rows(path), start=1):
            photo = read_full_photo(Value(row, f"{path}: row {number}"))
            if photo.id not in seen:
                seen.add(photo.id)
                yield photo


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    opened = _open(path)
    columns = [name for name in opened.schema_arrow.names if name != _IMAGE]
    try:
        for batch in opened.iter_batches(columns=columns):
            for row in batch.to_pylist():
                yield _as_json(row)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: damaged Parquet ({error})") from error


def _as_json(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as the full format of JSON Lines has it, in which mentions have spans."""
    for caption in _dicts(row.get("captions")):
        for mention in _dicts(caption.get("mentions")):
            if "start" in mention and "end" in mention:
                mention["span"] = [mention.pop("start"), mention.pop("end")]
    return row


def _dicts(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
