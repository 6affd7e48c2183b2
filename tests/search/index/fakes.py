"""A cheap encoder for tests of the index: the colours of a small copy of the photo."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike
from PIL import Image

from deixis.arrays import Floats
from deixis.data.images import open_photo
from deixis.errors import PhotoError
from deixis.search.index.base import IndexInfo, IndexPath, PhotoVectors
from deixis.search.index.photo_files import make_thumbnail
from deixis.search.index.photo_index import PhotoIndex
from deixis.search.index.records import IndexedPhoto, PhotoFilter
from deixis.search.index.snapshot import Grouping, IndexSnapshot, Match
from deixis.search.index.sqlite import open_for_reading
from deixis.storage.sql import is_postgres

on_both = pytest.mark.parametrize("index_path", ["folder", "postgres"], indirect=True)
"""Marks the contract that indexes in a folder and in PostgreSQL share."""

SIDE = 4
DIMENSION = SIDE * SIDE * 3


def vector(photo: Image.Image) -> Floats:
    colours = np.asarray(photo.convert("RGB").resize((SIDE, SIDE)), dtype=np.float32).ravel() - 127.5
    return np.asarray(colours / np.linalg.norm(colours), dtype=np.float32)


@dataclass
class ColourEncoder:
    """Encodes the colours of a photo and of its two halves; records the paths that it opened."""

    fingerprint: str = "colours-1"
    dimension: int = DIMENSION
    region_dimension: int = DIMENSION
    model_name: str = ""
    delay_s: float = 0.0
    looked_at: list[Path] = field(default_factory=list)

    def encode_photos(self, paths: Iterable[Path]) -> Iterator[tuple[Path, PhotoVectors | PhotoError]]:
        for path in paths:
            self.looked_at.append(path)
            time.sleep(self.delay_s)
            try:
                photo = open_photo(path)
            except PhotoError as error:
                yield path, error
                continue
            width, height = photo.size
            boxes = np.array([[0, 0, width // 2, height], [width // 2, 0, width, height]], dtype=np.float32)
            halves = np.stack([vector(photo.crop(tuple(map(int, box)))) for box in boxes])
            yield path, PhotoVectors(vector(photo), width, height, boxes, halves, make_thumbnail(photo, 16))

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in self.looked_at)


def photo(path: Path, seed: int, *, taken: str | None = None, camera: str | None = None) -> Path:
    """Write a photo of random coloured squares."""
    path.parent.mkdir(parents=True, exist_ok=True)
    squares = np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    exif = Image.Exif()
    if taken:
        exif.get_ifd(0x8769)[0x9003] = taken
    if camera:
        exif[0x010F], exif[0x0110] = camera.split(" ", 1)
    Image.fromarray(squares).resize((16, 12), Image.Resampling.NEAREST).save(path, exif=exif)
    return path


def search(
    snapshot: IndexSnapshot,
    query: ArrayLike,
    top: int = 10,
    *,
    photo_filter: PhotoFilter | None = None,
    grouping: Grouping | None = None,
) -> list[Match]:
    """Rank the photos nearest to a query by their dot product with it."""
    numbers = snapshot.nearest(query, top if grouping is None else snapshot.count(), photo_filter)
    return snapshot.rank(numbers, snapshot.vectors_of(numbers) @ np.asarray(query), top, grouping)


def search_regions(
    snapshot: IndexSnapshot, query: ArrayLike, top: int = 10, *, photo_filter: PhotoFilter | None = None
) -> list[Match]:
    """Rank the photos nearest to a query by the dot product of their best region with it."""
    numbers = snapshot.nearest_by_regions(query, photo_filter)[:top]
    scores = [(snapshot.regions_of(number)[1] @ np.asarray(query)).max() for number in numbers.tolist()]
    return snapshot.rank(numbers, np.array(scores), top)


@dataclass
class Altered(ColourEncoder):
    """Returns for each photo what `alter` makes of its vectors, or fails as it does."""

    alter: Callable[[Path, Any], PhotoVectors | PhotoError] = lambda _, encoded: encoded

    def encode_photos(self, paths: Iterable[Path]) -> Iterator[tuple[Path, PhotoVectors | PhotoError]]:
        for path, encoded in super().encode_photos(paths):
            yield path, self.alter(path, encoded)


class ReadIndex(PhotoIndex):
    """An index that has the methods of a snapshot, each of which reads the present state."""

    @property
    def info(self) -> IndexInfo:
        with self.snapshot() as snapshot:
            return snapshot.info

    def search(self, *arguments: Any, **options: Any) -> list[Match]:
        with self.snapshot() as snapshot:
            return search(snapshot, *arguments, **options)

    def search_regions(self, *arguments: Any, **options: Any) -> list[Match]:
        with self.snapshot() as snapshot:
            return search_regions(snapshot, *arguments, **options)

    def newest(self, count: int = 100) -> list[IndexedPhoto]:
        with self.snapshot() as snapshot:
            return sorted(snapshot.photos(snapshot.numbers()[-count:].tolist()).values(), key=lambda photo: -photo.id)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def ask(*arguments: Any, **options: Any) -> Any:
            with self.snapshot() as snapshot:
                return getattr(snapshot, name)(*arguments, **options)

        return ask


def rows_of(index_path: IndexPath, table: str) -> int:
    """Return the number of rows of a table, in either database."""
    if is_postgres(index_path):
        from deixis.search.index.postgres import connected, parse_address

        opened: Any = connected(parse_address(str(index_path)))
    else:
        opened = closing(open_for_reading(Path(index_path)))
    with opened as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


def photos(folder: Path, count: int) -> list[Path]:
    return [photo(folder / f"{seed:03}.png", seed) for seed in range(count)]
