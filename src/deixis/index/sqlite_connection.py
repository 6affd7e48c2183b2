"""How SQLite keeps vectors: those of a photo together, as the bytes that they are."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from deixis.index.connection import StoredRegions, one_of
from deixis.index.seeing import Floats, Seen

_AT_ONCE = 500


class SqliteConnection(sqlite3.Connection):
    """A connection to the file of an index."""

    def in_one_go(self) -> AbstractContextManager[object]:
        """Nothing is quicker than a call."""
        return nullcontext()

    def folder_number(self, path: bytes) -> int:
        """The number of a folder, which is written down if it is new."""
        self.execute("INSERT INTO folders (path) VALUES (?) ON CONFLICT DO NOTHING", (path,))
        return int(self.execute("SELECT id FROM folders WHERE path = ?", (path,)).fetchone()[0])

    def keep_seen(self, number: int, seen: Seen) -> None:
        """Write what was seen in a photo."""
        whole = np.ascontiguousarray(seen.whole, dtype="<f4")
        boxes = np.ascontiguousarray(seen.region_boxes, dtype="<f4")
        regions = np.ascontiguousarray(seen.region_vectors, dtype="<f2")
        self.execute("INSERT INTO vectors VALUES (?, ?)", (number, whole.tobytes()))
        if len(boxes):
            self.execute("INSERT INTO regions VALUES (?, ?, ?)", (number, boxes.tobytes(), regions.tobytes()))
        if seen.thumbnail is not None:
            self.execute("INSERT INTO thumbnails VALUES (?, ?)", (number, seen.thumbnail))

    def copy_seen(self, number: int, of: int) -> None:
        """The same for a photo whose content was seen elsewhere."""
        for table, columns in (("vectors", "whole"), ("regions", "boxes, vectors"), ("thumbnails", "jpeg")):
            statement = f"INSERT INTO {table} SELECT ?, {columns} FROM {table} WHERE photo = ?"  # noqa: S608
            self.execute(statement, (number, of))

    def forget_seen(self, number: int) -> None:
        """Remove what was seen in a photo, and tell those who remember its number."""
        for table in ("thumbnails", "regions", "vectors"):
            self.execute(f"DELETE FROM {table} WHERE photo = ?", (number,))  # noqa: S608
        self.execute("INSERT INTO removed (photo) VALUES (?)", (number,))

    def whole_of(self, number: int) -> Floats | None:
        """The vector of a whole photo."""
        found = self.execute("SELECT whole FROM vectors WHERE photo = ?", (number,)).fetchone()
        return np.frombuffer(found[0], dtype="<f4") if found else None

    def regions_of(self, numbers: Iterable[int], dimension: int) -> StoredRegions:
        """Regions of photos; a photo without any is left out."""
        wanted = list(numbers)
        found: StoredRegions = {}
        for begin in range(0, len(wanted), _AT_ONCE):
            these = one_of(wanted[begin : begin + _AT_ONCE])
            query = f"SELECT photo, boxes, vectors FROM regions WHERE photo IN {these}"  # noqa: S608
            for number, boxes, vectors in self.execute(query):
                found[number] = (
                    np.frombuffer(boxes, dtype="<f4").reshape(-1, 4),
                    np.frombuffer(vectors, dtype="<f2").reshape(-1, dimension),
                )
        return found
