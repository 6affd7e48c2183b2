"""Reader and writer of feature stores. A shard counts once the manifest lists it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from deixis import geometry
from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.storage.atomic import exclusive_lock, explain_os_errors, make_parents
from deixis.storage.progress import OnProgress, no_progress
from deixis.vision.encoder import FeatureMap
from deixis.vision.feature_store.files import (
    FILE,
    IMPORTED,
    SHARD_FILE,
    Contents,
    FeatureRecord,
    FileStamp,
    ShardReader,
    StoreManifest,
    check_contents,
    damaged_shards,
    read_manifest,
    write_manifest,
    write_shard,
)
from deixis.vision.proposals import Proposals

_UNFINISHED = re.compile(r"\.(manifest|[0-9]{6,9}-[0-9a-f]+)\.partial-")


def default_store_path(data: Path, encoder: str, *, crops: int = 0, proposer: str | None = None, top: int = 0) -> Path:
    """Return the default path of features: ``DATA/features/torchvision-vgg19,crops=10``."""
    from deixis.data.dataset import FEATURES

    name = encoder + (f",crops={crops}" if crops else "") + (f",{proposer}={top}" if proposer else "")
    return data / FEATURES / re.sub(r"[^\w.,=@+-]+", "-", name).strip("-.")


class FeatureStore:
    """The features of a data set by one encoder, as written by ``deixis features``.

    Opening reads the ids only; vectors and maps are read on access. The store is a snapshot: later changes by other
    processes are not visible. A store of an encoder with another `fingerprint` is refused.

    Examples
    --------
    >>> store = FeatureStore("flickr8k.data/features/efficientnet-lite2")  # doctest: +SKIP
    >>> store.whole(["1000268201_693b08cb0e"]).shape  # doctest: +SKIP
    (1, 1280)
    >>> store.regions("1000268201_693b08cb0e", [[0, 0, 50, 80]]).shape  # doctest: +SKIP
    (1, 1280)
    """

    def __init__(self, path: str | Path, *, fingerprint: str | None = None) -> None:
        self.path = Path(path)
        self.manifest = read_manifest(self.path)
        self.contents: Contents = self.manifest.contents
        if fingerprint is not None and fingerprint != self.contents.fingerprint:
            raise DeixisError(
                f"{self.path}: holds features of {self.contents.encoder} ({self.contents.fingerprint[:16]}), not of "
                f"{fingerprint[:16]}; compute them with: deixis features DATA --encoder NAME --out DIR"
            )
        self._readers = [ShardReader(self.path, shard, self.contents) for shard in self.manifest.shards]
        self._locations = {name: (reader, row) for reader in self._readers for name, row in reader.live.items()}

    @cached_property
    def ids(self) -> list[str]:
        """Sorted ids of the photos that have features."""
        return sorted(self._locations)

    def __len__(self) -> int:
        return len(self._locations)

    def __contains__(self, photo_id: str) -> bool:
        return photo_id in self._locations

    def whole(self, ids: Sequence[str] | None = None) -> Floats:
        """Return the global vectors of photos, by default of all: (n, dimension)."""
        return self._gather("whole", ids)

    def crops(self, ids: Sequence[str] | None = None) -> Floats:
        """Return mean vectors over ten crops; requires ``--crops 10``."""
        self._require(self.contents.crops, "no crops", "--crops 10")
        return self._gather("crops", ids)

    def sizes(self, ids: Sequence[str] | None = None) -> NDArray[np.int32]:
        """Return width and height of photos in pixels: (n, 2)."""
        return self._gather("size", ids, columns=2, kind=np.int32)

    def map(self, photo_id: str) -> FeatureMap:
        """Return the feature map of a photo. It is stored as float16."""
        has_maps = self.contents.channels and self.contents.proposer != IMPORTED
        self._require(has_maps, "no maps", "--encoder NAME")
        reader, row = self._location(photo_id)
        return reader.map(row)

    def regions(self, photo_id: str, boxes: npt.ArrayLike) -> Floats:
        """Pool one vector for each box, given in pixels of the photo: (n, channels).

        Of imported regions, return the vector of the region with the highest IoU.
        """
        if self.contents.proposer != IMPORTED:
            return self.map(photo_id).regions(boxes)
        wanted = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
        nearest = geometry.iou(wanted, self.proposals(photo_id).boxes).argmax(axis=1)
        return np.asarray(self.proposal_vectors(photo_id)[nearest])

    def whole_regions(self, ids: Sequence[str]) -> Floats:
        """Return the vectors of regions as large as their photos: (n, channels)."""
        vectors = np.empty((len(ids), self.contents.channels), dtype=np.float32)
        for row, (photo_id, size) in enumerate(zip(ids, self.sizes(ids), strict=True)):
            vectors[row] = self.regions(photo_id, [0, 0, *size])[0]
        return vectors

    def proposals(self, photo_id: str) -> Proposals:
        """Return the region proposals of a photo; requires ``--proposals``."""
        self._require(self.contents.proposer, "no proposals", "--proposals NAME")
        reader, row = self._location(photo_id)
        return reader.proposals(row)

    def proposal_vectors(self, photo_id: str) -> Floats:
        """Return the vectors of the proposals. They are stored as float16."""
        self._require(self.contents.proposer, "no proposals", "--proposals NAME")
        reader, row = self._location(photo_id)
        return reader.of_proposals("vectors", row).astype(np.float32)

    def stamps(self) -> dict[str, FileStamp]:
        return {name: stamp for reader in self._readers for name, stamp in reader.stamps().items()}

    def damaged(self, on_progress: OnProgress = no_progress) -> list[str]:
        """Check the hashes and return the names of damaged files."""
        return damaged_shards(self.path, self.manifest.shards, on_progress)

    def _gather(
        self, name: str, ids: Sequence[str] | None, columns: int = 0, kind: npt.DTypeLike = np.float32
    ) -> NDArray[Any]:
        """Collect rows of an array from all shards. Each shard is read once."""
        locations = [self._location(photo_id) for photo_id in (self.ids if ids is None else ids)]
        gathered = np.empty((len(locations), columns or self.contents.dimension), dtype=kind)
        places: dict[ShardReader, list[int]] = {}
        for place, (reader, _) in enumerate(locations):
            places.setdefault(reader, []).append(place)
        for reader, own in places.items():
            gathered[own] = reader.rows(name)[[locations[place][1] for place in own]]
        return gathered

    def _location(self, photo_id: str) -> tuple[ShardReader, int]:
        try:
            return self._locations[photo_id]
        except KeyError:
            raise DeixisError(
                f"{self.path}: no features of photo {photo_id!r}; run the same deixis features command again"
            ) from None

    def _require(self, present: object, missing: str, option: str) -> None:
        if not present:
            raise DeixisError(f"{self.path}: holds {missing}; compute them with: deixis features DATA {option}")


# Maximum size of a shard, which is also what a killed process loses. There is no time limit, so the same photos give
# the same shards on every machine.
SHARD_PHOTOS = 128
SHARD_BYTES = 32 * 2**20


class StoreWriter:
    """Adds photos to a feature store. Created by `open_writer`, which holds the lock.

    `damaged` are the file names of damaged shards, which were removed from the manifest.
    """

    def __init__(self, path: Path, manifest: StoreManifest, shard_photos: int, on_progress: OnProgress) -> None:
        self.path = path
        self.damaged = damaged_shards(path, manifest.shards, on_progress)
        self._shard_photos = shard_photos
        self._manifest = manifest
        self._shards = {shard.file: shard for shard in manifest.shards if shard.file not in self.damaged}
        self._locations: dict[str, tuple[str, int, FileStamp]] = {}  # shard, row and stamp of each photo
        for shard in self._shards.values():
            reader = ShardReader(path, shard, manifest.contents)
            for photo_id, stamp in reader.stamps().items():
                self._locations[photo_id] = (shard.file, reader.live[photo_id], stamp)
        self._pending: list[FeatureRecord] = []
        self._pending_bytes = 0
        self._number = 1 + max((int(file.split("-")[0]) for file in self._shards), default=-1)
        if self.damaged:
            self._write_manifest()

    @property
    def ids(self) -> Collection[str]:
        return self._locations.keys()

    def stamp(self, photo_id: str) -> FileStamp | None:
        """Return the file stamp of a photo, or None if it is not stored."""
        return self._locations[photo_id][2] if photo_id in self._locations else None

    def add(self, photo: FeatureRecord) -> None:
        """Add a photo. It is written with its shard, at the latest by `flush`."""
        self._pending.append(photo)
        self._pending_bytes += photo.nbytes
        if len(self._pending) >= self._shard_photos or self._pending_bytes >= SHARD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write pending photos as a shard and list it in the manifest. They replace older versions."""
        if not self._pending:
            return
        shard = write_shard(self._pending, self.path, self._number)
        replaced = [photo.id for photo in self._pending if photo.id in self._locations]
        self._delete(replaced)
        self._shards[shard.file] = shard
        self._write_manifest()
        for row, photo in enumerate(self._pending):
            self._locations[photo.id] = (shard.file, row, photo.stamp)
        self._number += 1
        self._pending, self._pending_bytes = [], 0

    def drop(self, photo_ids: Collection[str]) -> None:
        if photo_ids:
            self._delete(photo_ids)
            self._write_manifest()

    def _delete(self, photo_ids: Collection[str]) -> None:
        for photo_id in photo_ids:
            file, row, _ = self._locations.pop(photo_id)
            shard = self._shards[file]
            self._shards[file] = replace(shard, gone=(*shard.gone, row))
        self._shards = {file: shard for file, shard in self._shards.items() if len(shard.gone) < shard.photos}

    def _write_manifest(self) -> None:
        write_manifest(replace(self._manifest, shards=tuple(self._shards.values())), self.path)


@contextmanager
def open_writer(
    path: Path, contents: Contents, *, shard_photos: int = SHARD_PHOTOS, on_progress: OnProgress = no_progress
) -> Iterator[StoreWriter]:
    """Open or create a store as its only writer; pending photos are written at the end, also after Ctrl-C."""
    path = path.absolute()
    with explain_os_errors(path), make_parents(path), exclusive_lock(path):
        manifest = _open_or_create(path, contents)
        _remove_unlisted(path, manifest)
        writer = StoreWriter(path, manifest, shard_photos, on_progress)
        try:
            yield writer
        except KeyboardInterrupt:
            writer.flush()
            raise
        writer.flush()


def _open_or_create(path: Path, contents: Contents) -> StoreManifest:
    if (path / FILE).exists():
        manifest = read_manifest(path)
        check_contents(path, manifest.contents, contents)
        return manifest
    if path.is_dir() and any(not child.name.startswith(".") for child in path.iterdir()):
        raise DeixisError(f"{path}: exists already and is not a feature store; choose another --out")
    path.mkdir(exist_ok=True)
    manifest = StoreManifest(contents)
    write_manifest(manifest, path)
    return manifest


def _remove_unlisted(path: Path, manifest: StoreManifest) -> None:
    """Remove shards that the manifest lacks, at the start of a writer, so that concurrent readers keep their files."""
    listed = {shard.file for shard in manifest.shards}
    # Only files with the names of shards: users may have put others here.
    shards = (file for file in path.glob("*.safetensors") if SHARD_FILE.fullmatch(file.name))
    unfinished = (file for file in path.glob(".*.partial-*") if _UNFINISHED.match(file.name))
    for file in [*shards, *unfinished]:
        if file.name not in listed:
            with suppress(OSError):  # Windows cannot remove an open file
                file.unlink()
