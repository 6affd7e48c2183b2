"""Photo files to feature maps: decoded ahead by a few threads while the network runs, in order, in flat memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from PIL import Image, ImageOps

from deixis.data.images import MAX_BYTES, MAX_PIXELS, open_photo
from deixis.errors import PhotoError
from deixis.files.progress import OnProgress, silent
from deixis.vision.encoder import ImageEncoder, Prepared
from deixis.vision.features import FeatureMap

BATCH = 16
READERS = 2
# A JPEG is decoded no smaller than this many times what the network reads, so that the last step stays a good one.
_SPARE = 2
_EXIF_ORIENTATION = 0x0112
_SIDEWAYS = (5, 6, 7, 8)


def encode_photos(
    encoder: ImageEncoder,
    paths: Iterable[Path],
    batch: int = BATCH,
    readers: int = READERS,
    on_progress: OnProgress = silent,
) -> Iterator[tuple[Path, FeatureMap | PhotoError]]:
    """Encode photo files; one that cannot be read gives its error in place of its features, and the rest goes on.

    Parameters
    ----------
    encoder
        From `open_encoder`.
    paths
        May be endless: it is read only as far as photos are decoded ahead.
    batch
        Photos that go through the network together.
    readers
        Threads that decode. Pillow and torch both leave the interpreter to others while they compute.
    on_progress
        Told after each batch.

    Yields
    ------
    path, features or error
        In the order of the paths.
    """
    ahead = _prepared_ahead(encoder, paths, readers, 2 * batch)
    total = len(paths) if isinstance(paths, (list, tuple)) else None
    done = 0
    while group := list(islice(ahead, batch)):
        maps = iter(encoder.encode_prepared([photo for _, photo in group if isinstance(photo, Prepared)]))
        done += len(group)
        on_progress("encoding photos", done, total)
        for path, photo in group:
            yield path, photo if isinstance(photo, PhotoError) else next(maps)


def _prepared_ahead(
    encoder: ImageEncoder, paths: Iterable[Path], readers: int, ahead: int
) -> Iterator[tuple[Path, Prepared | PhotoError]]:
    """Photos in order; never more than `ahead` of them are decoded or waiting."""
    waiting: deque[tuple[Path, Future[Prepared | PhotoError]]] = deque()
    pool = ThreadPoolExecutor(readers, thread_name_prefix="photos")
    try:
        for path in paths:
            waiting.append((path, pool.submit(_prepared, encoder, path)))
            if len(waiting) == ahead:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _prepared(encoder: ImageEncoder, path: Path) -> Prepared | PhotoError:
    try:
        photo, size = read_for(encoder, path)
        return encoder.prepare(photo, size)
    except PhotoError as error:
        return error


def read_for(encoder: ImageEncoder, path: Path) -> tuple[Image.Image, tuple[int, int]]:
    """A photo decoded as large as an encoder needs it, and its full size; both after EXIF rotation.

    A JPEG can be decoded to a half, a quarter or an eighth at a fraction of the cost.
    """
    reduced = _reduced_jpeg(encoder, path)
    if reduced is not None:
        return reduced
    photo = open_photo(path)
    return photo, photo.size


def _reduced_jpeg(encoder: ImageEncoder, path: Path) -> tuple[Image.Image, tuple[int, int]] | None:
    """None for all but large colour JPEGs. Whatever is wrong with a file, `open_photo` says it in its own words."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        with Image.open(path, formats=("JPEG",)) as image:
            full = image.size
            if full[0] * full[1] > MAX_PIXELS or image.mode != "RGB":
                return None
            # Rotation swaps the sides, so the larger one is wanted both ways.
            wanted = _SPARE * max(encoder.reading_size(full) + encoder.reading_size(full[::-1]))
            image.draft("RGB", (wanted, wanted))
            if image.size == full:
                return None
            sideways = image.getexif().get(_EXIF_ORIENTATION) in _SIDEWAYS
            return ImageOps.exif_transpose(image), full[::-1] if sideways else full
    except Exception:  # a stranger's file may break Pillow in many ways
        return None
