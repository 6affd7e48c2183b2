"""Encode photo files. Threads decode ahead while the network runs; order is kept and memory is bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TypeVar

from PIL import Image

from deixis.data.images import opened_photo, photo_size
from deixis.errors import PhotoError
from deixis.runtime.devices import cpu_threads
from deixis.vision.encoder import ImageEncoder, PreparedPhoto
from deixis.vision.feature_map import FeatureMap

# More photos per thread take more memory and no less time (docs/experiments/speed.md).
BATCH = max(4, 2 * cpu_threads())
READERS = 2
# Photos at full size need much memory: 36 MB each from a telephone.
FULL_SIZE_BATCH = 4
# JPEGs are decoded at no less than this multiple of the input size, so that the final resize is antialiased.
_MIN_OVERSAMPLING = 2

Kept = TypeVar("Kept")
Item = TypeVar("Item")
Done = TypeVar("Done")


def encode_photos(
    encoder: ImageEncoder, paths: Iterable[Path], batch: int = BATCH, readers: int = READERS
) -> Iterator[tuple[Path, FeatureMap | PhotoError]]:
    """Yield each path with its features, or with the error of a photo that cannot be read, in order.

    The paths may be infinite: only as many are read as photos are decoded ahead. `readers` is the number of decoding
    threads; Pillow and torch release the interpreter lock.
    """
    encoded = encode_stream(encoder, paths, lambda path: (read_reduced(encoder, path), None), batch, readers)
    with closing(encoded):
        for path, found in encoded:
            yield path, found if isinstance(found, PhotoError) else found[1]


def encode_full_size(
    encoder: ImageEncoder, paths: Iterable[Path], batch: int = FULL_SIZE_BATCH, readers: int = READERS
) -> Iterator[tuple[Path, tuple[Image.Image, FeatureMap] | PhotoError]]:
    """Encode photo files and also yield the photos, decoded once at full size, so that maps may differ slightly."""
    yield from encode_stream(encoder, paths, lambda path: read_full_size(encoder, path), batch, readers)


def encode_and_keep(
    encoder: ImageEncoder,
    paths: Iterable[Path],
    keep: Callable[[Image.Image], Kept],
    batch: int = BATCH,
    readers: int = READERS,
) -> Iterator[tuple[Path, tuple[Kept, FeatureMap] | PhotoError]]:
    """Encode photo files and also yield the result of `keep`, which decoding threads call with the reduced photo."""

    def read(path: Path) -> tuple[PreparedPhoto, Kept]:
        with _opened_reduced(encoder, path) as (photo, size):
            return encoder.prepare(photo, size), keep(photo)

    yield from encode_stream(encoder, paths, read, batch, readers)


def read_reduced(encoder: ImageEncoder, path: Path) -> PreparedPhoto:
    with _opened_reduced(encoder, path) as (photo, size):
        return encoder.prepare(photo, size)


@contextmanager
def _opened_reduced(encoder: ImageEncoder, path: Path) -> Iterator[tuple[Image.Image, tuple[int, int]]]:
    size = photo_size(path)
    with opened_photo(path, min_side=_MIN_OVERSAMPLING * max(encoder.input_size.target_size(*size))) as photo:
        yield photo, size


def read_full_size(encoder: ImageEncoder, path: Path) -> tuple[PreparedPhoto, Image.Image]:
    with opened_photo(path) as photo:
        return encoder.prepare(photo), photo


def encode_stream(
    encoder: ImageEncoder,
    paths: Iterable[Path],
    read: Callable[[Path], tuple[PreparedPhoto, Kept]],
    batch: int,
    readers: int,
) -> Generator[tuple[Path, tuple[Kept, FeatureMap] | PhotoError]]:
    """Yield the kept value and the features of each photo. Decoding threads call `read`."""

    def read_or_error(path: Path) -> tuple[Path, tuple[PreparedPhoto, Kept] | PhotoError]:
        try:
            return path, read(path)
        except PhotoError as error:
            return path, error

    with closing(map_ahead(read_or_error, paths, readers, 2 * batch, "photos")) as ahead:
        while group := list(islice(ahead, batch)):
            maps = iter(encoder.encode_prepared([each[0] for _, each in group if not isinstance(each, PhotoError)]))
            for path, each in group:
                yield path, each if isinstance(each, PhotoError) else (each[1], next(maps))


def map_ahead(
    work: Callable[[Item], Done], items: Iterable[Item], threads: int, ahead: int, name: str
) -> Generator[Done]:
    """Apply `work` in threads; yield results in order, with at most `ahead` of them computed or waiting."""
    waiting: deque[Future[Done]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) == ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
