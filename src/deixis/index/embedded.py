"""An index in a folder, to be read: SQLite holds the truth, and a mapped matrix is searched."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deixis.index import records
from deixis.index.about import About
from deixis.index.archive import Ranking
from deixis.index.connection import StoredRegions
from deixis.index.database import DATABASE, open_to_read, plainly
from deixis.index.matches import Answer
from deixis.index.ranking import best
from deixis.index.records import IndexedPhoto
from deixis.index.regions import RankedRegions, best_regions
from deixis.index.seeing import Floats
from deixis.index.snapshot import Snapshot, refreshed
from deixis.index.sqlite_connection import SqliteConnection
from deixis.index.where import Where

_FEW = 8
"""Rows are gathered before they are multiplied where at most one in so many is looked at."""


class EmbeddedArchive:
    """A folder that `update_index` has filled. What is asked sees all that was committed when it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._connection = open_to_read(folder)
        self._lock = threading.Lock()
        self._version = -1
        self._snapshot: Snapshot | None = None

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            self._connection.close()
            self._snapshot = None

    def about(self) -> About:
        """What the index says of itself, as of now."""
        return self._now().about

    def count(self, where: Where | None) -> int:
        """How many photos a search would look at."""
        return int(self._allowed(self._now(), where).sum())

    def numbers(self, where: Where | None) -> NDArray[np.int64]:
        """Their numbers, ascending."""
        snapshot = self._now()
        return snapshot.ids[self._allowed(snapshot, where)]

    def ranking(self, asked: Floats, where: Where | None) -> Ranking:
        """Photos by the dot product of their vectors with a query's: one product with the matrix."""
        snapshot = self._now()
        rows, scores = self._scored(snapshot, asked, where)

        def first(count: int) -> list[Answer]:
            places = best(scores, count)
            numbers = snapshot.ids[rows[places]].tolist()
            return [Answer(*each) for each in zip(numbers, scores[places].tolist(), strict=True)]

        return first

    def region_ranking(self, asked: Floats, where: Where | None, shortlist: int) -> RankedRegions:
        """Photos by that of their best region; codes choose the regions."""
        snapshot = self._now()
        return best_regions(snapshot, self.regions_of, asked, self._allowed(snapshot, where), shortlist)

    def newest(self, count: int, begin: int) -> list[IndexedPhoto]:
        """Photos by falling numbers."""
        last = self.numbers(None)[::-1][begin : begin + count].tolist()
        found = self.photos(last)
        return [found[number] for number in last if number in found]

    def photos(self, numbers: Iterable[int]) -> dict[int, IndexedPhoto]:
        """Photos by number; one that is gone is left out."""
        with self._reading() as connection:
            return records.photos_by_id(connection, numbers)

    def photo_at(self, path: Path) -> IndexedPhoto | None:
        """The photo at an absolute path."""
        with self._reading() as connection:
            return records.photo_at(connection, path)

    def vectors_of(self, numbers: NDArray[np.int64]) -> Floats:
        """The vectors of whole photos, (n, dimension); of one that is gone, zeros."""
        snapshot = self._now()
        found = np.zeros((len(numbers), snapshot.about.dimension), dtype=np.float32)
        rows = np.searchsorted(snapshot.ids, numbers)
        there = rows < len(snapshot.ids)
        there[there] = snapshot.ids[rows[there]] == numbers[there]
        found[there] = snapshot.whole(rows[there])
        return found

    def regions_of(self, numbers: Iterable[int]) -> StoredRegions:
        """Boxes and vectors of regions; a photo without any is left out."""
        dimension = self.about().region_dimension
        with self._reading() as connection:
            return connection.regions_of(numbers, dimension)

    def thumbnail(self, number: int) -> bytes | None:
        """A small JPEG; None where none was kept."""
        with self._reading() as connection:
            return records.thumbnail(connection, number)

    @contextmanager
    def _reading(self) -> Iterator[SqliteConnection]:
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
            return self._snapshot

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
