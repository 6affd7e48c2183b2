"""Update a feature store: compute the features of new and changed photos of a data set."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from deixis.errors import DatasetError, DeixisError, PhotoError
from deixis.storage.files import hash_file, size_and_time
from deixis.storage.progress import OnProgress, no_progress, track
from deixis.storage.remote import is_remote
from deixis.vision.encoder import (
    BATCH,
    FULL_SIZE_BATCH,
    FeatureMap,
    ImageEncoder,
    PreparedPhoto,
    encode_stream,
    map_ahead,
    read_full_size,
    read_reduced,
)
from deixis.vision.feature_store.files import Contents, FeatureRecord, FileStamp
from deixis.vision.feature_store.store import SHARD_PHOTOS, FeatureStore, StoreWriter, open_writer
from deixis.vision.proposals import Proposer

if TYPE_CHECKING:
    from deixis.data.dataset import Dataset, Photos

_WORKERS = min(8, os.cpu_count() or 1)


@dataclass(frozen=True)
class FeatureOptions:
    """Features to compute of each photo in addition to its feature map."""

    crops: int = 0  # 10 for the mean vector over ten crops, as in the papers
    proposer: Proposer | None = None
    top: int = 0  # maximum number of regions per photo, which are stored with their vectors

    @property
    def needs_pixels(self) -> bool:
        return bool(self.crops or self.proposer)

    @property
    def batch(self) -> int:
        """Batch size. Workers that split the photos at multiples of it compute the same batches."""
        return FULL_SIZE_BATCH if self.needs_pixels else BATCH


@dataclass(frozen=True)
class PhotoSource:
    id: str
    path: Path


PhotoResult = tuple[PhotoSource, FeatureRecord | PhotoError]
"""The features of a photo, or why there are none."""

ComputeFeatures = Callable[[Sequence[PhotoSource]], Iterator[PhotoResult]]
"""Computes one result per photo, in order."""

_Kept = tuple[FileStamp, Image.Image | None]
"""Result of a decoding thread for a photo; with its pixels only if `FeatureOptions.needs_pixels`."""


def read_stamp(path: Path) -> FileStamp:
    # The time first: if the file changes meanwhile, the next run sees another time.
    status = path.stat()
    return FileStamp(bytes.fromhex(hash_file(path)), *size_and_time(status))


def compute_features(
    todo: Sequence[PhotoSource], encoder: ImageEncoder, options: FeatureOptions
) -> Iterator[PhotoResult]:
    def read(path: Path) -> tuple[PreparedPhoto, _Kept]:
        try:
            stamp = read_stamp(path)
        except OSError:
            stamp = None  # decoding gives the reason
        prepared, photo = read_full_size(encoder, path) if options.needs_pixels else (read_reduced(encoder, path), None)
        if stamp is None:
            raise PhotoError(path, "cannot be read")
        return prepared, (stamp, photo)

    paths = (photo.path for photo in todo)
    encoded = encode_stream(encoder, paths, read, options.batch, readers=_WORKERS)
    work = ((photo, result) for photo, (_, result) in zip(todo, encoded, strict=True))
    # In threads, so that proposals are computed while the GPU encodes.
    yield from map_ahead(lambda each: _finish(*each, encoder, options), work, _WORKERS, _WORKERS + 1, "features")


def _finish(
    photo: PhotoSource, encoded: tuple[_Kept, FeatureMap] | PhotoError, encoder: ImageEncoder, options: FeatureOptions
) -> PhotoResult:
    if isinstance(encoded, PhotoError):
        return photo, encoded
    (stamp, pixels), features = encoded
    with np.errstate(over="ignore"):
        cells = features.cells.astype(np.float16)
    crops = encoder.encode_crops([pixels])[0] if pixels is not None and options.crops else None
    if not all(np.isfinite(array).all() for array in (cells, features.whole, crops) if array is not None):
        return photo, PhotoError(photo.path, "the encoder gives numbers that are not finite or too large for float16")
    record = FeatureRecord(photo.id, stamp, features.size, features.whole, cells, crops)
    if pixels is not None and options.proposer:
        proposals = options.proposer.propose(pixels, features, options.top)
        vectors = features.regions(proposals.boxes).astype(np.float16)
        record = replace(record, proposals=proposals, vectors=vectors)
    return photo, record


@dataclass
class UpdateReport:
    """Result of an update or import."""

    photos: int = 0  # in the store afterwards
    new: int = 0  # computed for the first time
    redone: int = 0  # computed because the file had changed
    kept: int = 0  # unchanged
    dropped: int = 0  # removed from the store
    damaged: list[str] = field(default_factory=list)  # files whose photos were computed again
    skipped: list[PhotoError] = field(default_factory=list)  # without features
    unknown: int = 0  # names in an imported file that match no photo


def update_store(
    path: Path,
    dataset: Dataset,
    encoder: ImageEncoder,
    *,
    photos: Photos | None = None,
    options: FeatureOptions | None = None,
    shard_photos: int = SHARD_PHOTOS,
    compute: ComputeFeatures | None = None,
    on_progress: OnProgress = no_progress,
) -> UpdateReport:
    """Compute the features of new and changed photos, by default of all, and remove those that the data set lost.

    A missing store is created and one of another encoder refused. `compute` may be that of a cluster.
    """
    options = options or FeatureOptions()
    contents = _contents(encoder, options)
    sources = _photo_sources(dataset, dataset.photos if photos is None else photos)
    report = UpdateReport()
    with open_writer(path, contents, shard_photos=shard_photos, on_progress=on_progress) as writer:
        report.damaged = writer.damaged
        report.dropped = drop_missing(writer, dataset)
        todo = [
            photo
            for photo in track(sources, "checking photos for changes", len(sources), on_progress)
            if _has_changed(photo, writer.stamp(photo.id))
        ]
        report.kept = len(sources) - len(todo)
        computed = compute(todo) if compute else compute_features(todo, encoder, options)
        for result in track(computed, "encoding", len(todo), on_progress):
            _store(result, writer, report)
        writer.flush()
        report.photos = len(writer.ids)
    return report


def is_up_to_date(
    path: Path,
    dataset: Dataset,
    encoder: ImageEncoder,
    *,
    photos: Photos | None = None,
    options: FeatureOptions | None = None,
    on_progress: OnProgress = no_progress,
) -> bool:
    """Return whether `update_store` would compute nothing. Needs no lock."""
    try:
        store = FeatureStore(path)
    except DeixisError:  # missing or damaged: `update_store` handles it
        return False
    if store.contents != _contents(encoder, options or FeatureOptions()):
        return False
    stamps = store.stamps()
    sources = _photo_sources(dataset, dataset.photos if photos is None else photos)
    changed = any(_has_changed(photo, stamps.get(photo.id)) for photo in sources)
    return not changed and not store.damaged(on_progress)


def _contents(encoder: ImageEncoder, options: FeatureOptions) -> Contents:
    own = Contents(encoder.name, encoder.fingerprint, encoder.dimension, encoder.channels, options.crops)
    if options.proposer is None:
        return replace(own, top=options.top)
    proposer = options.proposer
    return replace(own, proposer=proposer.name, top=options.top, proposer_fingerprint=proposer.fingerprint)


def _photo_sources(dataset: Dataset, photos: Photos) -> list[PhotoSource]:
    if dataset.images is None:
        raise DatasetError(f"{dataset.path}: no photos to encode; the data was imported without --images")
    # Some remote folders cannot be listed, so their photos are checked one by one.
    if not is_remote(dataset.images) and not dataset.images.is_dir():
        raise DatasetError(f"{dataset.images}: no such folder; use --images DIR if the photos have moved")
    table = dataset.tables["photos"].select(["id", "file"]).take(photos.rows).to_pydict()
    pairs = zip(table["id"], table["file"], strict=True)
    return [PhotoSource(photo_id, dataset.images / file) for photo_id, file in pairs if file is not None]


def drop_missing(writer: StoreWriter, dataset: Dataset) -> int:
    """Remove photos that are no longer in the data set and return their number."""
    missing = set(writer.ids) - set(dataset.tables["photos"]["id"].to_pylist())
    writer.drop(missing)
    return len(missing)


def _has_changed(photo: PhotoSource, stored: FileStamp | None) -> bool:
    """Return whether a photo is new or its content has changed. A file with the same size and time is not read."""
    if stored is None:
        return True
    try:
        status = photo.path.stat()
        if size_and_time(status) == (stored.bytes, stored.modified_ns):
            return False
        return status.st_size != stored.bytes or read_stamp(photo.path).sha256 != stored.sha256
    except OSError:
        return True


def _store(result: PhotoResult, writer: StoreWriter, report: UpdateReport) -> None:
    photo, features = result
    stored = writer.stamp(photo.id)
    if isinstance(features, FeatureRecord):
        writer.add(features)
        report.redone += stored is not None
        report.new += stored is None
        return
    report.skipped.append(features)
    content = None
    with suppress(OSError):  # features of a file that cannot be read now are kept
        content = read_stamp(photo.path).sha256
    if stored is not None and content not in (None, stored.sha256):
        writer.drop([photo.id])
        report.dropped += 1
