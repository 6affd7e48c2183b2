"""Writer of feature stores. Photos are collected into shards; a shard counts once the manifest lists it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from deixis.errors import DeixisError
from deixis.storage.atomic import exclusive_lock, explain_os_errors, make_parents
from deixis.storage.progress import OnProgress, no_progress
from deixis.vision.feature_store.manifest import (
    FILE,
    SHARD_FILE,
    Contents,
    Shard,
    StoreManifest,
    check_contents,
    read_manifest,
    write_manifest,
)
from deixis.vision.feature_store.shards import FeatureRecord, FileStamp, ShardReader, is_intact, write_shard

_UNFINISHED = re.compile(r"\.(manifest|[0-9]{6,9}-[0-9a-f]+)\.partial-")


@dataclass(frozen=True)
class ShardLimits:
    """Maximum size of a shard, which is also what a killed process loses.

    There is no time limit, so the same photos give the same shards on every machine.
    """

    photos: int = 128
    bytes: int = 32 * 2**20


@dataclass(frozen=True)
class _Location:
    shard: str
    row: int
    stamp: FileStamp


class StoreWriter:
    """Adds photos to a feature store. Created by `open_writer`, which holds the lock.

    Attributes
    ----------
    damaged : list of str
        File names of damaged shards, which were removed from the manifest.
    """

    def __init__(self, path: Path, manifest: StoreManifest, limits: ShardLimits, on_progress: OnProgress) -> None:
        self.path = path
        self.damaged: list[str] = []
        self._limits = limits
        self._manifest = manifest
        self._shards = {shard.file: shard for shard in self._intact(manifest.shards, on_progress)}
        self._locations = self._find_locations()
        self._pending: list[FeatureRecord] = []
        self._pending_bytes = 0
        self._number = 1 + max((int(file.split("-")[0]) for file in self._shards), default=-1)
        if self.damaged:
            self._write_manifest()

    def _intact(self, shards: Sequence[Shard], on_progress: OnProgress) -> Iterator[Shard]:
        checked, total = 0, sum(shard.photos for shard in shards)
        for shard in shards:
            if is_intact(self.path, shard):
                yield shard
            else:
                self.damaged.append(shard.file)
            checked += shard.photos
            on_progress("checking stored features", checked, total)

    def _find_locations(self) -> dict[str, _Location]:
        locations = {}
        for shard in self._shards.values():
            reader = ShardReader(self.path, shard, self._manifest.contents)
            deleted = set(shard.gone)
            for row, (photo_id, stamp) in enumerate(zip(reader.ids, reader.stamps(), strict=True)):
                if row not in deleted:
                    locations[photo_id] = _Location(shard.file, row, stamp)
        return locations

    @property
    def ids(self) -> Collection[str]:
        """Ids of the stored photos."""
        return self._locations.keys()

    def stamp(self, photo_id: str) -> FileStamp | None:
        """Return the file stamp of a photo, or None if it is not stored."""
        location = self._locations.get(photo_id)
        return location.stamp if location else None

    def add(self, photo: FeatureRecord) -> None:
        """Add a photo. It is written with its shard, at the latest by `flush`."""
        self._pending.append(photo)
        self._pending_bytes += photo.nbytes
        if len(self._pending) >= self._limits.photos or self._pending_bytes >= self._limits.bytes:
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
            self._locations[photo.id] = _Location(shard.file, row, photo.stamp)
        self._number += 1
        self._pending, self._pending_bytes = [], 0

    def drop(self, photo_ids: Collection[str]) -> None:
        """Delete photos from the store."""
        if photo_ids:
            self._delete(photo_ids)
            self._write_manifest()

    def _delete(self, photo_ids: Collection[str]) -> None:
        for photo_id in photo_ids:
            location = self._locations.pop(photo_id)
            shard = self._shards[location.shard]
            self._shards[location.shard] = replace(shard, gone=(*shard.gone, location.row))
        self._shards = {file: shard for file, shard in self._shards.items() if len(shard.gone) < shard.photos}

    def _write_manifest(self) -> None:
        write_manifest(replace(self._manifest, shards=tuple(self._shards.values())), self.path)


@contextmanager
def open_writer(
    path: Path, contents: Contents, *, limits: ShardLimits | None = None, on_progress: OnProgress = no_progress
) -> Iterator[StoreWriter]:
    """Open or create a feature store as its only writer.

    Pending photos are written at the end of the block, also after Ctrl-C.

    Parameters
    ----------
    path
        Directory of the store. One with other contents is refused.
    contents
        Encoder and what is stored of each photo.
    limits
        Maximum size of a shard.
    on_progress
        Progress callback for checking existing shards.
    """
    path = path.absolute()
    with explain_os_errors(path), make_parents(path), exclusive_lock(path):
        manifest = _open_or_create(path, contents)
        _remove_unlisted(path, manifest)
        writer = StoreWriter(path, manifest, limits or ShardLimits(), on_progress)
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
    """Remove shards that are not in the manifest: from killed processes, or with deleted photos only.

    Done at the start of a writer and not at its end, so that concurrent readers keep their files.
    """
    listed = {shard.file for shard in manifest.shards}
    # Only files with the names of shards: users may have put others here.
    shards = (file for file in path.glob("*.safetensors") if SHARD_FILE.fullmatch(file.name))
    unfinished = (file for file in path.glob(".*.partial-*") if _UNFINISHED.match(file.name))
    for file in [*shards, *unfinished]:
        if file.name not in listed:
            with suppress(OSError):  # Windows cannot remove an open file
                file.unlink()
