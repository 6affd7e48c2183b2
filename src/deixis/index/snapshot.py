"""What a reader knows of an index at one moment: arrays that stay as they are while it is searched."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deixis.index.about import About
from deixis.index.cache import Cached, bring_up_to_date, has_cache, open_cache, read_manifest
from deixis.index.codes import Basis
from deixis.index.database import DATABASE, at_one_moment, read_about
from deixis.index.rows import Rows, basis_of, joined, photos_with_regions, read_rows
from deixis.index.seeing import Floats

_MANY = 1024
"""Photos that are not in the cache, from which it is worth writing them there."""

_MANY_PARTS = 8


@dataclass(frozen=True)
class Snapshot:
    """All photos of an index, as parts whose numbers ascend.

    Attributes
    ----------
    cached
        The cache that the first part is mapped from; None where there is none.
    parts
        The photos; those that have been removed are among them.
    dead_ids : array of int64
        Numbers of photos that have been removed since the cache was begun.
    removed
        How far the table of the removed was read.
    """

    about: About
    cached: Cached | None
    basis: Basis
    parts: tuple[Rows, ...]
    dead_ids: NDArray[np.int64]
    removed: int

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """The number of the photo of each row."""
        return np.concatenate([part.ids for part in self.parts]) if self.parts else np.zeros(0, dtype=np.int64)

    @cached_property
    def living(self) -> NDArray[np.bool_]:
        """Whether the photo of each row is still in the index."""
        return ~np.isin(self.ids, self.dead_ids)

    @cached_property
    def region_rows(self) -> NDArray[np.int64]:
        """The row of the photo of each region."""
        counts = [part.counts for part in self.parts]
        return np.repeat(np.arange(len(self.ids)), np.concatenate(counts)) if counts else np.zeros(0, dtype=np.int64)

    @cached_property
    def region_starts(self) -> NDArray[np.int64]:
        """Where the regions of each row begin, and where the last one's end."""
        counts = np.concatenate([part.counts for part in self.parts]) if self.parts else np.zeros(0, dtype=np.int64)
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])

    def whole(self, rows: NDArray[np.int64]) -> Floats:
        """The vectors of the photos in some rows."""
        found = np.empty((len(rows), self.about.dimension), dtype=np.float32)
        begin = 0
        for part in self.parts:
            here = (rows >= begin) & (rows < begin + len(part))
            found[here] = part.whole[rows[here] - begin]
            begin += len(part)
        return found

    def whole_scores(self, query: Floats) -> Floats:
        """The dot product of every photo's vector with a query."""
        scores = np.empty(len(self.ids), dtype=np.float32)
        begin = 0
        for part in self.parts:
            np.dot(part.whole, query, out=scores[begin : begin + len(part)])
            begin += len(part)
        return scores

    def region_scores(self, query: Floats) -> Floats:
        """Nearly the dot product of every region's vector with a query."""
        scores = [self.basis.scores(part.codes, query) for part in self.parts]
        return np.concatenate(scores) if scores else np.zeros(0, dtype=np.float32)


def refreshed(folder: Path, connection: sqlite3.Connection, old: Snapshot | None) -> Snapshot:
    """The index as it is now; what `old` holds is not read again."""
    with at_one_moment(connection):
        begun = _begun(folder, connection, old)
        waiting = _photos_after(connection, _last_id(begun))
    is_damaged = begun.cached is None and waiting > 0 and has_cache(folder)
    mended = (waiting >= _MANY or is_damaged) and bring_up_to_date(folder, connection)
    with at_one_moment(connection):
        return _extended(folder, connection, _begun(folder, connection, None if mended else begun))


def _begun(folder: Path, connection: sqlite3.Connection, old: Snapshot | None) -> Snapshot:
    """What is known before the database is read: the newest cache, or else what was known before."""
    about = read_about(connection, folder / DATABASE)
    if old is not None and old.about != about:
        old = None
    manifest = read_manifest(folder, about)
    if old is not None and (manifest is None or (old.cached and old.cached.manifest == manifest)):
        return old
    cached = open_cache(folder, about)
    none = np.zeros(0, dtype=np.int64)
    if cached is not None:
        return Snapshot(about, cached, cached.basis, (cached.rows,), none, cached.manifest.removed)
    if old is not None:
        return old
    basis = basis_of(connection, photos_with_regions(connection), about.region_dimension)
    return Snapshot(about, None, basis, (), none, 0)


def _extended(folder: Path, connection: sqlite3.Connection, begun: Snapshot) -> Snapshot:
    """The same with what the database has beyond it."""
    new = list(read_rows(connection, folder / DATABASE, begun.about, begun.basis, after=_last_id(begun)))
    gone = connection.execute("SELECT number, photo FROM removed WHERE number > ?", (begun.removed,)).fetchall()
    if not new and not gone:
        return begun
    parts = (*begun.parts, *([joined(new)] if new else []))
    mapped = 1 if begun.cached else 0
    if len(parts) > mapped + _MANY_PARTS:
        parts = (*parts[:mapped], joined(list(parts[mapped:])))
    dead_ids = np.concatenate([begun.dead_ids, np.array([photo for _, photo in gone], dtype=np.int64)])
    removed = max([begun.removed, *(number for number, _ in gone)])
    return replace(begun, parts=parts, dead_ids=dead_ids, removed=removed)


def _last_id(snapshot: Snapshot) -> int:
    """The highest number that was looked at."""
    in_parts = [int(part.ids[-1]) for part in snapshot.parts if len(part)]
    return max([*in_parts, snapshot.cached.manifest.last_id if snapshot.cached else 0])


def _photos_after(connection: sqlite3.Connection, number: int) -> int:
    return int(connection.execute("SELECT count(*) FROM photos WHERE id > ?", (number,)).fetchone()[0])
