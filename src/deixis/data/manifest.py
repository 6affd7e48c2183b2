"""The manifest of a data set directory: where it comes from, what it holds, and what it must hash to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deixis.data.store import SCHEMAS, file_name
from deixis.errors import DatasetError
from deixis.files.atomic import explained
from deixis.files.hashes import hash_of_file
from deixis.tokens import TOKENIZER_VERSION

FILE = "manifest.json"
FORMAT = "deixis-dataset"
VERSION = 1


@dataclass(frozen=True)
class Manifest:
    """What a data set directory says of itself.

    Attributes
    ----------
    sources
        The kind and the name of each file or folder it was made from.
    licence
        What its makers allow, in words.
    images
        The folder of photos; None where there are none.
    splits
        Photos in each split.
    counts
        Rows of each table.
    files
        The SHA-256 of each table's file.
    hash
        One hash over all of `files`: two data sets with the same hash hold the same data.
    tokenizer
        The version of the tokenizer that made the tokens.
    version
        Of the layout of the directory.
    """

    sources: tuple[dict[str, str], ...]
    licence: str
    images: str | None
    splits: dict[str, int]
    counts: dict[str, int]
    files: dict[str, str]
    hash: str
    tokenizer: int
    created: str
    version: int = VERSION
    format: str = field(default=FORMAT)


def hash_tables(folder: Path) -> tuple[dict[str, str], str]:
    """The SHA-256 of each table's file, and one over all of them."""
    files = {}
    for name in SCHEMAS:
        try:
            files[name] = hash_of_file(folder / file_name(name))
        except OSError as error:
            raise DatasetError(
                f"{folder}: {file_name(name)} cannot be read ({error.strerror}); import the data again"
            ) from None
    return files, _together(files)


def _together(files: Mapping[str, str]) -> str:
    """One hash over those of all tables."""
    return "sha256:" + hashlib.sha256("\n".join(files.values()).encode()).hexdigest()


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Write the manifest into a data set directory."""
    (folder / FILE).write_text(json.dumps(asdict(manifest), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a data set directory."""
    path = folder / FILE
    with explained(path):  # somebody else's folder may not be looked into
        there = path.is_file()
    if not there:
        hint = "is there a typing mistake?" if not folder.exists() else "make one with: deixis data import … --out DATA"
        raise DatasetError(f"{folder}: not a data set directory; {hint}")
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise DatasetError(f"{path}: damaged, import the data again ({error})") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DatasetError(f"{path}: not the manifest of a deixis data set")
    if document.get("version") != VERSION:
        raise DatasetError(
            f"{path}: written for version {document.get('version')} of the layout, this deixis reads {VERSION}; "
            "import the data again"
        )
    kinds = {
        "sources": list,
        "licence": str,
        "splits": dict,
        "counts": dict,
        "files": dict,
        "hash": str,
        "tokenizer": int,
    }
    for name, kind in kinds.items():
        if not isinstance(document.get(name), kind):
            raise DatasetError(f"{path}: damaged, import the data again ({name} is missing or of another kind)")
    if document["hash"] != _together({name: str(digest) for name, digest in document["files"].items()}):
        raise DatasetError(f"{path}: damaged, import the data again (its hashes contradict each other)")
    if not isinstance(document.get("images"), str | None):
        raise DatasetError(f"{path}: images must be the path of a folder, or null")
    if document["tokenizer"] != TOKENIZER_VERSION:
        raise DatasetError(
            f"{path}: its tokens are of version {document['tokenizer']}, ours are {TOKENIZER_VERSION}; "
            "import the data again"
        )
    try:
        return Manifest(**{**document, "sources": tuple(document["sources"])})
    except TypeError as error:
        raise DatasetError(f"{path}: damaged, import the data again ({error})") from None
