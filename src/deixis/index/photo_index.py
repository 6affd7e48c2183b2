"""An index of photos, opened to be searched: while it grows, from many threads, for any kind of vector."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis.errors import DeixisError
from deixis.index import records
from deixis.index.database import DATABASE, About, open_to_read, plainly, refuse_other_model
from deixis.index.grouping import Grouping, groups_of
from deixis.index.matches import Answer, Match
from deixis.index.ranking import best
from deixis.index.records import IndexedPhoto
from deixis.index.regions import RankedRegions, best_regions
from deixis.index.seeing import Floats
from deixis.index.snapshot import Snapshot, refreshed
from deixis.index.where import Where

SHORTLIST = 1000
"""Regions whose exact scores are computed."""

_REGIONS = 20
"""As many regions as a photo may well have: that many of one photo leave room for others on the shortlist."""

_FEW = 8
"""Rows are gathered before they are multiplied where at most one in so many is looked at."""

_SPARE = 4
"""How many times more photos are looked at than asked for, where some will fall together in groups."""


def mixed(vectors: ArrayLike, weights: Sequence[float] | None = None) -> Floats:
    """One query of several: plus and minus weights, each vector taken at unit length.

    Examples
    --------
    >>> mixed([[3, 0], [0, 1]], [3, -4])
    array([ 0.6, -0.8], dtype=float32)
    """
    rows = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    together = np.asarray([1.0] * len(rows) if weights is None else weights, dtype=np.float32) @ unit
    return np.asarray(together / max(float(np.linalg.norm(together)), 1e-12), dtype=np.float32)


class PhotoIndex:
    """An index that `update_index` has made. Searches see all that was committed when they began.

    Parameters
    ----------
    folder
        The directory of the index.
    fingerprint
        Of the model whose vectors will be asked for; an index of another one is refused. None takes any.

    Examples
    --------
    >>> with PhotoIndex("photos.deixis") as photos:  # doctest: +SKIP
    ...     photos.search(query, top=5)[0].path
    """

    def __init__(self, folder: str | os.PathLike[str], *, fingerprint: str | None = None) -> None:
        self.folder = Path(folder)
        self.fingerprint = fingerprint
        self._connection = open_to_read(self.folder)
        self._lock = threading.Lock()
        self._version = -1
        self._snapshot: Snapshot | None = None
        try:
            self._now()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            self._connection.close()
            self._snapshot = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """How many photos there are."""
        return int(self._now().living.sum())

    @property
    def about(self) -> About:
        """The fingerprint and the dimension of the model."""
        return self._now().about

    def search(
        self, query: ArrayLike, top: int = 10, *, where: Where | None = None, grouping: Grouping | None = None
    ) -> list[Match]:
        """The photos whose vectors have the highest dot product with a query's, exactly.

        Parameters
        ----------
        query : array, (dimension,)
            The vector of a sentence, of a photo (`vector_of`), or of several (`mixed`).
        top
            How many at most.
        where
            Which photos to look at.
        grouping
            Put near-duplicates and bursts together; `top` counts groups then. None lists every photo.
        """
        snapshot = self._now()
        rows, scores = self._scored(snapshot, self._as_query(query, snapshot.about.dimension), where)

        def first(count: int) -> list[Answer]:
            return [Answer(int(rows[place]), float(scores[place])) for place in best(scores, count)]

        return self._matches(snapshot, first, len(rows), top, grouping)

    def search_regions(
        self,
        query: ArrayLike,
        top: int = 10,
        *,
        where: Where | None = None,
        grouping: Grouping | None = None,
        shortlist: int = SHORTLIST,
    ) -> list[Match]:
        """The photos with the regions whose vectors have the highest dot product with a query's, each with its box.

        Short codes of all regions choose a shortlist, whose exact scores decide.
        """
        snapshot = self._now()
        found = self._best_regions(snapshot, query, where, max(shortlist, _REGIONS * top))
        return self._matches(snapshot, found.first, len(found.rows), top, grouping)

    def numbers(self, where: Where | None = None) -> NDArray[np.int64]:
        """The numbers of all photos that a search would look at, ascending."""
        snapshot = self._now()
        return snapshot.ids[self._allowed(snapshot, where)]

    def nearest(self, query: ArrayLike, count: int, *, where: Where | None = None) -> NDArray[np.int64]:
        """The numbers of the photos that `search` would find, best first."""
        snapshot = self._now()
        rows, scores = self._scored(snapshot, self._as_query(query, snapshot.about.dimension), where)
        return snapshot.ids[rows[best(scores, count)]]

    def nearest_by_regions(
        self, query: ArrayLike, *, where: Where | None = None, shortlist: int = SHORTLIST
    ) -> NDArray[np.int64]:
        """The numbers of the photos of the regions on the shortlist, best first."""
        snapshot = self._now()
        return snapshot.ids[self._best_regions(snapshot, query, where, shortlist).rows]

    def ranked(
        self, numbers: NDArray[np.int64], scores: Floats, top: int, *, grouping: Grouping | None = None
    ) -> list[Match]:
        """Photos as matches, by scores that somebody else gave them; a photo that is gone is left out."""
        snapshot = self._now()
        rows = np.searchsorted(snapshot.ids, numbers)
        there = rows < len(snapshot.ids)
        there[there] = snapshot.ids[rows[there]] == numbers[there]
        rows, scores = rows[there], scores[there]

        def first(count: int) -> list[Answer]:
            return [Answer(int(rows[place]), float(scores[place])) for place in best(scores, count)]

        return self._matches(snapshot, first, len(rows), top, grouping)

    def photo(self, number: int) -> IndexedPhoto:
        """What the index knows of the photo with a number."""
        with self._reading() as connection:
            found = records.photos_by_id(connection, [number])
        if number not in found:
            raise DeixisError(f"{self.folder}: there is no photo {number}")
        return found[number]

    def photo_at(self, path: str | os.PathLike[str]) -> IndexedPhoto | None:
        """The same for a path; None where there is none."""
        with self._reading() as connection:
            return records.photo_at(connection, Path(os.path.abspath(path)))  # noqa: PTH100

    def newest(self, count: int, begin: int = 0) -> list[IndexedPhoto]:
        """Photos by falling numbers, `count` of them after the first `begin`."""
        last = self.numbers()[::-1][begin : begin + count].tolist()
        with self._reading() as connection:
            found = records.photos_by_id(connection, last)
        return [found[number] for number in last if number in found]

    def vectors_of(self, numbers: NDArray[np.int64]) -> Floats:
        """The vectors of whole photos: (n, dimension). The photos must be there."""
        snapshot = self._now()
        return snapshot.whole(np.searchsorted(snapshot.ids, numbers))

    def vector_of(self, number: int) -> Floats:
        """The vector of a whole photo, to search by it."""
        with self._reading() as connection:
            found = records.whole_of(connection, number)
        if found is None:
            raise DeixisError(f"{self.folder}: there is no photo {number}")
        return found

    def regions_of(self, number: int) -> tuple[Floats, Floats]:
        """Boxes (n, 4) and vectors (n, region dimension) of a photo's regions."""
        found = self.regions_of_all([number]).get(number)
        if found is None:
            return np.zeros((0, 4), dtype=np.float32), np.zeros((0, self.about.region_dimension), dtype=np.float32)
        return found[0], found[1].astype(np.float32)

    def regions_of_all(self, numbers: Iterable[int]) -> dict[int, tuple[Floats, NDArray[np.float16]]]:
        """The same for several photos, as they are kept; a photo without any is left out."""
        dimension = self.about.region_dimension
        with self._reading() as connection:
            return records.regions_of(connection, numbers, dimension)

    def thumbnail(self, number: int) -> bytes | None:
        """A small JPEG of a photo; None where none was kept."""
        with self._reading() as connection:
            return records.thumbnail(connection, number)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One thread at a time asks the database; what takes long, multiplying, happens outside."""
        with self._lock, plainly(self.folder / DATABASE):
            yield self._connection

    def _now(self) -> Snapshot:
        """The index as it is now; read again only if somebody has written."""
        with self._reading() as connection:
            version = connection.execute("PRAGMA data_version").fetchone()[0]
            if self._snapshot is None or version != self._version:
                self._snapshot = refreshed(self.folder, connection, self._snapshot)
                self._version = version
            if self.fingerprint is not None:
                refuse_other_model(self._snapshot.about, self.fingerprint, self.folder)
            return self._snapshot

    def _as_query(self, query: ArrayLike, dimension: int) -> Floats:
        asked = np.ascontiguousarray(query, dtype=np.float32)
        if asked.shape != (dimension,):
            raise DeixisError(
                f"{self.folder}: its vectors have {dimension} numbers, the query's has shape {asked.shape}"
            )
        if not np.isfinite(asked).all():
            raise DeixisError("the vector of the query holds a number that is not finite")
        return asked

    def _best_regions(self, snapshot: Snapshot, query: ArrayLike, where: Where | None, shortlist: int) -> RankedRegions:
        asked = self._as_query(query, snapshot.about.region_dimension)
        return best_regions(snapshot, self.regions_of_all, asked, self._allowed(snapshot, where), shortlist)

    def _allowed(self, snapshot: Snapshot, where: Where | None) -> NDArray[np.bool_]:
        """Which rows are looked at."""
        if not where:
            return snapshot.living
        with self._reading() as connection:
            wanted = records.ids_where(connection, where)
        return snapshot.living & np.isin(snapshot.ids, wanted)

    def _scored(self, snapshot: Snapshot, asked: Floats, where: Where | None) -> tuple[NDArray[np.int64], Floats]:
        """The rows that are looked at, and their scores."""
        allowed = self._allowed(snapshot, where)
        rows = np.flatnonzero(allowed)
        if len(rows) * _FEW <= len(allowed):
            return rows, snapshot.whole(rows) @ asked
        scores = snapshot.whole_scores(asked)
        return rows, scores if len(rows) == len(scores) else scores[rows]

    def _matches(
        self,
        snapshot: Snapshot,
        first: Callable[[int], list[Answer]],
        available: int,
        top: int,
        grouping: Grouping | None,
    ) -> list[Match]:
        """The first answers as photos; more of them are looked at until there are enough groups."""
        count = top if grouping is None else _SPARE * top
        while True:
            found = self._photos(snapshot, first(count))
            groups = [[place] for place in range(len(found))]
            if grouping is not None:
                vectors = snapshot.whole(np.array([answer.row for answer, _ in found], dtype=np.int64))
                groups = groups_of([photo for _, photo in found], vectors, grouping, most=top)
            if len(groups) >= top or count >= available:
                break
            count *= _SPARE
        return [_match([found[place] for place in group], rank) for rank, group in enumerate(groups[:top], start=1)]

    def _photos(self, snapshot: Snapshot, answers: list[Answer]) -> list[tuple[Answer, IndexedPhoto]]:
        ids = snapshot.ids[[answer.row for answer in answers]].tolist() if answers else []
        with self._reading() as connection:
            photos = records.photos_by_id(connection, ids)
        return [
            (answer, photos[number])
            for answer, number in zip(answers, ids, strict=True)
            if number in photos  # else removed a moment ago
        ]


def _match(group: list[tuple[Answer, IndexedPhoto]], rank: int) -> Match:
    (answer, photo), *others = group
    return Match(
        photo.id,
        photo.path,
        answer.score,
        rank,
        photo.width,
        photo.height,
        photo.taken,
        answer.box,
        tuple(_match([other], rank) for other in others),
    )
