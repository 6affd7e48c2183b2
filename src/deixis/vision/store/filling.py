"""The photos of a data set become a feature store: what is missing or has changed is computed, the rest is kept."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deixis.data.dataset import Dataset, Photos
from deixis.errors import DatasetError, DeixisError, PhotoError
from deixis.files.progress import OnProgress, silent, told
from deixis.vision.encoder import ImageEncoder
from deixis.vision.features import FeatureMap
from deixis.vision.proposals.proposer import Proposer
from deixis.vision.reading import SeenPhoto, encode_photos, encode_whole_photos
from deixis.vision.store.feature_store import FeatureStore
from deixis.vision.store.manifest import Contents
from deixis.vision.store.shards import PhotoFeatures, Stamp
from deixis.vision.store.writing import ShardLimits, StoreWriter, open_for_writing

_WORKERS = min(8, os.cpu_count() or 1)


@dataclass(frozen=True)
class Extras:
    """What is computed of each photo beside its map.

    Attributes
    ----------
    crops
        10 adds the mean vector over ten crops, as in the papers; 0 adds nothing.
    proposer, top
        Who proposes boxes, whose vectors are kept too, and at most how many for a photo.
    """

    crops: int = 0
    proposer: Proposer | None = None
    top: int = 0

    @property
    def need_pixels(self) -> bool:
        """Whether the photo itself is looked at, and not its map alone."""
        return bool(self.crops or self.proposer)


@dataclass
class FillReport:
    """What a run did: photos stored now in all, those new in this run, changed ones done anew, and those left out.

    Attributes
    ----------
    photos
        All that the store holds.
    new, redone, kept
        Of the photos asked for: computed for the first time, computed again because the file had changed, left as they
        were.
    dropped
        Photos that were in the store and no longer count.
    damaged
        Files of the store that were damaged; their photos were computed again.
    skipped
        Photos that have no features, with the reason.
    unknown
        Names in a file of imported features that no photo has.
    """

    photos: int = 0
    new: int = 0
    redone: int = 0
    kept: int = 0
    dropped: int = 0
    damaged: list[str] = field(default_factory=list)
    skipped: list[PhotoError] = field(default_factory=list)
    unknown: int = 0


@dataclass(frozen=True)
class _Wanted:
    id: str
    path: Path


def fill_store(
    path: Path,
    dataset: Dataset,
    encoder: ImageEncoder,
    *,
    photos: Photos | None = None,
    extras: Extras | None = None,
    limits: ShardLimits | None = None,
    on_progress: OnProgress = silent,
) -> FillReport:
    """Compute the features that a store lacks.

    Parameters
    ----------
    path
        The store's directory; begun if it is not there. A store of another encoder is refused.
    dataset
        Whose photos are to have features. Photos that it no longer has stop counting.
    photos
        Compute these only; all, by default.
    extras
        What to compute beside maps.
    limits
        How much is computed before it is written.
    on_progress
        Called as the work goes on.
    """
    extras = extras or Extras()
    contents = _contents(encoder, extras)
    wanted = _wanted(dataset, dataset.photos if photos is None else photos)
    report = FillReport()
    with open_for_writing(path, contents, limits=limits, on_progress=on_progress) as writer:
        report.damaged = writer.damaged
        report.dropped = drop_gone(writer, dataset)
        todo = [
            photo
            for photo in told(wanted, "looking for changes", len(wanted), on_progress)
            if _has_changed(photo, writer.stamp(photo.id))
        ]
        report.kept = len(wanted) - len(todo)
        for found in told(_computed(todo, encoder, extras), "encoding", len(todo), on_progress):
            _take(found, writer, report)
        writer.flush()
        report.photos = len(writer.ids)
    return report


def is_filled(
    path: Path,
    dataset: Dataset,
    encoder: ImageEncoder,
    *,
    photos: Photos | None = None,
    extras: Extras | None = None,
    on_progress: OnProgress = silent,
) -> bool:
    """Whether `fill_store`, asked the same, would find nothing to do but tidy up.

    Any number of processes may ask at once and go on to read, where only one may fill.
    """
    try:
        store = FeatureStore(path)
    except DeixisError:  # none yet, or damaged: whoever fills it knows what to do, or says what is wrong
        return False
    if store.contents != _contents(encoder, extras or Extras()):
        return False
    stamps = store.stamps()
    wanted = _wanted(dataset, dataset.photos if photos is None else photos)
    changed = any(_has_changed(photo, stamps.get(photo.id)) for photo in wanted)
    return not changed and not store.damaged(on_progress)


def _contents(encoder: ImageEncoder, extras: Extras) -> Contents:
    return Contents(
        encoder=encoder.name,
        fingerprint=encoder.fingerprint,
        dimension=encoder.dimension,
        channels=encoder.channels,
        crops=extras.crops,
        proposer=extras.proposer.name if extras.proposer else None,
        top=extras.top,
        proposer_fingerprint=extras.proposer.fingerprint if extras.proposer else "",
    )


def _wanted(dataset: Dataset, photos: Photos) -> list[_Wanted]:
    if dataset.images is None:
        raise DatasetError(f"{dataset.path}: it was imported without --images, so there are no photos to encode")
    if not dataset.images.is_dir():
        raise DatasetError(f"{dataset.images}: no such folder; say where the photos are now with --images DIR")
    table = dataset.tables["photos"].select(["id", "file"]).take(photos.rows).to_pydict()
    pairs = zip(table["id"], table["file"], strict=True)
    return [_Wanted(photo_id, dataset.images / file) for photo_id, file in pairs if file is not None]


def drop_gone(writer: StoreWriter, dataset: Dataset) -> int:
    """Let photos no longer count that a data set no longer has; their number."""
    gone = set(writer.ids) - set(dataset.tables["photos"]["id"].to_pylist())
    writer.drop(gone)
    return len(gone)


def _has_changed(photo: _Wanted, there: Stamp | None) -> bool:
    """Whether a photo must be computed: it never was, or its bytes are others. An untouched file is not read."""
    if there is None:
        return True
    try:
        status = photo.path.stat()
        if (status.st_size, status.st_mtime_ns) == (there.bytes, there.modified_ns):
            return False
        return status.st_size != there.bytes or stamp_of(photo.path).sha256 != there.sha256
    except OSError:
        return True


def stamp_of(path: Path) -> Stamp:
    """What tells a file from others, and whether it has been touched."""
    # The time first: if the file changes while we read, the next run sees another time and reads again.
    status = path.stat()
    with path.open("rb") as file:
        return Stamp(hashlib.file_digest(file, "sha256").digest(), status.st_size, status.st_mtime_ns)


_Found = tuple[_Wanted, PhotoFeatures | PhotoError]
_Work = tuple[_Wanted, Stamp | None, SeenPhoto | FeatureMap | PhotoError]


def _computed(todo: Sequence[_Wanted], encoder: ImageEncoder, extras: Extras) -> Iterator[_Found]:
    """The features of each photo, or why there are none, in order."""
    stamps: deque[Stamp | None] = deque()

    def stamped_paths() -> Iterator[Path]:
        for photo in todo:
            try:
                stamps.append(stamp_of(photo.path))
            except OSError:
                stamps.append(None)
            yield photo.path

    encode = encode_whole_photos if extras.need_pixels else encode_photos
    every = zip(todo, encode(encoder, stamped_paths(), readers=_WORKERS), strict=True)
    work = ((photo, stamps.popleft(), seen) for photo, (_, seen) in every)
    yield from _in_order(lambda each: _finished(*each, encoder, extras), work)


def _finished(
    photo: _Wanted,
    stamp: Stamp | None,
    seen: SeenPhoto | FeatureMap | PhotoError,
    encoder: ImageEncoder,
    extras: Extras,
) -> _Found:
    """What the store keeps of a photo that was encoded, or why it keeps nothing."""
    try:
        if isinstance(seen, PhotoError):
            raise seen
        if stamp is None:
            raise PhotoError(photo.path, "cannot be read")
        if isinstance(seen, SeenPhoto):
            return photo, _with_extras(photo, _kept_of(photo, stamp, seen.features), seen, encoder, extras)
        return photo, _kept_of(photo, stamp, seen)
    except PhotoError as error:
        return photo, error


def _in_order(work: Callable[[_Work], _Found], items: Iterator[_Work]) -> Iterator[_Found]:
    """What threads make of items, a few ahead: while a GPU encodes, proposals of the photos before are looked for."""
    ahead: deque[Future[_Found]] = deque()
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="extras") as pool:
        for item in items:
            ahead.append(pool.submit(work, item))
            if len(ahead) > _WORKERS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _kept_of(photo: _Wanted, stamp: Stamp, features: FeatureMap) -> PhotoFeatures:
    """What every store keeps of a photo."""
    with np.errstate(over="ignore"):
        cells = features.cells.astype(np.float16)
    _refuse_not_finite(photo, cells, features.whole)
    return PhotoFeatures(photo.id, stamp, features.size, features.whole, cells)


def _refuse_not_finite(photo: _Wanted, *arrays: NDArray[np.floating]) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise PhotoError(photo.path, "the encoder gives numbers that are not finite, or beyond float16")


def _with_extras(
    photo: _Wanted, kept: PhotoFeatures, seen: SeenPhoto, encoder: ImageEncoder, extras: Extras
) -> PhotoFeatures:
    if extras.crops:
        crops = encoder.encode_crops([seen.photo])[0]
        _refuse_not_finite(photo, crops)
        kept = replace(kept, crops=crops)
    if extras.proposer:
        proposals = extras.proposer.propose(seen.photo, seen.features, extras.top)
        kept = replace(kept, proposals=proposals, vectors=seen.features.regions(proposals.boxes).astype(np.float16))
    return kept


def _take(found: _Found, writer: StoreWriter, report: FillReport) -> None:
    photo, features = found
    there = writer.stamp(photo.id)
    was_there = there is not None
    if isinstance(features, PhotoFeatures):
        writer.add(features)
        report.redone += was_there
        report.new += not was_there
        return
    report.skipped.append(features)
    if there is not None and _has_become_another(photo.path, there):
        writer.drop([photo.id])
        report.dropped += 1


def _has_become_another(path: Path, stored: Stamp) -> bool:
    """Whether a file is known to hold other bytes. One that cannot be read today, or is away, must cost nothing."""
    try:
        return stamp_of(path).sha256 != stored.sha256
    except OSError:
        return False
