"""The photos of a data set become a feature store: what is missing or has changed is computed, the rest is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from deixis.data.dataset import Dataset, Photos
from deixis.errors import DatasetError, DeixisError, PhotoError
from deixis.files.progress import OnProgress, silent, told
from deixis.files.remote import is_remote
from deixis.vision.encoder import ImageEncoder
from deixis.vision.store.computing import Compute, Extras, Found, WantedPhoto, compute_features, stamp_of
from deixis.vision.store.feature_store import FeatureStore
from deixis.vision.store.manifest import Contents
from deixis.vision.store.shards import PhotoFeatures, Stamp
from deixis.vision.store.writing import ShardLimits, StoreWriter, open_for_writing


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


def fill_store(
    path: Path,
    dataset: Dataset,
    encoder: ImageEncoder,
    *,
    photos: Photos | None = None,
    extras: Extras | None = None,
    limits: ShardLimits | None = None,
    compute: Compute | None = None,
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
    compute
        Who computes: this process, unless told otherwise. What is written is the same.
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
        computed = compute(todo) if compute else compute_features(todo, encoder, extras)
        for found in told(computed, "encoding", len(todo), on_progress):
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


def _wanted(dataset: Dataset, photos: Photos) -> list[WantedPhoto]:
    if dataset.images is None:
        raise DatasetError(f"{dataset.path}: it was imported without --images, so there are no photos to encode")
    # An address need not be one that can be listed; the photos will say whether they are there.
    if not is_remote(dataset.images) and not dataset.images.is_dir():
        raise DatasetError(f"{dataset.images}: no such folder; say where the photos are now with --images DIR")
    table = dataset.tables["photos"].select(["id", "file"]).take(photos.rows).to_pydict()
    pairs = zip(table["id"], table["file"], strict=True)
    return [WantedPhoto(photo_id, dataset.images / file) for photo_id, file in pairs if file is not None]


def drop_gone(writer: StoreWriter, dataset: Dataset) -> int:
    """Let photos no longer count that a data set no longer has; their number."""
    gone = set(writer.ids) - set(dataset.tables["photos"]["id"].to_pylist())
    writer.drop(gone)
    return len(gone)


def _has_changed(photo: WantedPhoto, there: Stamp | None) -> bool:
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


def _take(found: Found, writer: StoreWriter, report: FillReport) -> None:
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
