"""The manifest of a feature store: which encoder made it, what it holds, and the shards that count.

It is replaced whole after each shard. What it names is there; what it does not name was never acknowledged.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deixis import __version__
from deixis.errors import DeixisError
from deixis.files.atomic import new_file

FILE = "manifest.json"
FORMAT = "deixis-features"
VERSION = 1

SHARD_FILE = re.compile(r"[0-9]{6,9}-[0-9a-f]{2,64}\.safetensors")
"""What a shard is called: its number, and the beginning of its hash."""


@dataclass(frozen=True)
class Contents:
    """What every photo of a store has, and who made it: stores that differ in any of this do not mix.

    Attributes
    ----------
    encoder, fingerprint
        The encoder's name, and what changes whenever its numbers do.
    dimension, channels
        Numbers in a whole photo's vector and in a region's; no channels where there are no maps.
    crops
        How many crops a second whole-photo vector is the mean of; 0 where there is none.
    proposer, top
        Who proposed boxes, and at most how many for a photo; None and 0 where there are none.
    proposer_fingerprint
        What changes whenever the proposer's boxes do; empty where there are none.
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
    """A file with the features of some photos; it is never changed.

    Attributes
    ----------
    file, bytes, sha256
        Its name, how long it is and what it hashes to.
    gone
        Rows that no longer count: the photo has changed, or has left the data set.
    """

    file: str
    photos: int
    bytes: int
    sha256: str
    gone: tuple[int, ...] = ()


@dataclass(frozen=True)
class StoreManifest:
    """What a feature store says of itself; `code` is the version of deixis that began it."""

    contents: Contents
    shards: tuple[Shard, ...] = ()
    code: str = __version__


def write_manifest(manifest: StoreManifest, folder: Path) -> None:
    """Put a new manifest in the place of the old one; when this returns, the disk has it."""
    document = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
    with new_file(folder / FILE) as unfinished:
        unfinished.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> StoreManifest:
    """Read the manifest of a feature store."""
    path = folder / FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        hint = "is there a typing mistake?" if not folder.exists() else "make one with: deixis features DATA"
        raise DeixisError(f"{folder}: not a feature store; {hint}") from None
    except OSError as error:
        raise DeixisError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError) as error:
        raise _damaged(path, " ".join(str(error).split())) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DeixisError(f"{path}: not the manifest of a feature store")
    if document.get("version") != VERSION:
        raise DeixisError(
            f"{path}: written for version {document.get('version')} of the layout, this deixis reads {VERSION}; "
            "remove the store to compute it anew"
        )
    try:
        shards = tuple(_shard(entry) for entry in _listed(document["shards"], "shards"))
        return StoreManifest(_contents(document["contents"]), shards, str(document["code"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from None


def _damaged(path: Path, reason: str) -> DeixisError:
    return DeixisError(f"{path}: damaged, remove the store to compute it anew ({reason})")


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
        raise ValueError(f"{shard.file!r} cannot be a file")
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


def refuse_other(path: Path, there: Contents, wanted: Contents) -> None:
    """Say what differs, and what to do, where a store was made with other settings than are wanted."""
    todo = "give another --out, or remove it to compute it anew"
    if there.fingerprint != wanted.fingerprint:
        raise DeixisError(f"{path}: holds features of {_named(there)}, which do not mix with {_named(wanted)}; {todo}")
    # The encoder's name may hold where a file lies, which changes no number.
    for name in ("dimension", "channels", "crops", "proposer", "top"):
        if (has := getattr(there, name)) != (want := getattr(wanted, name)):
            raise DeixisError(f"{path}: was made with {name} {has}, not {want}; {todo}")
    if there.proposer_fingerprint != wanted.proposer_fingerprint:
        boxes, others = (f"{each.proposer} ({each.proposer_fingerprint[:16]})" for each in (there, wanted))
        raise DeixisError(f"{path}: holds boxes of {boxes}, which do not mix with those of {others}; {todo}")


def _named(contents: Contents) -> str:
    return f"{contents.encoder} ({contents.fingerprint[:16]})"
