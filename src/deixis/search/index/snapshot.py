"""One state of an index: the interface of both kinds of index, and the searches built on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.search.index import records
from deixis.search.index.base import Connection, IndexInfo, IndexPath, RegionVectors, StoredRegions, read_entry
from deixis.search.index.photo_files import EXIF
from deixis.search.index.records import IndexedPhoto, PhotoFilter
from deixis.storage.sql import hide_password

Box = tuple[float, float, float, float]
"""``x1, y1, x2, y2`` in pixels of the photo."""

SHORTLIST = 1000
"""Number of regions whose exact scores are computed."""

_SAMPLE_SHARE = 64
_SPARE = 4
"""How many times more photos than results are read at a time, when photos are grouped."""


def to_box(sides: Floats) -> Box:
    left, top, right, bottom = map(float, sides)
    return left, top, right, bottom


def rank_by_regions(regions: Sequence[tuple[int, NDArray[np.float16]]], query: Floats) -> NDArray[np.int64]:
    """Rank photos by the exact score of their best region; regions are given as photo number and vector."""
    if not regions:
        return np.zeros(0, dtype=np.int64)
    numbers = np.array([number for number, _ in regions], dtype=np.int64)
    scores = np.stack([vector for _, vector in regions]).astype(np.float32) @ query
    order = np.lexsort((numbers, -scores))
    return numbers[order[np.sort(np.unique(numbers[order], return_index=True)[1])]]


@dataclass(frozen=True)
class Match:
    """A photo in the result of `IndexSnapshot.rank`."""

    photo: IndexedPhoto
    score: float
    others: tuple[Match, ...] = ()  # the other photos of its group, best first


@dataclass(frozen=True)
class Grouping:
    """When photos count as one result: same content, near-duplicates, or a burst of one camera."""

    near: float = 0.97  # minimum cosine of the vectors of near-duplicates
    burst_s: int = 10  # maximum seconds between two photos of a burst
    burst_near: float = 0.85  # minimum cosine of the vectors of a burst


def group_photos(
    photos: Sequence[IndexedPhoto], vectors: Floats, grouping: Grouping, max_groups: int | None = None
) -> list[list[int]]:
    """Group the indices of photos, keeping their order.

    A photo joins the first group whose first photo it matches, so a long chain of small differences is not one group.
    After `max_groups` groups, further photos may still join these.
    """
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    contents, cameras = dict[bytes, int](), dict[str | None, int]()
    content = np.array([contents.setdefault(photo.sha256, len(contents)) for photo in photos])
    camera = np.array([cameras.setdefault(photo.exif.camera, len(cameras)) for photo in photos])
    # Other dates do not tell a burst: files that were copied together have the same time.
    is_exact = [photo.exif.taken is not None and photo.exif.date_source == EXIF for photo in photos]
    taken = np.array([photo.exif.taken if exact else np.nan for photo, exact in zip(photos, is_exact, strict=True)])
    taken = taken.astype(np.float64)
    groups: list[list[int]] = []
    first = np.zeros(len(photos), dtype=np.int64)  # of each group
    first_unit = np.empty_like(unit)
    for index in range(len(photos)):
        leaders = first[: len(groups)]
        cosines = first_unit[: len(groups)] @ unit[index]
        burst = (np.abs(taken[leaders] - taken[index]) <= grouping.burst_s) & (camera[leaders] == camera[index])
        limit = np.where(burst, grouping.burst_near, grouping.near)
        matching = np.flatnonzero((content[leaders] == content[index]) | (cosines >= limit))
        if len(matching):
            groups[int(matching[0])].append(index)
        elif max_groups is None or len(groups) < max_groups:
            first[len(groups)], first_unit[len(groups)] = index, unit[index]
            groups.append([index])
    return groups


def top_indices(scores: Floats, top: int) -> NDArray[np.int64]:
    """Return the indices of the highest scores, highest first; ties keep the order of the indices."""
    if top <= 0 or not len(scores):
        return np.zeros(0, dtype=np.int64)
    found = np.arange(len(scores)) if top >= len(scores) else np.flatnonzero(scores >= _lower_bound(scores, top))
    if len(found) > top:
        candidates = scores[found]
        found = np.compress(candidates >= np.partition(candidates, len(found) - top)[len(found) - top], found)
    return found[np.argsort(-scores[found], kind="stable")][:top]


def _lower_bound(scores: Floats, top: int) -> np.float32:
    """Return a score that at least `top` scores reach: the `top`-th of a sample, cheaper than the exact one."""
    sample = scores[:: max(len(scores) // max(_SAMPLE_SHARE * top, 4096), 1)]
    sample = sample if len(sample) > top else scores
    return np.float32(np.partition(sample, len(sample) - top)[len(sample) - top])


class IndexSnapshot(ABC):
    """One state of an index: photos by number, and the photos nearest to a vector."""

    def __init__(self, path: IndexPath, info: IndexInfo) -> None:
        self.path, self.info = path, info

    @abstractmethod
    def count(self, photo_filter: PhotoFilter | None = None) -> int:
        """Return the number of photos that pass a filter."""

    @abstractmethod
    def numbers(self, photo_filter: PhotoFilter | None = None) -> NDArray[np.int64]:
        """Return the numbers of the photos that pass a filter, ascending."""

    @abstractmethod
    def nearest_numbers(self, query: Floats, count: int, photo_filter: PhotoFilter | None) -> NDArray[np.int64]:
        """Rank photos by the dot product of their vectors with a query; of equal ones, the older comes first."""

    @abstractmethod
    def region_ranking(self, query: Floats, photo_filter: PhotoFilter | None, shortlist: int) -> NDArray[np.int64]:
        """Return the numbers of photos by their best region, among about `shortlist` regions."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Connection]:
        """Give the connection for a block; long computations happen outside."""

    @abstractmethod
    def vectors_of(self, numbers: NDArray[np.int64]) -> Floats:
        """Return the vectors of whole photos, (n, dimension); zeros for photos that were removed."""

    def photos(self, numbers: Iterable[int]) -> dict[int, IndexedPhoto]:
        """Return photos by number, without those that were removed."""
        wanted = list(numbers)
        if not wanted:
            return {}
        with self.reading() as connection:
            return records.photos_by_id(connection, wanted)

    def photo_at(self, path: Path) -> IndexedPhoto | None:
        """Return the photo at an absolute path."""
        with self.reading() as connection:
            return records.photo_at(connection, path)

    def regions_of_all(self, numbers: Iterable[int]) -> StoredRegions:
        """Return the boxes and vectors of the regions of photos, without entries for photos that have none."""
        wanted = list(numbers)
        if not wanted:
            return {}
        with self.reading() as connection:
            return connection.regions_of(wanted, self.info.region_dimension)

    def thumbnail(self, number: int) -> bytes | None:
        """Return a small JPEG of a photo, if one was stored."""
        with self.reading() as connection:
            return connection.thumbnail_of(number)

    def entry(self, key: str) -> str | None:
        """Return an entry of the description of the index."""
        with self.reading() as connection:
            return read_entry(connection, key)

    def numbers_by_date(self, photo_filter: PhotoFilter) -> NDArray[np.int64]:
        """Return the numbers of the photos that pass a filter, the last taken first, and undated ones last."""
        with self.reading() as connection:
            return records.filtered_numbers(connection, photo_filter, by_date=True)

    def folders(self) -> list[Path]:
        """Return the folders that have photos, or had some."""
        with self.reading() as connection:
            return records.folders(connection)

    def folders_and_months(self, photo_filter: PhotoFilter) -> list[tuple[Path, str]]:
        """Return the folder and the month of each photo that passes a filter."""
        with self.reading() as connection:
            return list(records.folders_and_months(connection, photo_filter))

    def photo(self, number: int) -> IndexedPhoto:
        photos = self.photos([number])
        if number not in photos:
            raise DeixisError(f"{hide_password(self.path)}: has no photo with the number {number}")
        return photos[number]

    def vector_of(self, number: int) -> Floats:
        self.photo(number)
        return np.asarray(self.vectors_of(np.array([number], dtype=np.int64))[0], dtype=np.float32)

    def regions_of(self, number: int) -> tuple[Floats, Floats]:
        """Return the boxes (n, 4) and vectors (n, region_dimension) of a photo's regions."""
        stored = self.regions_of_all([number]).get(number)
        if stored is None:
            return np.zeros((0, 4), dtype=np.float32), np.zeros((0, self.info.region_dimension), dtype=np.float32)
        return stored[0], stored[1].astype(np.float32)

    def region_vectors(self, numbers: NDArray[np.int64]) -> RegionVectors:
        """Return the vectors of the regions of photos, given by ascending numbers."""
        stored = self.regions_of_all(numbers.tolist())
        photos = [stored[number][1] if number in stored else None for number in numbers.tolist()]
        return RegionVectors.join(photos, self.info.region_dimension)

    def nearest(self, query: ArrayLike, count: int, photo_filter: PhotoFilter | None = None) -> NDArray[np.int64]:
        """Return the numbers of the photos whose vectors have the highest dot product with a query, best first.

        The result is exact, unless a database was set up for approximate search.
        """
        vector = self._check_query(query, self.info.dimension)
        return self.nearest_numbers(vector, count, photo_filter)

    def nearest_by_regions(
        self, query: ArrayLike, photo_filter: PhotoFilter | None = None, shortlist: int = SHORTLIST
    ) -> NDArray[np.int64]:
        """Return the numbers of the photos whose regions have the highest dot product with a query, best first.

        Short codes of all regions select a shortlist, which is ranked by exact scores.
        """
        vector = self._check_query(query, self.info.region_dimension)
        return self.region_ranking(vector, photo_filter, shortlist)

    def rank(
        self, numbers: NDArray[np.int64], scores: Floats, top: int, grouping: Grouping | None = None
    ) -> list[Match]:
        """Return photos as matches by given scores, without those that were removed.

        With grouping, photos are read until there are enough groups.
        """
        order = top_indices(scores, len(scores))
        count = top * (1 if grouping is None else _SPARE)
        while True:
            best = order[:count]
            photos = self.photos(numbers[best].tolist())
            found = [
                (photos[number], score)
                for number, score in zip(numbers[best].tolist(), scores[best].tolist(), strict=True)
                if number in photos
            ]
            groups = self.group([photo for photo, _ in found], grouping, top)
            if len(groups) >= top or len(best) < count:
                break
            count *= _SPARE
        matches = [Match(*each) for each in found]
        return [
            replace(matches[first], others=tuple(matches[row] for row in others)) for first, *others in groups[:top]
        ]

    def _check_query(self, query: ArrayLike, dimension: int) -> Floats:
        vector = np.ascontiguousarray(query, dtype=np.float32)
        if vector.shape != (dimension,):
            raise DeixisError(
                f"{hide_password(self.path)}: its vectors have {dimension} numbers, the query has shape {vector.shape}"
            )
        if not np.isfinite(vector).all():
            raise DeixisError("the query vector contains a number that is not finite")
        return vector

    def group(
        self, photos: Sequence[IndexedPhoto], grouping: Grouping | None, top: int | None = None
    ) -> list[list[int]]:
        """Group the indices of photos as `group_photos` does; without a grouping each is alone."""
        if grouping is None:
            return [[row] for row in range(len(photos))]
        vectors = self.vectors_of(np.array([photo.id for photo in photos], dtype=np.int64))
        return group_photos(photos, vectors, grouping, max_groups=top)
