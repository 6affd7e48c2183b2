"""The files of a data set directory: five Arrow tables and the manifest.

Tables are written in one pass and memory-mapped when read.

Rows refer to rows of other tables: captions, chains and boxes to their photo, mentions to their caption and chain,
boxes to their chains. All tables are in the order of the photos, so each photo is one slice of every table.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from deixis.data.records import Caption, Photo
from deixis.errors import DatasetError
from deixis.storage.atomic import explain_os_errors, new_file
from deixis.storage.checksums import seal, unseal
from deixis.storage.files import hash_file, is_file_name
from deixis.tokens import TOKENIZER_VERSION

_TEXT, _INTEGER, _NUMBER, _FLAG = pa.string(), pa.int32(), pa.float64(), pa.bool_()
_TEXTS, _INTEGERS = pa.list_(_TEXT), pa.list_(_INTEGER)
SCHEMAS: Mapping[str, pa.Schema] = {
    "photos": pa.schema(
        {"id": _TEXT, "file": _TEXT, "width": _INTEGER, "height": _INTEGER, "splits": _TEXTS, "sha256": _TEXT}
        | {"annotated_id": _TEXT, "annotated_file": _TEXT}
        | dict.fromkeys(("annotated_width", "annotated_height", "annotated_depth"), _INTEGER)
    ),
    "captions": pa.schema(
        {"photo": _INTEGER, "text": _TEXT, "token_starts": _INTEGERS, "token_ends": _INTEGERS}
        | {"related": _FLAG, "tree": _TEXT, "region_phrase": _FLAG}
    ),
    # A null chain: not visual.
    "mentions": pa.schema(
        {"caption": _INTEGER, "start": _INTEGER, "end": _INTEGER, "chain": _INTEGER, "types": _TEXTS}
    ),
    "chains": pa.schema({"photo": _INTEGER, "id": _TEXT, "scene": _FLAG, "no_box": _FLAG, "annotated": _FLAG}),
    "boxes": pa.schema(
        {"photo": _INTEGER, "x1": _NUMBER, "y1": _NUMBER, "x2": _NUMBER, "y2": _NUMBER}
        | {"chains": _INTEGERS, "label": _TEXT}
    ),
}
_PHOTOS_PER_BATCH = 2000

_Row = tuple[Any, ...]


def _table_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.arrow"


def write_tables(photos: Iterable[Photo], folder: Path) -> dict[str, int]:
    """Write all tables in one pass over the photos and return the number of rows of each."""
    writers = {name: _TableWriter(_table_path(folder, name), schema) for name, schema in SCHEMAS.items()}
    seen: set[str] = set()
    try:
        for photo in photos:
            if photo.id in seen:
                raise DatasetError(f"photo {photo.id}: duplicate photo id")
            seen.add(photo.id)
            _add(photo, writers)
            if len(writers["photos"].rows) == _PHOTOS_PER_BATCH:
                for writer in writers.values():
                    writer.flush()
    finally:
        for writer in writers.values():
            writer.close()
    return {name: writer.count for name, writer in writers.items()}


class _TableWriter:
    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.schema = schema
        self.rows: list[_Row] = []
        self.count = 0
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, schema)

    def add(self, row: _Row) -> int:
        self.rows.append(row)
        self.count += 1
        return self.count - 1

    def flush(self) -> None:
        if self.rows:
            columns = zip(*self.rows, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
            self._writer.write_batch(pa.record_batch(arrays, schema=self.schema))
            self.rows = []

    def close(self) -> None:
        try:
            self.flush()
            self._writer.close()
        finally:
            self._sink.close()


def _add(photo: Photo, writers: Mapping[str, _TableWriter]) -> None:
    _validate(photo)
    was = photo.annotated
    annotated = (was.id, was.file, was.width, was.height, was.depth) if was else (None,) * 5
    row = writers["photos"].add(
        (photo.id, photo.file, photo.width, photo.height, photo.splits, photo.sha256, *annotated)
    )
    chains = {
        chain.id: writers["chains"].add((row, chain.id, chain.scene, chain.no_box, chain.annotated))
        for chain in photo.chains
    }
    for box in photo.boxes:
        writers["boxes"].add((row, *box.xyxy, [chains[chain] for chain in box.chains], box.label))
    for caption in photo.captions:
        starts, ends = [token.start for token in caption.tokens], [token.end for token in caption.tokens]
        caption_row = writers["captions"].add(
            (row, caption.text, starts, ends, caption.related, caption.tree, caption.region_phrase)
        )
        for mention in caption.mentions:
            chain_row = None if mention.chain is None else chains[mention.chain]
            writers["mentions"].add((caption_row, mention.start, mention.end, chain_row, mention.types))


def _validate(photo: Photo) -> None:
    """Refuse records that the tables, or files exported from them, cannot hold."""
    name = f"photo {photo.id!r}"
    for text in (photo.id, *photo.splits, *([photo.annotated.id] if photo.annotated else [])):
        if not is_file_name(text):
            raise DatasetError(f"{name}: id or split {text!r} cannot be used as a file name")
    chains = [chain.id for chain in photo.chains]
    if len(set(chains)) != len(chains):
        raise DatasetError(f"{name}: two chains have the same id")
    named = {chain for box in photo.boxes for chain in box.chains}
    named |= {mention.chain for caption in photo.captions for mention in caption.mentions if mention.chain is not None}
    if missing := named - set(chains):
        raise DatasetError(f"{name}: a box or a mention refers to the unknown chain {min(missing)!r}")
    for number, box in enumerate(photo.boxes, start=1):
        if not all(map(math.isfinite, box.xyxy)):
            raise DatasetError(f"{name}: box {number} has a coordinate that is not finite")
    for number, caption in enumerate(photo.captions, start=1):
        _validate_caption(caption, f"{name}: caption {number}")


def _validate_caption(caption: Caption, name: str) -> None:
    previous_end = 0
    for mention in caption.mentions:
        if not previous_end <= mention.start < mention.end <= len(caption.text):
            raise DatasetError(
                f"{name}: the mention at {mention.start}–{mention.end} is empty, overlaps another or exceeds the text"
            )
        previous_end = mention.end


def open_tables(folder: Path, hashes: Mapping[str, str]) -> dict[str, pa.Table]:
    """Memory-map all tables after checking their hashes: Arrow trusts offsets, so damage could crash the process."""
    tables = {}
    for name, schema in SCHEMAS.items():
        path = _table_path(folder, name)
        try:
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            table.validate(full=True)  # offsets may point outside the file
        except FileNotFoundError:
            raise DatasetError(f"{path}: missing; import the data again") from None
        except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: invalid UTF-8
            raise DatasetError(f"{path}: damaged, import the data again ({error})") from None
        if table.schema != schema:
            raise DatasetError(f"{path}: not the columns of a deixis data set; import the data again")
        if hash_file(path) != hashes.get(name):
            raise DatasetError(f"{path}: damaged, import the data again (its hash differs)")
        tables[name] = table
    return tables


_MANIFEST_FILE = "manifest.json"
_FORMAT = "deixis-dataset"
_VERSION = 2


@dataclass(frozen=True)
class Manifest:
    """Metadata of a data set directory."""

    sources: tuple[dict[str, str], ...]  # format and name of each source file or folder
    licence: str
    images: str | None  # photo folder
    splits: dict[str, int]  # photos in each split
    counts: dict[str, int]  # rows of each table
    files: dict[str, str]  # SHA-256 of each table file
    hash: str  # of all `files`; data sets with the same hash hold the same data
    tokenizer: int  # version of the tokenizer
    created: str
    version: int = _VERSION  # of the directory layout
    format: str = _FORMAT


def hash_tables(folder: Path) -> tuple[dict[str, str], str]:
    """Return the SHA-256 of each table file, and one hash of all of them."""
    files = {}
    for name in SCHEMAS:
        path = _table_path(folder, name)
        try:
            files[name] = hash_file(path)
        except OSError as error:
            raise DatasetError(f"{path}: cannot be read ({error.strerror}); import the data again") from None
    return files, _combine_hashes(files)


def _combine_hashes(files: Mapping[str, str]) -> str:
    return "sha256:" + hashlib.sha256("\n".join(files.values()).encode()).hexdigest()


def write_manifest(manifest: Manifest, folder: Path) -> None:
    with new_file(folder / _MANIFEST_FILE) as unfinished:
        unfinished.write_bytes(seal(asdict(manifest) | {"version": _VERSION}))


def read_manifest(folder: Path) -> Manifest:
    path = folder / _MANIFEST_FILE
    with explain_os_errors(path):  # the folder may not be readable
        there = path.is_file()
    if not there:
        hint = "check the path" if not folder.exists() else "create one with: deixis data import … --out DATA"
        raise DatasetError(f"{folder}: not a data set directory; {hint}")
    try:
        document: Any = unseal(path.read_bytes())
    except (ValueError, RecursionError, OSError) as error:
        raise DatasetError(f"{path}: damaged, import the data again ({error})") from None
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise DatasetError(f"{path}: not the manifest of a deixis data set")
    if document.get("version") != _VERSION:
        raise DatasetError(
            f"{path}: layout version {document.get('version')} is not supported (expected {_VERSION}); "
            "import the data again"
        )
    kinds: dict[str, Any] = {"sources": list, "images": str | None, "tokenizer": int}
    kinds |= dict.fromkeys(("licence", "hash"), str) | dict.fromkeys(("splits", "counts", "files"), dict)
    for name, kind in kinds.items():
        if not isinstance(document.get(name), kind):
            raise DatasetError(f"{path}: damaged, import the data again ({name} is missing or has the wrong type)")
    if document["hash"] != _combine_hashes({name: str(digest) for name, digest in document["files"].items()}):
        raise DatasetError(f"{path}: damaged, import the data again (its hashes are inconsistent)")
    if document["tokenizer"] != TOKENIZER_VERSION:
        raise DatasetError(
            f"{path}: tokenizer version {document['tokenizer']} does not match {TOKENIZER_VERSION}; "
            "import the data again"
        )
    try:
        return Manifest(**{**document, "sources": tuple(document["sources"])})
    except TypeError as error:
        raise DatasetError(f"{path}: damaged, import the data again ({error})") from None
