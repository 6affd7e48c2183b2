"""The manifest of a feature store: encoder, dimensions and shards."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deixis import __version__
from deixis.errors import DeixisError
from deixis.storage.atomic import new_file

FILE = "manifest.json"
FORMAT = "deixis-features"
VERSION = 1

SHARD_FILE = re.compile(r"[0-9]{6,9}-[0-9a-f]{2,64}\.safetensors")
"""File name of a shard: number and start of the hash."""


@dataclass(frozen=True)
class Contents:
    """What a store holds of each photo, and which encoder and proposer computed it.

    Attributes
    ----------
    encoder, fingerprint
        Name and fingerprint of the encoder.
    dimension, channels
        Size of global vectors and of region vectors; no channels if there are no maps.
    crops
        10 if there are mean vectors over ten crops, else 0.
    proposer, top
        Name of the proposer and maximum number of proposals per photo; None and 0 if there are none.
    proposer_fingerprint
        Fingerprint of the proposer; empty if there is none.
    """

    encoder: str
    fingerprint: str
    dimension: int
    channels: int = 0
    crops: int = 0
    proposer: str | None = None
    top: int = 0
    proposer_fingerprint: str = ""


@dataclass(frozen=True)
class Shard:
    """An immutable file with the features of some photos.

    Attributes
    ----------
    file, bytes, sha256
        File name, size and hash.
    gone
        Deleted rows: the photo has changed or is no longer in the data set.
    """

    file: str
    photos: int
    bytes: int
    sha256: str
    gone: tuple[int, ...] = ()


@dataclass(frozen=True)
class StoreManifest:
    """Metadata of a feature store. `code` is the version of deixis that created it."""

    contents: Contents
    shards: tuple[Shard, ...] = ()
    code: str = __version__


def write_manifest(manifest: StoreManifest, folder: Path) -> None:
    """Replace the manifest atomically and flush it to disk."""
    document = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
    with new_file(folder / FILE) as unfinished:
        unfinished.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> StoreManifest:
    """Read the manifest of a feature store."""
    path = folder / FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        hint = "check the path" if not folder.exists() else "create one with: deixis features DATA"
        raise DeixisError(f"{folder}: not a feature store; {hint}") from None
    except OSError as error:
        raise DeixisError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError) as error:
        raise _damaged(path, " ".join(str(error).split())) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DeixisError(f"{path}: not the manifest of a feature store")
    if document.get("version") != VERSION:
        raise DeixisError(
            f"{path}: layout version {document.get('version')} is not supported (expected {VERSION}); "
            "remove the store and compute it again"
        )
    try:
        shards = tuple(_shard(entry) for entry in _listed(document["shards"], "shards"))
        return StoreManifest(_contents(document["contents"]), shards, str(document["code"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from None


def _damaged(path: Path, reason: str) -> DeixisError:
    return DeixisError(f"{path}: damaged, remove the store and compute it again ({reason})")


def _contents(entry: dict[str, Any]) -> Contents:
    contents = Contents(**entry)
    for name in ("dimension", "channels", "crops", "top"):
        if not _is_count(getattr(contents, name)):
            raise ValueError(f"{name} is not a number")
    if not all(isinstance(name, str) for name in (contents.encoder, contents.fingerprint)):
        raise ValueError("the encoder has no name")
    if not isinstance(contents.proposer, str | None) or not isinstance(contents.proposer_fingerprint, str):
        raise ValueError("the proposer has no name")
    return contents


def _shard(entry: dict[str, Any]) -> Shard:
    shard = Shard(**{**entry, "gone": tuple(_listed(entry["gone"], "gone"))})
    if not isinstance(shard.file, str) or not SHARD_FILE.fullmatch(shard.file):
        raise ValueError(f"{shard.file!r} is not the name of a shard")
    for name in ("photos", "bytes"):
        if not _is_count(getattr(shard, name)):
            raise ValueError(f"{name} is not a number")
    if not isinstance(shard.sha256, str):
        raise ValueError("sha256 is not a hash")
    if not all(_is_count(row) and row < shard.photos for row in shard.gone):
        raise ValueError("gone is not a list of rows")
    return shard


def _listed(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} is not a list")
    return value


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def check_contents(path: Path, found: Contents, expected: Contents) -> None:
    """Raise an error that says what differs if a store has other contents than expected."""
    hint = "choose another --out, or remove the store"
    if found.fingerprint != expected.fingerprint:
        raise DeixisError(f"{path}: holds features of {_named(found)}, not of {_named(expected)}; {hint}")
    # The name of the encoder is not compared: it may contain a path, which does not affect the features.
    for name in ("dimension", "channels", "crops", "proposer", "top"):
        if (has := getattr(found, name)) != (want := getattr(expected, name)):
            raise DeixisError(f"{path}: has {name} {has}, not {want}; {hint}")
    if found.proposer_fingerprint != expected.proposer_fingerprint:
        boxes, others = (f"{each.proposer} ({each.proposer_fingerprint[:16]})" for each in (found, expected))
        raise DeixisError(f"{path}: holds boxes of {boxes}, not of {others}; {hint}")


def _named(contents: Contents) -> str:
    return f"{contents.encoder} ({contents.fingerprint[:16]})"
