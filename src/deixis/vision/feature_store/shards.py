"""Shards of a feature store: immutable safetensors files with the features of some photos."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from deixis.errors import DeixisError
from deixis.storage.atomic import new_file
from deixis.storage.files import hash_file
from deixis.vision.feature_map import FeatureMap
from deixis.vision.feature_store.manifest import Contents, Shard
from deixis.vision.proposals.base import Proposals

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class FileStamp:
    """Hash, size and modification time of a photo file when its features were computed."""

    sha256: bytes
    bytes: int
    modified_ns: int


@dataclass(frozen=True)
class FeatureRecord:
    """The features of one photo.

    Attributes
    ----------
    whole, crops : arrays of float32, (dimension,)
        Global vector, and the mean over ten crops if computed.
    cells : array of float16, (channels, rows, columns)
        Feature map; None for imported vectors.
    proposals, vectors
        Region proposals, and a float16 vector for each: (n, channels).
    """

    id: str
    stamp: FileStamp
    size: tuple[int, int]
    whole: Floats
    cells: NDArray[np.float16] | None = None
    crops: Floats | None = None
    proposals: Proposals | None = None
    vectors: NDArray[np.float16] | None = None

    @property
    def nbytes(self) -> int:
        """Approximate size."""
        arrays = (self.whole, self.cells, self.crops, self.vectors)
        return sum(array.nbytes for array in arrays if array is not None)


def write_shard(photos: Sequence[FeatureRecord], folder: Path, number: int) -> Shard:
    """Write a new shard and flush it to disk."""
    data = save(_tensors(photos), {"ids": json.dumps([photo.id for photo in photos], ensure_ascii=False)})
    sha256 = hashlib.sha256(data).hexdigest()
    # The hash is part of the name, so that concurrent readers never find other bytes under a name.
    file = f"{number:06d}-{sha256[:8]}.safetensors"
    with new_file(folder / file) as unfinished:
        unfinished.write_bytes(data)
    return Shard(file, len(photos), len(data), sha256)


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
    """Memory-mapped shard. Opening reads the header only."""

    def __init__(self, folder: Path, shard: Shard, contents: Contents) -> None:
        self.path = folder / shard.file
        try:
            if (found := self.path.stat().st_size) != shard.bytes:
                raise _damaged_shard(self.path, f"{found:,} bytes instead of {shard.bytes:,}")
            file: Any = safe_open(self.path, framework="numpy")
            self.ids = _read_ids(file.metadata()["ids"])
            shape = file.get_slice("whole").get_shape()
        except (FileNotFoundError, SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise _damaged_shard(self.path, str(error)) from None
        except OSError as error:
            raise _unreadable(self.path, error) from None
        self._file = file
        if shape != [shard.photos, contents.dimension] or len(self.ids) != shard.photos:
            raise _damaged_shard(self.path, f"vectors of shape {shape} for {len(self.ids)} photos")

    def rows(self, name: str) -> NDArray[Any]:
        """Return an array with one row per photo: whole, crops or size."""
        with _raise_damage(self.path):
            array: NDArray[Any] = self._file.get_tensor(name)
        return array

    def stamps(self) -> list[FileStamp]:
        pairs = zip(self.rows("sha256"), self.rows("file").tolist(), strict=True)
        return [FileStamp(sha256.tobytes(), length, modified_ns) for sha256, (length, modified_ns) in pairs]

    def map(self, row: int) -> FeatureMap:
        with _raise_damage(self.path):
            begin, end = map(int, self._cells_at[row : row + 2])
            if begin > end:  # safetensors would raise SystemError
                raise ValueError(f"map from cell {begin} to {end}")
            cells = self._file.get_slice("cells")[begin:end].astype(np.float32)
            width, height = self._sizes[row].tolist()
            return FeatureMap(cells.reshape(self._shapes[row]), self._whole[row], (width, height))

    def proposals(self, row: int) -> Proposals:
        boxes, scores = (self._proposed(name, row).astype(np.float64) for name in ("boxes", "scores"))
        return Proposals(boxes, scores)

    def vectors(self, row: int) -> Floats:
        return self._proposed("vectors", row).astype(np.float32)

    def _proposed(self, name: str, row: int) -> NDArray[Any]:
        with _raise_damage(self.path):
            begin, end = map(int, self._proposed_at[row : row + 2])
            array = self._file.get_slice(name)
            # safetensors refuses an empty slice at the end.
            found: NDArray[Any] = array[begin:end] if begin < end else np.zeros((0, *array.get_shape()[1:]))
            return found

    @cached_property
    def _whole(self) -> NDArray[Any]:
        return self.rows("whole")

    @cached_property
    def _sizes(self) -> NDArray[Any]:
        return self.rows("size")

    @cached_property
    def _shapes(self) -> NDArray[Any]:
        return self.rows("shape")

    @cached_property
    def _cells_at(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self._shapes.prod(axis=1, dtype=np.int64))])

    @cached_property
    def _proposed_at(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.rows("proposed"), dtype=np.int64)])


def is_intact(folder: Path, shard: Shard) -> bool:
    """Return whether the hash of a shard matches. A file without read permission raises instead."""
    path = folder / shard.file
    try:
        return hash_file(path) == shard.sha256
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unreadable(path, error) from None


def _read_ids(text: str) -> list[str]:
    ids = json.loads(text)
    if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids):
        raise ValueError("ids are not a list of strings")
    return ids


@contextmanager
def _raise_damage(path: Path) -> Iterator[None]:
    """Turn errors from inconsistent headers into a `DeixisError`."""
    try:
        yield
    except (SafetensorError, ValueError, IndexError, OverflowError) as error:
        raise _damaged_shard(path, str(error)) from None


def _damaged_shard(path: Path, reason: str) -> DeixisError:
    why = " ".join(reason.split())
    return DeixisError(f"{path}: damaged ({why}); run the same deixis features command again to compute this part")


def _unreadable(path: Path, error: OSError) -> DeixisError:
    return DeixisError(f"{path}: cannot be read ({error.strerror or error}); nothing was computed")
