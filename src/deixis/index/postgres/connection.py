"""How PostgreSQL keeps vectors: a row for each photo and one for each region, in columns of pgvector."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.adapt import Dumper
from psycopg.pq import Format, TransactionStatus

from deixis.errors import DeixisError
from deixis.index.connection import StoredRegions, one_of
from deixis.index.postgres.address import Address
from deixis.index.postgres.troubles import plainly
from deixis.index.seeing import Floats, Seen

Raw = psycopg.Connection[tuple[Any, ...]]

_HEADER = 2
"""16-bit words before the numbers of a vector: how many there are, and nothing."""

_EXTENSION = """
SELECT n.nspname, e.extversion, w.oid, h.oid, h.typarray FROM pg_extension e
JOIN pg_namespace n ON n.oid = e.extnamespace
JOIN pg_type w ON w.typnamespace = n.oid AND w.typname = 'vector'
LEFT JOIN pg_type h ON h.typnamespace = n.oid AND h.typname = 'halfvec'
WHERE e.extname = 'vector'
"""


class WholeVector:
    """Numbers for a column of type vector."""

    def __init__(self, numbers: Floats) -> None:
        self.wire = _wire(np.asarray(numbers, dtype=">f4"))


class HalfVector:
    """Numbers for a column of type halfvec."""

    def __init__(self, numbers: NDArray[Any]) -> None:
        self.wire = _wire(np.asarray(numbers, dtype=">f2"))


class HalfVectors:
    """Several for an array of them."""

    def __init__(self, vectors: NDArray[Any]) -> None:
        self.vectors = vectors


class _VectorDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: WholeVector | HalfVector) -> bytes:
        return obj.wire


class _ArrayDumper(Dumper):
    format = Format.BINARY
    element = 0

    def dump(self, obj: HalfVectors) -> bytes:
        count, dimension = obj.vectors.shape
        kind = np.dtype([("bytes", ">i4"), ("header", ">u2", _HEADER), ("numbers", ">f2", dimension)])
        elements = np.zeros(count, dtype=kind)
        elements["bytes"] = elements.itemsize - 4
        elements["header"][:, 0] = dimension
        elements["numbers"] = obj.vectors
        # One dimension, no nulls, the type of the elements, how many, counted from one.
        return np.array([1, 0, self.element, count, 1], dtype=">i4").tobytes() + elements.tobytes()


class PostgresConnection:
    """A connection to the database of an index, which speaks of it as that of SQLite does."""

    def __init__(self, raw: Raw, knows_vectors: bool) -> None:
        self.raw, self.knows_vectors = raw, knows_vectors

    @property
    def in_transaction(self) -> bool:
        """Whether one was begun and has not ended."""
        return self.raw.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[tuple[Any, ...]]:
        """One statement, with a ``?`` for each value."""
        return self.raw.execute(statement.replace("?", "%s").encode(), values or None, binary=True)

    def in_one_go(self) -> AbstractContextManager[object]:
        """A block whose statements are sent without waiting; only what is read in it is waited for."""
        return self.raw.pipeline()

    def folder_number(self, path: bytes) -> int:
        """The number of a folder, which is written down if it is new."""
        known = self.execute("SELECT id FROM folders WHERE path = ?", (path,)).fetchone()
        if known is None:
            self.execute("INSERT INTO folders (path) VALUES (?) ON CONFLICT DO NOTHING", (path,))
            return self.folder_number(path)
        return int(known[0])

    def keep_seen(self, number: int, seen: Seen) -> None:
        """Write what was seen in a photo."""
        self.execute("INSERT INTO vectors VALUES (?, ?)", (number, WholeVector(seen.whole)))
        if len(seen.region_boxes):
            self.execute(
                "INSERT INTO regions SELECT ?, place - 1, x1, y1, x2, y2, vector "
                "FROM unnest(?::real[], ?::real[], ?::real[], ?::real[], ?) "
                "WITH ORDINALITY AS seen (x1, y1, x2, y2, vector, place)",
                (number, *seen.region_boxes.T.tolist(), HalfVectors(seen.region_vectors)),
            )
        if seen.thumbnail is not None:
            self.execute("INSERT INTO thumbnails VALUES (?, ?)", (number, seen.thumbnail))

    def copy_seen(self, number: int, of: int) -> None:
        """The same for a photo whose content was seen elsewhere."""
        boxes = "place, x1, y1, x2, y2, vector"
        for table, columns in (("vectors", "whole"), ("regions", boxes), ("thumbnails", "jpeg")):
            statement = f"INSERT INTO {table} SELECT ?, {columns} FROM {table} WHERE photo = ?"  # noqa: S608
            self.execute(statement, (number, of))

    def forget_seen(self, number: int) -> None:
        """Remove what was seen in a photo."""
        for table in ("thumbnails", "regions", "vectors"):
            self.execute(f"DELETE FROM {table} WHERE photo = ?", (number,))  # noqa: S608

    def whole_of(self, number: int) -> Floats | None:
        """The vector of a whole photo."""
        return self.wholes_of([number]).get(number)

    def wholes_of(self, numbers: Iterable[int]) -> dict[int, Floats]:
        """The vectors of whole photos by number; one that is gone is left out."""
        rows = self.execute(f"SELECT photo, whole FROM vectors WHERE photo IN {one_of(numbers)}")  # noqa: S608
        return {number: np.frombuffer(wire, dtype=">f4", offset=2 * _HEADER).astype("<f4") for number, wire in rows}

    def regions_of(self, numbers: Iterable[int], dimension: int) -> StoredRegions:
        """Regions of photos; a photo without any is left out."""
        # Put together by the server: reading rows one by one takes Python longer than sending them.
        boxes = "float4send(x1) || float4send(y1) || float4send(x2) || float4send(y2)"
        rows = self.execute(
            f"SELECT photo, string_agg({boxes}, '' ORDER BY place), "  # noqa: S608
            "string_agg(halfvec_send(vector), '' ORDER BY place) "
            f"FROM regions WHERE photo IN {one_of(numbers)} GROUP BY photo"
        )
        return {number: (_boxes(sides), halves_of(vectors, dimension)) for number, sides, vectors in rows}


def _boxes(wire: bytes) -> Floats:
    return np.frombuffer(wire, dtype=">f4").reshape(-1, 4).astype(np.float32)


def halves_of(wire: bytes, dimension: int) -> NDArray[np.float16]:
    """Vectors, (n, dimension), as the server sends values of type halfvec, one after another."""
    return np.frombuffer(wire, dtype=">f2").reshape(-1, _HEADER + dimension)[:, _HEADER:].astype(np.float16)


def connect(address: Address) -> PostgresConnection:
    """Connect, each statement on its own until one begins a transaction."""
    with plainly(address):
        raw = psycopg.connect(address.conninfo, autocommit=True)
        try:
            raw.execute("SET jit = off")  # compiling takes longer than what is asked here
            knows_vectors = _prepare(raw, address, raw.execute(_EXTENSION).fetchone())
        except BaseException:
            raw.close()
            raise
    return PostgresConnection(raw, knows_vectors)


def _prepare(raw: Raw, address: Address, found: tuple[Any, ...] | None) -> bool:
    """Have our tables found, and vectors understood if the server has any."""
    if found is None:
        raw.execute("SELECT set_config('search_path', %s, false)", (address.schema,))
        return False
    schema, version, whole, half, halves = found
    if tuple(int(part) for part in version.split(".")[:2]) < (0, 8):
        raise DeixisError(f"{address.name}: has pgvector {version}, and 0.8 is needed; ALTER EXTENSION vector UPDATE")
    raw.execute("SELECT set_config('search_path', %s, false)", (f'{address.schema}, "{schema}"',))
    known: tuple[tuple[type, type[Dumper], dict[str, int]], ...] = (
        (WholeVector, _VectorDumper, {"oid": whole}),
        (HalfVector, _VectorDumper, {"oid": half}),
        (HalfVectors, _ArrayDumper, {"oid": halves, "element": half}),
    )
    for kind, dumper, numbers in known:
        raw.adapters.register_dumper(kind, type(dumper.__name__, (dumper,), numbers))
    return True


def _wire(numbers: NDArray[Any]) -> bytes:
    return np.array([len(numbers), 0], dtype=">u2").tobytes() + numbers.tobytes()
