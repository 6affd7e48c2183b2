"""The one writer of a feature store: photos go in, whole shards come to lie on disk, the manifest acknowledges them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from deixis.errors import DeixisError
from deixis.files.atomic import explained, only_one, parents_of
from deixis.files.progress import OnProgress, silent
from deixis.vision.store.manifest import (
    FILE,
    SHARD_FILE,
    Contents,
    Shard,
    StoreManifest,
    read_manifest,
    refuse_other,
    write_manifest,
)
from deixis.vision.store.shards import OpenShard, PhotoFeatures, Stamp, is_intact, write_shard

_UNFINISHED = re.compile(r"\.(manifest|[0-9]{6,9}-[0-9a-f]+)\.partial-")


@dataclass(frozen=True)
class ShardLimits:
    """When a shard is full, which is what a kill loses.

    No clock has a say in it: the same photos come to lie in the same shards, whoever computes them and however fast.
    """

    photos: int = 128
    bytes: int = 32 * 2**20


@dataclass(frozen=True)
class _Place:
    shard: str
    row: int
    stamp: Stamp


class StoreWriter:
    """Adds to a feature store; made by `open_for_writing`, which holds the lock.

    Attributes
    ----------
    damaged : list of str
        Names of the shards that were found damaged and no longer count.
    """

    def __init__(self, path: Path, manifest: StoreManifest, limits: ShardLimits, on_progress: OnProgress) -> None:
        self.path = path
        self.damaged: list[str] = []
        self._limits = limits
        self._manifest = manifest
        self._shards = {shard.file: shard for shard in self._intact(manifest.shards, on_progress)}
        self._places = self._find_places()
        self._waiting: list[PhotoFeatures] = []
        self._waiting_bytes = 0
        self._number = 1 + max((int(file.split("-")[0]) for file in self._shards), default=-1)
        if self.damaged:
            self._acknowledge()

    def _intact(self, shards: Sequence[Shard], on_progress: OnProgress) -> Iterator[Shard]:
        checked, total = 0, sum(shard.photos for shard in shards)
        for shard in shards:
            if is_intact(self.path, shard):
                yield shard
            else:
                self.damaged.append(shard.file)
            checked += shard.photos
            on_progress("checking what is there", checked, total)

    def _find_places(self) -> dict[str, _Place]:
        places = {}
        for shard in self._shards.values():
            opened = OpenShard(self.path, shard, self._manifest.contents)
            gone = set(shard.gone)
            for row, (photo_id, stamp) in enumerate(zip(opened.ids, opened.stamps(), strict=True)):
                if row not in gone:
                    places[photo_id] = _Place(shard.file, row, stamp)
        return places

    @property
    def ids(self) -> Collection[str]:
        """The photos that are stored."""
        return self._places.keys()

    def stamp(self, photo_id: str) -> Stamp | None:
        """The file that a photo's features were computed from; None where there are none."""
        place = self._places.get(photo_id)
        return place.stamp if place else None

    def add(self, photo: PhotoFeatures) -> None:
        """Take in a photo; it is acknowledged with its shard, at the latest by `flush`."""
        self._waiting.append(photo)
        self._waiting_bytes += photo.nbytes
        if self._is_full():
            self.flush()

    def _is_full(self) -> bool:
        return len(self._waiting) >= self._limits.photos or self._waiting_bytes >= self._limits.bytes

    def flush(self) -> None:
        """Write what waits as a shard, then name it in the manifest, which puts it in the place of what it redoes."""
        if not self._waiting:
            return
        shard = write_shard(self._waiting, self.path, self._number)
        redone = [photo.id for photo in self._waiting if photo.id in self._places]
        self._mark_gone(redone)
        self._shards[shard.file] = shard
        self._acknowledge()
        for row, photo in enumerate(self._waiting):
            self._places[photo.id] = _Place(shard.file, row, photo.stamp)
        self._number += 1
        self._waiting, self._waiting_bytes = [], 0

    def drop(self, photo_ids: Collection[str]) -> None:
        """Let photos no longer count."""
        if photo_ids:
            self._mark_gone(photo_ids)
            self._acknowledge()

    def _mark_gone(self, photo_ids: Collection[str]) -> None:
        for photo_id in photo_ids:
            place = self._places.pop(photo_id)
            shard = self._shards[place.shard]
            self._shards[place.shard] = replace(shard, gone=(*shard.gone, place.row))
        self._shards = {file: shard for file, shard in self._shards.items() if len(shard.gone) < shard.photos}

    def _acknowledge(self) -> None:
        write_manifest(replace(self._manifest, shards=tuple(self._shards.values())), self.path)


@contextmanager
def open_for_writing(
    path: Path, contents: Contents, *, limits: ShardLimits | None = None, on_progress: OnProgress = silent
) -> Iterator[StoreWriter]:
    """Open a feature store, or begin one, as its only writer.

    What waits is written when the block ends, well or by Ctrl-C.

    Parameters
    ----------
    path
        The store's directory. One that holds other features, or something else, is refused.
    contents
        What every photo has, and which encoder makes it.
    limits
        When a shard is full.
    on_progress
        Called while the shards that are there are checked.
    """
    path = path.absolute()
    with explained(path), parents_of(path), only_one(path):
        manifest = _begun(path, contents)
        _clear_up_after_a_kill(path, manifest)
        writer = StoreWriter(path, manifest, limits or ShardLimits(), on_progress)
        try:
            yield writer
        except KeyboardInterrupt:
            writer.flush()
            raise
        writer.flush()


def _begun(path: Path, contents: Contents) -> StoreManifest:
    """The manifest of a store, which is made if there is none."""
    if (path / FILE).exists():
        manifest = read_manifest(path)
        refuse_other(path, manifest.contents, contents)
        return manifest
    if path.is_dir() and any(not child.name.startswith(".") for child in path.iterdir()):
        raise DeixisError(f"{path}: exists already and is no feature store; give another --out")
    path.mkdir(exist_ok=True)
    manifest = StoreManifest(contents)
    write_manifest(manifest, path)
    return manifest


def _clear_up_after_a_kill(path: Path, manifest: StoreManifest) -> None:
    """Remove what no manifest names: shards that were never acknowledged, and those whose photos are all gone.

    This is done when a writer begins and not when it ends, so that whoever opened the store meanwhile reads on.
    """
    named = {shard.file for shard in manifest.shards}
    # Only what is called as our files are: somebody may have put others beside them.
    shards = (file for file in path.glob("*.safetensors") if SHARD_FILE.fullmatch(file.name))
    unfinished = (file for file in path.glob(".*.partial-*") if _UNFINISHED.match(file.name))
    for file in [*shards, *unfinished]:
        if file.name not in named:
            with suppress(OSError):  # Windows cannot remove what somebody reads
                file.unlink()
