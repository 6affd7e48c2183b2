"""Photo files to feature maps: decoded ahead by a few threads while the network runs, in order, in flat memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from PIL import Image

from deixis.data.images import open_photo, size_of
from deixis.errors import PhotoError
from deixis.files.progress import OnProgress, silent, told
from deixis.vision.encoder import ImageEncoder, Prepared
from deixis.vision.features import FeatureMap

BATCH = 16
READERS = 2
# Whole photos that wait for others take their room: 36 MB each from a telephone.
BATCH_OF_WHOLE_PHOTOS = 4
# A JPEG is decoded no smaller than this many times what the network reads, so that the last step stays a good one.
_SPARE = 2

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class SeenPhoto:
    """A photo, decoded whole, and what an encoder made of it."""

    photo: Image.Image
    features: FeatureMap


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
        Told of each photo.

    Yields
    ------
    path, features or error
        In the order of the paths.
    """
    with closing(
        encode_as_read(encoder, paths, lambda path: (read_reduced(encoder, path), None), batch, readers)
    ) as encoded:
        total = len(paths) if isinstance(paths, (list, tuple)) else None
        for path, found in told(encoded, "encoding photos", total, on_progress):
            yield path, found if isinstance(found, PhotoError) else found[1]


def encode_whole_photos(
    encoder: ImageEncoder, paths: Iterable[Path], batch: int = BATCH_OF_WHOLE_PHOTOS, readers: int = READERS
) -> Iterator[tuple[Path, SeenPhoto | PhotoError]]:
    """The same for those who look at the pixels too: each photo is decoded once, whole, and handed out with its map.

    `encode_photos` decodes a large JPEG smaller, so its maps may differ slightly from these.
    """
    with closing(encode_as_read(encoder, paths, lambda path: read_whole(encoder, path), batch, readers)) as encoded:
        for path, found in encoded:
            yield path, found if isinstance(found, PhotoError) else SeenPhoto(*found)


def encode_keeping(
    encoder: ImageEncoder,
    paths: Iterable[Path],
    keep: Callable[[Image.Image], Kept],
    batch: int = BATCH,
    readers: int = READERS,
) -> Iterator[tuple[Path, tuple[Kept, FeatureMap] | PhotoError]]:
    """The same as `encode_photos`, for those who want something small of the pixels too, a thumbnail say.

    `keep` is called by the threads that decode, with the photo as large as the encoder needs it, or larger.
    """

    def read(path: Path) -> tuple[Prepared, Kept]:
        photo, size = _opened_reduced(encoder, path)
        return encoder.prepare(photo, size), keep(photo)

    yield from encode_as_read(encoder, paths, read, batch, readers)


def read_reduced(encoder: ImageEncoder, path: Path) -> Prepared:
    """A photo decoded no larger than an encoder needs it."""
    return encoder.prepare(*_opened_reduced(encoder, path))


def _opened_reduced(encoder: ImageEncoder, path: Path) -> tuple[Image.Image, tuple[int, int]]:
    size = size_of(path)
    return open_photo(path, at_least=_SPARE * max(encoder.reading_size(size))), size


def read_whole(encoder: ImageEncoder, path: Path) -> tuple[Prepared, Image.Image]:
    """A photo decoded in full, and the same as the encoder reads it."""
    photo = open_photo(path)
    return encoder.prepare(photo), photo


def encode_as_read(
    encoder: ImageEncoder,
    paths: Iterable[Path],
    read: Callable[[Path], tuple[Prepared, Kept]],
    batch: int,
    readers: int,
) -> Generator[tuple[Path, tuple[Kept, FeatureMap] | PhotoError]]:
    """What is kept of each photo, and its features; `read` is called by the threads that decode."""
    with closing(_read_ahead(paths, read, readers, 2 * batch)) as ahead:
        while group := list(islice(ahead, batch)):
            maps = iter(encoder.encode_prepared([each[0] for _, each in group if not isinstance(each, PhotoError)]))
            for path, each in group:
                yield path, each if isinstance(each, PhotoError) else (each[1], next(maps))


def _read_ahead(
    paths: Iterable[Path], read: Callable[[Path], Kept], readers: int, ahead: int
) -> Generator[tuple[Path, Kept | PhotoError]]:
    """Photos in order; never more than `ahead` of them are decoded or waiting."""

    def read_or_not(path: Path) -> Kept | PhotoError:
        try:
            return read(path)
        except PhotoError as error:
            return error

    waiting: deque[tuple[Path, Future[Kept | PhotoError]]] = deque()
    pool = ThreadPoolExecutor(readers, thread_name_prefix="photos")
    try:
        for path in paths:
            waiting.append((path, pool.submit(read_or_not, path)))
            if len(waiting) == ahead:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
    finally:
        pool.shutdown(cancel_futures=True)
