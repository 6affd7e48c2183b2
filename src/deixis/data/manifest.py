"""The manifest of a data set directory: sources, content and hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deixis.data.tables import SCHEMAS, file_name
from deixis.errors import DatasetError
from deixis.storage.atomic import explain_os_errors
from deixis.storage.files import hash_file
from deixis.tokens import TOKENIZER_VERSION

FILE = "manifest.json"
FORMAT = "deixis-dataset"
VERSION = 1


@dataclass(frozen=True)
class Manifest:
    """Metadata of a data set directory.

    Attributes
    ----------
    sources
        Format and name of each source file or folder.
    licence
        Licence of the data.
    images
        Photo folder; None if there are no photos.
    splits
        Number of photos in each split.
    counts
        Number of rows of each table.
    files
        SHA-256 of each table file.
    hash
        Hash of all `files`. Data sets with the same hash hold the same data.
    tokenizer
        Version of the tokenizer.
    version
        Version of the directory layout.
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
    """Return the SHA-256 of each table file, and one hash of all of them."""
    files = {}
    for name in SCHEMAS:
        try:
            files[name] = hash_file(folder / file_name(name))
        except OSError as error:
            raise DatasetError(
                f"{folder}: {file_name(name)} cannot be read ({error.strerror}); import the data again"
            ) from None
    return files, _combine_hashes(files)


def _combine_hashes(files: Mapping[str, str]) -> str:
    return "sha256:" + hashlib.sha256("\n".join(files.values()).encode()).hexdigest()


def write_manifest(manifest: Manifest, folder: Path) -> None:
    """Write the manifest into a data set directory."""
    (folder / FILE).write_text(json.dumps(asdict(manifest), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a data set directory."""
    path = folder / FILE
    with explain_os_errors(path):  # the folder may not be readable
        there = path.is_file()
    if not there:
        hint = "check the path" if not folder.exists() else "create one with: deixis data import … --out DATA"
        raise DatasetError(f"{folder}: not a data set directory; {hint}")
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise DatasetError(f"{path}: damaged, import the data again ({error})") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DatasetError(f"{path}: not the manifest of a deixis data set")
    if document.get("version") != VERSION:
        raise DatasetError(
            f"{path}: layout version {document.get('version')} is not supported (expected {VERSION}); "
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
            raise DatasetError(f"{path}: damaged, import the data again ({name} is missing or has the wrong type)")
    if document["hash"] != _combine_hashes({name: str(digest) for name, digest in document["files"].items()}):
        raise DatasetError(f"{path}: damaged, import the data again (its hashes are inconsistent)")
    if not isinstance(document.get("images"), str | None):
        raise DatasetError(f"{path}: images must be the path of a folder, or null")
    if document["tokenizer"] != TOKENIZER_VERSION:
        raise DatasetError(
            f"{path}: tokenizer version {document['tokenizer']} does not match {TOKENIZER_VERSION}; "
            "import the data again"
        )
    try:
        return Manifest(**{**document, "sources": tuple(document["sources"])})
    except TypeError as error:
        raise DatasetError(f"{path}: damaged, import the data again ({error})") from None
