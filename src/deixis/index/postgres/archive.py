"""An index in PostgreSQL, to be read: the server searches, and only what it finds is sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psycopg
from numpy.typing import NDArray

from deixis.errors import DeixisError
from deixis.index import records
from deixis.index.about import About
from deixis.index.archive import Ranking
from deixis.index.connection import StoredRegions
from deixis.index.matches import Answer
from deixis.index.postgres.address import read_address
from deixis.index.postgres.connection import HalfVector, PostgresConnection, WholeVector, connect, halves_of
from deixis.index.postgres.graphs import APPROXIMATE, SEARCH
from deixis.index.postgres.schema import about_of, read_said
from deixis.index.postgres.troubles import plainly
from deixis.index.records import IndexedPhoto
from deixis.index.regions import RankedRegions, rescored
from deixis.index.seeing import Floats
from deixis.index.where import Where

T = TypeVar("T")
Told = Callable[[], AbstractContextManager[None]]

_IDLE = 8
"""Connections that are kept for the next question."""

_MANY, _COUNTED_S = 100_000, 10.0
"""From so many photos on it takes time to count them, so that is done no more often than this."""

_BREADTHS = (400, 1000)
"""Photos or regions that a graph looks at together, at least and at most; pgvector takes no more."""


@contextmanager
def opened_to_read(
    place: str,
) -> Iterator[tuple[PostgresConnection, About, Told]]:
    """The tables of an index, what it says of itself, and how its troubles are told."""
    address = read_address(place)
    connection = connect(address)
    with closing(connection.raw):
        with plainly(address):
            about = about_of(read_said(connection, address), address)
        yield connection, about, partial(plainly, address)


class PostgresArchive:
    """The index at an address. Each thread that asks has a connection of its own."""

    def __init__(self, place: str) -> None:
        self.address = read_address(place)
        self._idle: list[PostgresConnection] = []
        self._lock = threading.Lock()
        self._closed = False
        self._by_graph = False
        self._counted, self._counted_until = 0, 0.0

    def close(self) -> None:
        """Let go of the connections."""
        self._closed = True
        self._let_go(self._all_idle())

    def about(self) -> About:
        """What the index says of itself, as of now."""
        return about_of(self._said(), self.address)

    def count(self, where: Where | None) -> int:
        """How many photos a search would look at; of very many, how many they were a moment ago."""
        if not where and time.monotonic() < self._counted_until:
            return self._counted

        def counted(connection: PostgresConnection) -> int:
            condition, values = records.condition_of(connection, where or Where())
            found = connection.execute(f"SELECT count(*) FROM photos p WHERE {condition}", values).fetchone()  # noqa: S608
            return int(found[0]) if found else 0

        count = self._ask(counted)
        if not where and count >= _MANY:
            self._counted, self._counted_until = count, time.monotonic() + _COUNTED_S
        return count

    def numbers(self, where: Where | None) -> NDArray[np.int64]:
        """Their numbers, ascending."""
        return self._ask(lambda connection: records.ids_where(connection, where or Where()))

    def ranking(self, asked: Floats, where: Where | None) -> Ranking:
        """Photos by the dot product of their vectors with a query's."""
        vector = WholeVector(asked)

        def first(count: int) -> list[Answer]:
            rows = self._ask(lambda connection: self._nearest(connection, "vectors", "whole", vector, where, count))
            # Whichever way they were found, of equal ones the older comes first.
            return [Answer(number, -away) for away, number in sorted((away, number) for away, number in rows)]

        return first

    def region_ranking(self, asked: Floats, where: Where | None, shortlist: int) -> RankedRegions:
        """Photos by that of their best region, in the precision in which regions are kept, then exactly."""
        # Only the order counts, and a vector of any length has the same.
        vector = HalfVector(asked / max(float(np.linalg.norm(asked)), 1e-12))
        rows = self._ask(
            lambda connection: self._nearest(
                connection, "regions", "vector", vector, where, shortlist, ", x1, y1, x2, y2, vector"
            )
        )
        dimension = len(asked)
        return rescored(
            [
                (number, np.array(box, dtype=np.float32), halves_of(wire, dimension)[0])
                for _, number, *box, wire in rows
            ],
            asked,
        )

    def newest(self, count: int, begin: int) -> list[IndexedPhoto]:
        """Photos by falling numbers."""

        def found(connection: PostgresConnection) -> list[IndexedPhoto]:
            rows = connection.execute("SELECT id FROM photos ORDER BY id DESC LIMIT ? OFFSET ?", (count, begin))
            photos = records.photos_by_id(connection, [number for (number,) in rows])
            return [photos[number] for number in sorted(photos, reverse=True)]

        return self._ask(found)

    def photos(self, numbers: Iterable[int]) -> dict[int, IndexedPhoto]:
        """Photos by number; one that is gone is left out."""
        wanted = list(numbers)
        return self._ask(lambda connection: records.photos_by_id(connection, wanted)) if wanted else {}

    def photo_at(self, path: Path) -> IndexedPhoto | None:
        """The photo at an absolute path."""
        return self._ask(lambda connection: records.photo_at(connection, path))

    def vectors_of(self, numbers: NDArray[np.int64]) -> Floats:
        """The vectors of whole photos, (n, dimension); of one that is gone, zeros."""
        found = self._ask(lambda connection: connection.wholes_of(numbers.tolist()))
        vectors = np.zeros((len(numbers), self.about().dimension), dtype=np.float32)
        for place, number in enumerate(numbers.tolist()):
            if number in found:
                vectors[place] = found[number]
        return vectors

    def regions_of(self, numbers: Iterable[int]) -> StoredRegions:
        """Boxes and vectors of regions; a photo without any is left out."""
        dimension, wanted = self.about().region_dimension, list(numbers)
        return self._ask(lambda connection: connection.regions_of(wanted, dimension)) if wanted else {}

    def thumbnail(self, number: int) -> bytes | None:
        """A small JPEG; None where none was kept."""
        return self._ask(lambda connection: records.thumbnail(connection, number))

    def _nearest(
        self,
        connection: PostgresConnection,
        table: str,
        column: str,
        vector: WholeVector | HalfVector,
        where: Where | None,
        count: int,
        more: str = "",
    ) -> list[tuple[Any, ...]]:
        """Rows of a table whose vectors are nearest: how far away each is, its photo's number, and more columns."""
        if where or not self._by_graph:
            condition, values = records.condition_of(connection, where or Where())
            among = f"JOIN photos p ON p.id = photo WHERE {condition}" if where else ""
            # Nothing that is added to can be looked up in a graph, so every row is looked at.
            away, order = f"({column} <#> ?) + 0", "away, photo"
        else:
            least, most = _BREADTHS
            breadth = str(min(max(2 * count, least), most))
            connection.execute("SELECT set_config('hnsw.ef_search', ?, false)", (breadth,))
            among, values, away, order = "", [], f"{column} <#> ?", "away"
        query = f"SELECT {away} AS away, photo{more} FROM {table} {among} ORDER BY {order} LIMIT {int(count)}"  # noqa: S608
        return connection.execute(query, [vector, *values]).fetchall()

    def _said(self) -> dict[str, str]:
        said = self._ask(lambda connection: read_said(connection, self.address))
        self._by_graph = said.get(SEARCH) == APPROXIMATE
        return said

    def _ask(self, question: Callable[[PostgresConnection], T]) -> T:
        """An answer; asked again by a new connection where an old one had died, as with a server that was restarted."""
        with plainly(self.address):
            while True:
                connection, is_new = self._borrowed()
                try:
                    answer = question(connection)
                except psycopg.OperationalError:
                    self._let_go([connection, *self._all_idle()])
                    if is_new:
                        raise
                except BaseException:
                    self._let_go([connection])
                    raise
                else:
                    self._give_back(connection)
                    return answer

    def _borrowed(self) -> tuple[PostgresConnection, bool]:
        with self._lock:
            if self._closed:
                raise DeixisError(f"{self.address.name}: was closed; open it again")
            if self._idle:
                return self._idle.pop(), False
        connection = connect(self.address)
        connection.execute("SET default_transaction_read_only = on")
        connection.execute("SET hnsw.iterative_scan = strict_order")  # as many as were asked for, however many
        return connection, True

    def _give_back(self, connection: PostgresConnection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _IDLE:
                self._idle.append(connection)
                return
        connection.raw.close()

    def _all_idle(self) -> list[PostgresConnection]:
        with self._lock:
            idle, self._idle = self._idle, []
        return idle

    @staticmethod
    def _let_go(connections: Iterable[PostgresConnection]) -> None:
        for connection in connections:
            connection.raw.close()
