"""The files of a feature store: one manifest, and immutable safetensors shards with the features of some photos."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from deixis import __version__
from deixis.arrays import Floats
from deixis.errors import DeixisError, short_reason
from deixis.storage.atomic import new_file
from deixis.storage.checksums import READ_ERRORS, CheckedFile, FileChecks, TensorFile, seal, unseal
from deixis.storage.files import hash_file, read_regular
from deixis.storage.progress import OnProgress
from deixis.vision.encoder import FeatureMap
from deixis.vision.proposals import Proposals

FILE = "manifest.json"
FORMAT = "deixis-features"
VERSION = 2
"""Version 1 had no checksums of blocks, nor of the manifest."""

IMPORTED = "imported"
"""Name of the region proposals of a store whose regions were imported; it has no feature maps."""

Record = TypeVar("Record", "Contents", "Shard")

SHARD_FILE = re.compile(r"[0-9]{6,9}-[0-9a-f]{2,64}\.safetensors")
"""File name of a shard: number and start of the hash."""


@dataclass(frozen=True)
class Contents:
    """Contents of a store for each photo, and the encoder and proposer that computed them."""

    encoder: str
    fingerprint: str
    dimension: int
    channels: int = 0  # 0 without maps
    crops: int = 0  # 10 or 0
    proposer: str | None = None
    top: int = 0  # maximum number of proposals per photo
    proposer_fingerprint: str = ""


@dataclass(frozen=True)
class Shard:
    """An immutable file with the features of some photos."""

    file: str
    photos: int
    bytes: int
    sha256: str
    gone: tuple[int, ...] = ()  # deleted rows: the photo has changed or is no longer in the data set
    crc32: str = ""  # of its blocks (`storage.checksums`); empty in shards of older versions

    @property
    def checks(self) -> FileChecks | None:
        entry = {"bytes": self.bytes, "sha256": self.sha256, "crc32": self.crc32}
        return FileChecks.from_json(entry) if self.crc32 else None


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
        unfinished.write_bytes(seal(document))


def read_manifest(folder: Path) -> StoreManifest:
    path = folder / FILE
    try:
        document = unseal(read_regular(path))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        hint = "check the path" if not folder.exists() else "create one with: deixis features DATA"
        raise DeixisError(f"{folder}: not a feature store; {hint}") from None
    except OSError as error:
        raise DeixisError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError) as error:
        raise _damaged(path, short_reason(error)) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DeixisError(f"{path}: not the manifest of a feature store")
    if document.get("version") not in (1, VERSION):
        raise DeixisError(
            f"{path}: layout version {document.get('version')} is not supported (expected {VERSION}); "
            "remove the store and compute it again"
        )
    try:
        if not isinstance(document["shards"], list):
            raise TypeError("shards is not a list")
        shards = tuple(_read_shard_entry(entry) for entry in document["shards"])
        return StoreManifest(_check_types(Contents(**document["contents"])), shards, str(document["code"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"{type(error).__name__}: {error}") from None


def _damaged(path: Path, reason: str) -> DeixisError:
    return DeixisError(f"{path}: damaged, remove the store and compute it again ({reason})")


def _read_shard_entry(entry: dict[str, Any]) -> Shard:
    shard = _check_types(Shard(**{**entry, "gone": tuple(entry["gone"])}))
    if not SHARD_FILE.fullmatch(shard.file):
        raise ValueError(f"{shard.file!r} is not the name of a shard")
    if not all(row < shard.photos for row in shard.gone):
        raise ValueError("gone is not a list of rows")
    _ = shard.checks  # raises
    return shard


def _check_types(record: Record) -> Record:
    """Raise an error if a field of an entry has another type than its annotation. All integers are counts."""
    for name, kind in get_type_hints(type(record)).items():
        value = getattr(record, name)
        if kind in (int, tuple[int, ...]):
            valid = all(type(count) is int and count >= 0 for count in (value if isinstance(value, tuple) else [value]))
        else:
            valid = isinstance(value, kind)
        if not valid:
            raise TypeError(f"{name} is {value!r}")
    return record


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


@dataclass(frozen=True)
class FileStamp:
    """Hash, size and modification time of a photo file when its features were computed."""

    sha256: bytes
    bytes: int
    modified_ns: int


@dataclass(frozen=True)
class FeatureRecord:
    """The features of one photo."""

    id: str
    stamp: FileStamp
    size: tuple[int, int]
    whole: Floats
    cells: NDArray[np.float16] | None = None
    crops: Floats | None = None  # mean vector over ten crops
    proposals: Proposals | None = None
    vectors: NDArray[np.float16] | None = None  # of the proposals (n, channels)

    @property
    def nbytes(self) -> int:
        arrays = (self.whole, self.cells, self.crops, self.vectors)
        return sum(array.nbytes for array in arrays if array is not None)


def write_shard(photos: Sequence[FeatureRecord], folder: Path, number: int) -> Shard:
    data = save(_tensors(photos), {"ids": json.dumps([photo.id for photo in photos], ensure_ascii=False)})
    sha256 = hashlib.sha256(data).hexdigest()
    # The hash is part of the name, so that concurrent readers never find other bytes under a name.
    file = f"{number:06d}-{sha256[:8]}.safetensors"
    with new_file(folder / file) as unfinished:
        unfinished.write_bytes(data)
        crc32 = FileChecks.of(unfinished).crc32
    return Shard(file, len(photos), len(data), sha256, crc32=crc32)


def _tensors(photos: Sequence[FeatureRecord]) -> dict[str, NDArray[Any]]:
    """Concatenate the maps and proposals of all photos, with their shapes and counts."""
    tensors: dict[str, NDArray[Any]] = {
        "whole": np.stack([photo.whole for photo in photos]).astype(np.float32, copy=False),
        "size": np.array([photo.size for photo in photos], dtype=np.int32),
        "sha256": np.stack([np.frombuffer(photo.stamp.sha256, dtype=np.uint8) for photo in photos]),
        "file": np.array([(photo.stamp.bytes, photo.stamp.modified_ns) for photo in photos], dtype=np.int64),
    }
    maps = [photo.cells for photo in photos if photo.cells is not None]
    if maps:
        tensors["cells"] = np.concatenate([cells.ravel() for cells in maps])
        tensors["shape"] = np.array([cells.shape for cells in maps], dtype=np.int32)
    crops = [photo.crops for photo in photos if photo.crops is not None]
    if crops:
        tensors["crops"] = np.stack(crops).astype(np.float32, copy=False)
    proposals = [photo.proposals for photo in photos if photo.proposals is not None]
    vectors = [photo.vectors for photo in photos if photo.vectors is not None]
    if proposals:
        tensors["boxes"] = np.concatenate([found.boxes for found in proposals]).astype(np.float32)
        tensors["scores"] = np.concatenate([found.scores for found in proposals]).astype(np.float32)
        tensors["vectors"] = np.concatenate(vectors)
        tensors["proposed"] = np.array([len(found.boxes) for found in proposals], dtype=np.int32)
    return tensors


class ShardReader:
    """Memory-mapped shard. Opening reads the header only. `live` has the row of each photo that is not deleted."""

    def __init__(self, folder: Path, shard: Shard, contents: Contents) -> None:
        self.path = folder / shard.file
        with _explain_damage(self.path):
            if (found := self.path.stat().st_size) != shard.bytes:
                raise ValueError(f"{found:,} bytes instead of {shard.bytes:,}")
            self._tensors = TensorFile(CheckedFile(self.path, shard.checks))
            ids = json.loads(self._tensors.metadata["ids"])
            if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids):
                raise ValueError("ids are not a list of strings")
            shape = self._tensors.layout["whole"].shape
            if shape != (shard.photos, contents.dimension) or len(ids) != shard.photos:
                raise ValueError(f"vectors of shape {shape} for {len(ids)} photos")
        gone = set(shard.gone)
        self.live = {name: row for row, name in enumerate(ids) if row not in gone}

    def rows(self, name: str) -> NDArray[Any]:
        """Return an array with one row per photo: whole, crops or size."""
        with _explain_damage(self.path):
            return self._tensors.array(name)

    def stamps(self) -> dict[str, FileStamp]:
        with _explain_damage(self.path):
            hashes, files = self.rows("sha256"), self.rows("file").tolist()
            return {name: FileStamp(hashes[row].tobytes(), *files[row]) for name, row in self.live.items()}

    def map(self, row: int) -> FeatureMap:
        with _explain_damage(self.path):
            shapes, (width, height) = self.rows("shape"), self.rows("size")[row].tolist()
            cells = self._part("cells", row, shapes.prod(axis=1, dtype=np.int64)).astype(np.float32)
            return FeatureMap(cells.reshape(shapes[row]), self.rows("whole")[row], (width, height))

    def proposals(self, row: int) -> Proposals:
        boxes, scores = (self.of_proposals(name, row).astype(np.float64) for name in ("boxes", "scores"))
        return Proposals(boxes, scores)

    def of_proposals(self, name: str, row: int) -> NDArray[Any]:
        """Return boxes, scores or vectors of the proposals of a photo."""
        with _explain_damage(self.path):
            return self._part(name, row, self.rows("proposed"))

    def _part(self, name: str, row: int, counts: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of a photo in an array of which each photo has another number."""
        begin = int(counts[:row].sum())
        return self._tensors.rows(name, begin, begin + int(counts[row]))


def damaged_shards(folder: Path, shards: Sequence[Shard], on_progress: OnProgress) -> list[str]:
    """Return the names of files whose hash does not match. A file without read permission raises instead."""
    damaged = []
    checked, total = 0, sum(shard.photos for shard in shards)
    for shard in shards:
        path = folder / shard.file
        try:
            if hash_file(path) != shard.sha256:
                damaged.append(shard.file)
        except FileNotFoundError:
            damaged.append(shard.file)
        except OSError as error:
            raise _unreadable(path, error) from None
        checked += shard.photos
        on_progress("checking stored features", checked, total)
    return damaged


@contextmanager
def _explain_damage(path: Path) -> Iterator[None]:
    try:
        yield
    except READ_ERRORS as error:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise _unreadable(path, error) from None
        raise DeixisError(
            f"{path}: damaged ({short_reason(error)}); run the same deixis features command again to compute this part"
        ) from None


def _unreadable(path: Path, error: OSError) -> DeixisError:
    return DeixisError(f"{path}: cannot be read ({error.strerror or error}); nothing was computed")
