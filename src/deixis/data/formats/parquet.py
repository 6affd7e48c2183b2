"""Parquet for ``datasets.load_dataset`` of Hugging Face: ``data/SPLIT-00000-of-0000N.parquet`` and a dataset card.

Photos without a split are in ``rest``; a photo of two splits is in both. Characters of split names that Hugging Face
does not allow become ``_``. Nothing but tokens is lost, which can be computed from the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deixis.data.formats.common import path_of, splits_of, write_text
from deixis.data.records import Photo
from deixis.errors import DatasetError
from deixis.storage.atomic import explain_os_errors

_NOT_ALLOWED = re.compile(r"\W")


_SHARD_BYTES = 400 * 2**20
_GROUP_BYTES = 32 * 2**20
_GROUP_ROWS = 1000
_ROW_BYTES = 4096
"""Approximate size of the annotations of a photo."""

_TEXT, _INTEGER, _FLAG = pa.string(), pa.int32(), pa.bool_()
_TEXTS = pa.list_(_TEXT)
_IMAGE = pa.struct({"bytes": pa.binary(), "path": _TEXT})
_MENTION = pa.struct({"start": _INTEGER, "end": _INTEGER, "chain": _TEXT, "types": _TEXTS})
_CAPTION = pa.struct(
    {"text": _TEXT, "mentions": pa.list_(_MENTION), "related": _FLAG, "tree": _TEXT, "region_phrase": _FLAG}
)
_CHAIN = pa.struct({"id": _TEXT, "scene": _FLAG, "no_box": _FLAG, "annotated": _FLAG})
_BOX = pa.struct({"box": pa.list_(pa.float64()), "chains": _TEXTS, "label": _TEXT})
_ANNOTATED = pa.struct({"id": _TEXT, "file": _TEXT, "width": _INTEGER, "height": _INTEGER, "depth": _INTEGER})
_COLUMNS = [
    *(("id", _TEXT), ("file", _TEXT), ("width", _INTEGER), ("height", _INTEGER), ("splits", _TEXTS), ("sha256", _TEXT)),
    *(("annotated", _ANNOTATED), ("captions", pa.list_(_CAPTION)), ("chains", pa.list_(_CHAIN))),
    ("boxes", pa.list_(_BOX)),
]


def write(photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
    """Write ``data/*.parquet``, with the photos' bytes if `images` is given, and ``README.md``."""
    schema = _schema(with_photos=images is not None)
    shards: dict[str, _Shards] = {}
    (folder / "data").mkdir()
    with ExitStack() as stack:
        for photo in photos:
            row = _row(photo)
            size = _ROW_BYTES
            if images is not None:
                row["image"] = _image(photo, images)
                size += len(row["image"]["bytes"]) if row["image"] else 0
            for split in splits_of(photo):
                if split not in shards:
                    shards[split] = _Shards(folder / "data", _hub_name(split, shards), schema)
                    stack.callback(shards[split].close)
                shards[split].add(row, size)
        counts = {split.name: split.finish() for split in shards.values()}
    write_text(folder / "README.md", [_card(counts, with_photos=images is not None)])


def _hub_name(split: str, others: Iterable[str]) -> str:
    """Return a split name that Hugging Face allows: letters, digits and ``_``."""
    name = _NOT_ALLOWED.sub("_", split)
    for other in others:
        if _NOT_ALLOWED.sub("_", other) == name:
            raise DatasetError(f"splits {other!r} and {split!r} have the same name {name!r} in parquet")
    return name


def _schema(*, with_photos: bool) -> pa.Schema:
    columns = [_COLUMNS[0], ("image", _IMAGE), *_COLUMNS[1:]] if with_photos else _COLUMNS
    features = {name: _feature(type_) for name, type_ in columns}
    if with_photos:
        features["image"] = {"_type": "Image"}
    return pa.schema(columns, metadata={"huggingface": json.dumps({"info": {"features": features}})})


def _feature(type_: pa.DataType) -> Any:
    """Return a type in the metadata format of Hugging Face datasets 2 and later."""
    if pa.types.is_list(type_):
        return [_feature(type_.value_type)]
    if pa.types.is_struct(type_):
        return {field.name: _feature(field.type) for field in type_}
    # Arrow prints float64 as "double"; all other names agree.
    return {"dtype": "float64" if type_ == pa.float64() else str(type_), "_type": "Value"}


def _row(photo: Photo) -> dict[str, Any]:
    """Return a row; what the schema does not have, such as tokens, is not written."""
    captions = tuple(replace(caption, tokens=()) for caption in photo.captions)
    boxes = [asdict(box) | {"box": box.xyxy} for box in photo.boxes]
    return asdict(replace(photo, captions=captions)) | {"boxes": boxes}


def _image(photo: Photo, images: Path) -> dict[str, Any] | None:
    path = path_of(photo, images)
    if path is None:
        return None
    with explain_os_errors(path):
        return {"bytes": path.read_bytes(), "path": photo.file}


class _Shards:
    """The files of one split. Their names contain their number, so they are renamed at the end."""

    def __init__(self, folder: Path, name: str, schema: pa.Schema) -> None:
        self.name = name
        self._folder = folder
        self._schema = schema
        self._writer: pq.ParquetWriter | None = None
        self._rows: list[dict[str, Any]] = []
        self._waiting = self._written = self._shards = self._count = 0

    def add(self, row: dict[str, Any], size: int) -> None:
        self._rows.append(row)
        self._waiting += size
        self._count += 1
        if len(self._rows) >= _GROUP_ROWS or self._waiting >= _GROUP_BYTES:
            self._flush()
            if self._written >= _SHARD_BYTES:
                self.close()

    def finish(self) -> int:
        """Write remaining rows, rename the files and return the number of rows."""
        self._flush()
        self.close()
        for number in range(self._shards):
            name = f"{self.name}-{number:05d}-of-{self._shards:05d}.parquet"
            self._unnamed(number).rename(self._folder / name)
        return self._count

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._written = 0

    def _flush(self) -> None:
        if not self._rows:
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._unnamed(self._shards), self._schema)
            self._shards += 1
        self._writer.write_batch(pa.RecordBatch.from_pylist(self._rows, self._schema))
        self._written += self._waiting
        self._rows, self._waiting = [], 0

    def _unnamed(self, number: int) -> Path:
        return self._folder / f"{self.name}-{number:05d}.partial"


def _card(counts: dict[str, int], *, with_photos: bool) -> str:
    files = "".join(f"  - split: {name}\n    path: data/{name}-*\n" for name in counts)
    configs = f"configs:\n- config_name: default\n  data_files:\n{files}" if counts else ""
    image = "| `image` | the photo |\n" if with_photos else ""
    splits = "\n".join(f"| {name} | {count} |" for name, count in counts.items())
    return f"""---
task_categories:
- image-to-text
tags:
- phrase grounding
- image captioning
{configs}---

# Photos, captions, mentions and boxes

    from datasets import load_dataset
    photos = load_dataset("path of this folder")

| split | photos |
|---|---|
{splits}

| column | content |
|---|---|
| `id` | unique within the data set |
{image}| `file`, `sha256` | path below the photo folder, and SHA-256 of the file |
| `width`, `height` | size after EXIF rotation; boxes are in pixels of this size |
| `splits` | all splits of the photo |
| `captions` | sentences and phrases; `related` is false for a caption about another photo, `region_phrase` is true \
for a phrase that describes one region |
| `captions.mentions` | `start` and `end` in `text`, in code points, end exclusive; `chain` is null for mentions \
that are not visual |
| `chains` | entities that captions mention; `scene` and `no_box` say why one has no box |
| `boxes` | `x1, y1, x2, y2`, 0-based, end exclusive, and the chains of each box |
| `annotated` | file name and size in the annotation files |

The licence is that of the source data.
"""
