"""Parquet for ``datasets.load_dataset`` of Hugging Face: ``data/SPLIT-00000-of-00001.parquet`` and a dataset card.

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
    files: dict[str, _SplitFile] = {}
    names: dict[str, str] = {}  # the splits of the names that Hugging Face allows
    (folder / "data").mkdir()
    with ExitStack() as stack:
        for photo in photos:
            row = _row(photo)
            size = _ROW_BYTES
            if images is not None:
                row["image"] = _image(photo, images)
                size += len(row["image"]["bytes"]) if row["image"] else 0
            for split in splits_of(photo):
                name = _NOT_ALLOWED.sub("_", split)
                if (other := names.setdefault(name, split)) != split:
                    raise DatasetError(f"splits {other!r} and {split!r} have the same name {name!r} in parquet")
                if name not in files:
                    files[name] = _SplitFile(folder / "data" / f"{name}-00000-of-00001.parquet", schema)
                    stack.callback(files[name].close)
                files[name].add(row, size)
    counts = {name: file.count for name, file in files.items()}
    write_text(folder / "README.md", [_card(counts, with_photos=images is not None)])


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


class _SplitFile:
    """The file of a split. Rows are written in groups, so that few are in memory."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.count = 0
        self._schema = schema
        self._writer = pq.ParquetWriter(path, schema)
        self._rows: list[dict[str, Any]] = []
        self._waiting = 0

    def add(self, row: dict[str, Any], size: int) -> None:
        self._rows.append(row)
        self._waiting += size
        self.count += 1
        if len(self._rows) >= _GROUP_ROWS or self._waiting >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_batch(pa.RecordBatch.from_pylist(self._rows, self._schema))
            self._rows, self._waiting = [], 0


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
