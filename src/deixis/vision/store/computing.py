"""The features of photos, computed as a store keeps them: in this process, or in many that are each handed a part."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from deixis.errors import PhotoError
from deixis.vision.encoder import ImageEncoder, Prepared
from deixis.vision.features import FeatureMap
from deixis.vision.proposals.proposer import Proposer
from deixis.vision.reading import BATCH, BATCH_OF_WHOLE_PHOTOS, encode_as_read, read_reduced, read_whole
from deixis.vision.store.shards import PhotoFeatures, Stamp

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

    @property
    def batch(self) -> int:
        """Photos that go through the network together; parts of so many, or a multiple, are encoded alike by all."""
        return BATCH_OF_WHOLE_PHOTOS if self.need_pixels else BATCH


@dataclass(frozen=True)
class WantedPhoto:
    """A photo that is to have features."""

    id: str
    path: Path


Found = tuple[WantedPhoto, PhotoFeatures | PhotoError]
"""What a store keeps of a photo, or why it keeps nothing."""

Compute = Callable[[Sequence[WantedPhoto]], Iterator[Found]]
"""One answer for each photo, in their order."""

_Pixels = tuple[Stamp | None, Image.Image | None]
_Work = tuple[WantedPhoto, tuple[_Pixels, FeatureMap] | PhotoError]


def stamp_of(path: Path) -> Stamp:
    """What tells a file from others, and whether it has been touched."""
    # The time first: if the file changes while we read, the next run sees another time and reads again.
    status = path.stat()
    with path.open("rb") as file:
        return Stamp(hashlib.file_digest(file, "sha256").digest(), status.st_size, status.st_mtime_ns)


def compute_features(todo: Sequence[WantedPhoto], encoder: ImageEncoder, extras: Extras) -> Iterator[Found]:
    """The features of each photo, or why there are none, in order."""

    def read(path: Path) -> tuple[Prepared, _Pixels]:
        try:
            stamp = stamp_of(path)
        except OSError:
            stamp = None
        if extras.need_pixels:
            prepared, photo = read_whole(encoder, path)
            return prepared, (stamp, photo)
        return read_reduced(encoder, path), (stamp, None)

    paths = (photo.path for photo in todo)
    encoded = encode_as_read(encoder, paths, read, extras.batch, readers=_WORKERS)
    work = ((photo, seen) for photo, (_, seen) in zip(todo, encoded, strict=True))
    yield from _in_order(lambda each: _finished(*each, encoder, extras), work)


def _finished(
    photo: WantedPhoto, seen: tuple[_Pixels, FeatureMap] | PhotoError, encoder: ImageEncoder, extras: Extras
) -> Found:
    """What the store keeps of a photo that was encoded, or why it keeps nothing."""
    try:
        if isinstance(seen, PhotoError):
            raise seen
        (stamp, pixels), features = seen
        if stamp is None:
            raise PhotoError(photo.path, "cannot be read")
        kept = _kept_of(photo, stamp, features)
        return photo, kept if pixels is None else _with_extras(photo, kept, pixels, features, encoder, extras)
    except PhotoError as error:
        return photo, error


def _in_order(work: Callable[[_Work], Found], items: Iterator[_Work]) -> Iterator[Found]:
    """What threads make of items, a few ahead: while a GPU encodes, proposals of the photos before are looked for."""
    ahead: deque[Future[Found]] = deque()
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="extras") as pool:
        for item in items:
            ahead.append(pool.submit(work, item))
            if len(ahead) > _WORKERS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _kept_of(photo: WantedPhoto, stamp: Stamp, features: FeatureMap) -> PhotoFeatures:
    """What every store keeps of a photo."""
    with np.errstate(over="ignore"):
        cells = features.cells.astype(np.float16)
    _refuse_not_finite(photo, cells, features.whole)
    return PhotoFeatures(photo.id, stamp, features.size, features.whole, cells)


def _refuse_not_finite(photo: WantedPhoto, *arrays: NDArray[np.floating]) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise PhotoError(photo.path, "the encoder gives numbers that are not finite, or beyond float16")


def _with_extras(
    photo: WantedPhoto,
    kept: PhotoFeatures,
    pixels: Image.Image,
    features: FeatureMap,
    encoder: ImageEncoder,
    extras: Extras,
) -> PhotoFeatures:
    if extras.crops:
        crops = encoder.encode_crops([pixels])[0]
        _refuse_not_finite(photo, crops)
        kept = replace(kept, crops=crops)
    if extras.proposer:
        proposals = extras.proposer.propose(pixels, features, extras.top)
        kept = replace(kept, proposals=proposals, vectors=features.regions(proposals.boxes).astype(np.float16))
    return kept
