"""Image encoders: photos to feature maps, from which region vectors are pooled.

Every encoder is a network behind `ImageEncoder`. Threads decode photo files ahead while it runs; order is kept and
memory is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from PIL import Image

from deixis.data.images import opened_photo, photo_size
from deixis.errors import PhotoError
from deixis.runtime.devices import cpu_threads, return_freed_memory

Pixels = NDArray[np.uint8]
"""A batch of photos of one size: (photos, height, width, 3)."""

# The ten crops of the papers: corners and centre of a square, each also mirrored, 224 of 256 pixels wide.
CROP_SHARE = 224 / 256
_CROP_POSITIONS = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.5, 0.5))

# Sampling points along each side of a box; our encoder was trained with 8. With 64, the vectors of gold boxes on a map
# of 18 × 18 cells differed by 1.6 % on average.
POINTS = 8
OFFSETS = tuple((point + 0.5) / POINTS for point in range(POINTS))

PhotoVector = Literal["photo", "region", "both"]
"""The vector of a photo: the global one, that of a region as large as the photo, or the first and then the second.

A model that compares photos with what it learned of regions takes the second, if the two have different sizes.
"""

# More photos per thread take more memory and no less time (docs/experiments/speed.md).
BATCH = max(4, 2 * cpu_threads())
READERS = 2
# Photos at full size need much memory: 36 MB each from a telephone.
FULL_SIZE_BATCH = 4
# JPEGs are decoded at no less than this multiple of the input size, so that the final resize is antialiased.
_MIN_OVERSAMPLING = 2

_LARGE_PIXELS = 30_000_000

Kept = TypeVar("Kept")
Item = TypeVar("Item")
Done = TypeVar("Done")


def pool_regions(cells: NDArray[np.float32], boxes: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.float32]:
    """Return the mean of bilinear samples of the map (channels, rows, columns) inside each box: (n, channels).

    Boxes are in pixels of the photo; `size` is its width and height.
    """
    channels, rows, columns = cells.shape
    width, height = size
    along_x = _weights(boxes[:, 0] / width, boxes[:, 2] / width, columns)
    along_y = _weights(boxes[:, 1] / height, boxes[:, 3] / height, rows)
    by_row = cells.reshape(-1, columns) @ along_x.T
    pooled = np.einsum("crn,nr->nc", by_row.reshape(channels, rows, -1), along_y, optimize=True)
    return np.asarray(pooled, dtype=np.float32)


def resample_cells(cells: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    """Resample a map to another grid. Each new cell is pooled from the area that it covers."""
    if cells.shape[1:] == (rows, columns):
        return cells
    along_y, along_x = (
        _weights(np.arange(new) / new, (np.arange(new) + 1) / new, old)
        for new, old in zip((rows, columns), cells.shape[1:], strict=True)
    )
    return np.asarray(along_y @ cells @ along_x.T, dtype=np.float32)


def _weights(start: NDArray[np.float64], end: NDArray[np.float64], cells: int) -> NDArray[np.float32]:
    """Return the weight of each cell along one axis for each box: (n, cells). Start and end are fractions."""
    points = start[:, None] + (end - start)[:, None] * np.asarray(OFFSETS)
    centres = np.clip(points * cells - 0.5, 0, cells - 1)
    hats = np.maximum(0, 1 - np.abs(centres[:, :, None] - np.arange(cells)))
    return np.asarray(hats.mean(axis=1), dtype=np.float32)


@dataclass(frozen=True)
class FeatureMap:
    """The features of a photo.

    `cells` is the map (channels, rows, columns), `whole` the global vector (dimension,): the mean of the map, or the
    output of the network. `size` is the width and height of the photo in pixels.
    """

    cells: NDArray[np.float32]
    whole: NDArray[np.float32]
    size: tuple[int, int]

    def regions(self, boxes: npt.ArrayLike) -> NDArray[np.float32]:
        """Pool one vector for each box, given in pixels of the photo: (n, channels)."""
        return pool_regions(self.cells, np.asarray(boxes, dtype=np.float64).reshape(-1, 4), self.size)

    def photo_vector(
        self, kind: PhotoVector = "photo", crops: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return the vector of the photo as a model takes it; `crops` replaces the global vector."""
        own = self.whole if crops is None else crops
        if kind == "photo":
            return own
        as_region = self.regions([0, 0, *self.size])[0]
        return as_region if kind == "region" else np.concatenate([own, as_region])


class Network(Protocol):
    """Maps pixels to cells (photos, channels, rows, columns) and global vectors (photos, dimension)."""

    def __call__(self, pixels: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...


@dataclass(frozen=True)
class InputSize:
    """Input size of a network: a square, or with `keep_aspect` about as many pixels in the aspect ratio of the photo.

    Both sides are then rounded to multiples of `multiple`.
    """

    side: int
    keep_aspect: bool = False
    multiple: int = 1

    def target_size(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height to which a photo is resized."""
        if not self.keep_aspect:
            return self.side, self.side
        # Limit the aspect ratio to 3 : 1, beyond which networks were not trained.
        stretch = min(max((width / height) ** 0.5, 3**-0.5), 3**0.5)
        sides = (self.side * stretch, self.side / stretch)
        wide, high = (max(round(side / self.multiple), 1) * self.multiple for side in sides)
        return wide, high


@dataclass(frozen=True)
class PreparedPhoto:
    """A photo resized for a network, and the size of the original photo."""

    pixels: NDArray[np.uint8]
    size: tuple[int, int]


class ImageEncoder:
    """Encodes photos as feature maps.

    `channels` and `dimension` are the sizes of region vectors and of global vectors. The fingerprint is a hash of the
    weights and of everything else that affects the results; features of different fingerprints are never mixed.
    """

    def __init__(
        self, name: str, network: Network, input_size: InputSize, channels: int, dimension: int, fingerprint: str
    ) -> None:
        self.name = name
        self.network = network
        self.input_size = input_size
        self.channels = channels
        self.dimension = dimension
        self.fingerprint = fingerprint

    def prepare(self, photo: Image.Image, size: tuple[int, int] | None = None) -> PreparedPhoto:
        """Resize a decoded photo for the network. `size` is its full size if it was decoded at a reduced scale."""
        size = size or photo.size
        return PreparedPhoto(resize_photo(photo, self.input_size.target_size(*size)), size)

    def encode(self, photos: Sequence[Image.Image]) -> list[FeatureMap]:
        """Encode decoded photos."""
        return self.encode_prepared([self.prepare(photo) for photo in photos])

    def encode_prepared(self, photos: Sequence[PreparedPhoto]) -> list[FeatureMap]:
        """Encode prepared photos. Photos of the same input size form a batch."""
        shapes = [photo.pixels.shape for photo in photos]
        features: dict[int, FeatureMap] = {}
        for _, group in groupby(sorted(range(len(photos)), key=shapes.__getitem__), key=shapes.__getitem__):
            indices = list(group)
            cells, whole = self.network(np.stack([photos[index].pixels for index in indices]))
            for row, index in enumerate(indices):
                # Copies, so that features of one photo do not keep the batch in memory.
                features[index] = FeatureMap(cells[row].copy(), whole[row].copy(), photos[index].size)
        return [features[index] for index in range(len(photos))]

    def encode_crops(self, photos: Sequence[Image.Image]) -> NDArray[np.float32]:
        """Return global vectors as in the papers: the mean over ten crops of each photo, (photos, dimension)."""
        vectors = [self.network(ten_crops(photo, self.input_size.side))[1].mean(axis=0) for photo in photos]
        return np.stack(vectors) if vectors else np.zeros((0, self.dimension), dtype=np.float32)


def resize_photo(photo: Image.Image, size: tuple[int, int]) -> Pixels:
    """Return the RGB pixels of a photo at another size. Bicubic with antialiasing."""
    rgb = photo if photo.mode == "RGB" else photo.convert("RGB")
    return np.asarray(rgb.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0), dtype=np.uint8)


def ten_crops(photo: Image.Image, side: int) -> Pixels:
    """Return ten crops of a photo that is resized to a square: four corners, the centre, and these mirrored."""
    whole = round(side / CROP_SHARE)
    pixels = resize_photo(photo, (whole, whole))
    room = whole - side
    crops = []
    for x, y in _CROP_POSITIONS:
        left, top = round(x * room), round(y * room)
        crop = pixels[top : top + side, left : left + side]
        crops += [crop, crop[:, ::-1]]
    return np.stack(crops)


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
    if size[0] * size[1] > _LARGE_PIXELS:  # threads would each keep some memory of the largest
        return_freed_memory()


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
