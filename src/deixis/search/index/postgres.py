"""An index in PostgreSQL with pgvector: for more photos than one machine should hold, and for several writers.

The server searches, and sends only what it finds. The tables are those of SQLite, except for vectors, which are in
columns of pgvector, and without `removed`: nothing is cached here. Requires psycopg, from ``deixis[postgres]``.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Any, LiteralString
from urllib.parse import urlunsplit

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.errors import DeixisError, UnavailableError
from deixis.search.index import records
from deixis.search.index.base import FORMAT, IndexInfo, IndexWriter, ModelInfo, PhotoVectors, StoredRegions, write_entry
from deixis.search.index.records import PhotoFilter, sql_list
from deixis.search.index.snapshot import IndexSnapshot, rank_by_regions
from deixis.storage.remote import split_url
from deixis.storage.sql import explain_sql_error, hide_password

if not all(map(find_spec, ("psycopg", "psycopg_pool", "pgvector"))):
    raise DeixisError("an index in PostgreSQL needs psycopg and pgvector; pip install 'deixis[postgres]'")

import psycopg
from pgvector import HalfVector, Vector
from pgvector.psycopg.halfvec import register_halfvec_info
from pgvector.psycopg.vector import register_vector_info
from psycopg import errors, sql
from psycopg.adapt import Dumper
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Format, TransactionStatus
from psycopg.types import TypeInfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

RawConnection = psycopg.Connection[tuple[Any, ...]]

logging.getLogger("psycopg").setLevel(logging.ERROR)  # failed connections are reported by deixis

DEFAULT_SCHEMA = "deixis_index"
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_CONNECT_TIMEOUT_S = 10
_MAX_CONNECTIONS, _POOL_TIMEOUT_S = 16, 1.0
_LARGE_COUNT, _COUNT_VALID_S = 100_000, 10.0
"""From this many photos on, counting takes time and the result is reused for a while."""

_MIN_EF_SEARCH, _MAX_EF_SEARCH = 400, 1000
"""Candidates of a graph search; pgvector accepts no more."""

_INLINE_BYTES = 8000
"""Vectors up to this size fit into a page with the rest of their row."""

_MAX_GRAPH_DIMENSION = 2000
"""pgvector's limit for vectors in a graph."""

_HEADER = 2
"""16-bit words before the numbers of a halfvec in binary form: the count, and a reserved one."""

_SEARCH_KEY, _APPROXIMATE, _EXACT = "search", "approximate", "exact"
_REGION_GRAPH = "regions_graph"
_GRAPHS = {
    "vectors_graph": "vectors USING hnsw (whole vector_ip_ops)",
    _REGION_GRAPH: "regions USING hnsw (vector halfvec_ip_ops)",
}

_NO_PGVECTOR = (
    "the database has no vector extension; install pgvector 0.8 or newer on the server, "
    "and have its administrator run: CREATE EXTENSION vector"
)

_EXTENSION_QUERY = """
SELECT n.nspname, e.extversion, w.oid, w.typarray, h.oid, h.typarray FROM pg_extension e
JOIN pg_namespace n ON n.oid = e.extnamespace
JOIN pg_type w ON w.typnamespace = n.oid AND w.typname = 'vector'
LEFT JOIN pg_type h ON h.typnamespace = n.oid AND h.typname = 'halfvec'
WHERE e.extname = 'vector'
"""

_TABLES: tuple[LiteralString, ...] = ("about", "thumbnails", "regions", "vectors", "photos", "skipped", "folders")
_SCHEMA: LiteralString = """
CREATE TABLE about (key text PRIMARY KEY, value text NOT NULL);
CREATE TABLE folders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, path bytea NOT NULL UNIQUE);
CREATE TABLE photos (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    folder bigint NOT NULL REFERENCES folders,
    name bytea NOT NULL,
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    sha256 bytea NOT NULL,
    width integer NOT NULL,
    height integer NOT NULL,
    taken bigint,
    camera text,
    orientation integer,
    date_source text,
    regions integer NOT NULL,
    UNIQUE (folder, name)
);
CREATE INDEX photos_by_content ON photos (sha256);
CREATE INDEX photos_by_date ON photos (taken);
CREATE TABLE vectors (photo bigint PRIMARY KEY REFERENCES photos, whole vector({dimension}) NOT NULL);
CREATE TABLE regions (
    photo bigint NOT NULL REFERENCES photos,
    place integer NOT NULL,
    x1 real NOT NULL, y1 real NOT NULL, x2 real NOT NULL, y2 real NOT NULL,
    vector halfvec({region_dimension}) NOT NULL,
    PRIMARY KEY (photo, place)
);
CREATE TABLE thumbnails (photo bigint PRIMARY KEY REFERENCES photos, jpeg bytea NOT NULL);
CREATE TABLE skipped (
    folder bigint NOT NULL REFERENCES folders,
    name bytea NOT NULL,
    size bigint NOT NULL,
    mtime_ns bigint NOT NULL,
    sha256 bytea NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (folder, name)
);
CREATE INDEX skipped_by_content ON skipped (sha256);
ALTER TABLE thumbnails ALTER jpeg SET STORAGE EXTERNAL;
ALTER TABLE vectors ALTER whole SET STATISTICS 0;
ALTER TABLE regions ALTER vector SET STATISTICS 0;
"""


@dataclass(frozen=True)
class DatabaseAddress:
    """A database, and the schema in it that holds an index."""

    conninfo: str = field(repr=False)  # for libpq; contains the password if the address does
    schema: str
    name: str  # the address without its password, for messages


def parse_address(text: str) -> DatabaseAddress:
    """Parse ``postgresql://user@host:port/database?schema=name``, with any options of libpq after the ``?``."""
    name = hide_password(text)
    parts = split_url(text)
    # libpq's own message may quote part of the password, so it is not passed on.
    invalid = DeixisError(
        f"{name}: not a valid address; use postgresql://user@host/database, and in a password write "
        "@ as %40, : as %3A, / as %2F, # as %23, ? as %3F, % as %25"
    )
    if not parts.scheme or parts.fragment or parts.netloc.count("@") > 1 or "@" in parts.path:
        raise invalid
    # Options are not decoded and encoded again: libpq reads + as +, Python's functions as a space.
    options = [option for option in parts.query.split("&") if option]
    schemas = [option.partition("=")[2] for option in options if option.startswith("schema=")]
    schema = schemas[-1] if schemas else DEFAULT_SCHEMA
    if not _SCHEMA_NAME.fullmatch(schema):
        raise DeixisError(f"{name}: schema: only lower-case letters, digits and _ are allowed in its name")
    rest = "&".join(option for option in options if not option.startswith("schema="))
    try:
        values = conninfo_to_dict(urlunsplit(parts._replace(query=rest)))
        if not str(values.get("port", "0")).replace(",", "").isdigit():
            raise invalid
        values = {"connect_timeout": _CONNECT_TIMEOUT_S, "application_name": "deixis", **values}
        return DatabaseAddress(make_conninfo("", **values), schema, name)
    except psycopg.Error:
        raise invalid from None


@contextmanager
def explain_errors(address: DatabaseAddress) -> Iterator[None]:
    """Raise database errors as `DeixisError` if the request is at fault, otherwise as `UnavailableError`."""
    try:
        yield
    except psycopg.Error as error:
        kind = DeixisError if isinstance(error, psycopg.DataError) else UnavailableError
        # The original error could contain the password.
        raise kind(f"{address.name}: {explain_sql_error(error)}") from None


class HalfVectors:
    """An array of values of type halfvec: one by one, pgvector takes five times as long to write a photo."""

    def __init__(self, vectors: NDArray[Any]) -> None:
        self.vectors = vectors


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
        # One dimension, no nulls, the element type, the count, the first index.
        return np.array([1, 0, self.element, count, 1], dtype=">i4").tobytes() + elements.tobytes()


class PostgresConnection:
    """A `Connection` to the tables of an index."""

    def __init__(self, raw: RawConnection) -> None:
        self.raw = raw

    @property
    def in_transaction(self) -> bool:
        return self.raw.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.raw.execute(statement.replace("?", "%s").encode(), values or None, binary=True)

    def pipeline(self) -> AbstractContextManager[object]:
        return self.raw.pipeline()

    def folder_number(self, path: bytes) -> int:
        known = self.execute("SELECT id FROM folders WHERE path = ?", (path,)).fetchone()
        if known is None:
            self.execute("INSERT INTO folders (path) VALUES (?) ON CONFLICT DO NOTHING", (path,))
            return self.folder_number(path)
        return int(known[0])

    def insert_encoded(self, number: int, encoded: PhotoVectors) -> None:
        self.execute("INSERT INTO vectors VALUES (?, ?)", (number, Vector(encoded.whole)))
        if len(encoded.region_boxes):
            self.execute(
                "INSERT INTO regions SELECT ?, place - 1, x1, y1, x2, y2, vector "
                "FROM unnest(?::real[], ?::real[], ?::real[], ?::real[], ?) "
                "WITH ORDINALITY AS found (x1, y1, x2, y2, vector, place)",
                (number, *encoded.region_boxes.T.tolist(), HalfVectors(encoded.region_vectors)),
            )
        if encoded.thumbnail is not None:
            self.execute("INSERT INTO thumbnails VALUES (?, ?)", (number, encoded.thumbnail))

    def delete_encoded(self, number: int) -> None:
        for table in ("thumbnails", "regions", "vectors"):
            self.execute(f"DELETE FROM {table} WHERE photo = ?", (number,))  # noqa: S608

    def thumbnail_of(self, number: int) -> bytes | None:
        found = self.execute("SELECT jpeg FROM thumbnails WHERE photo = ?", (number,)).fetchone()
        return bytes(found[0]) if found else None

    def whole_vectors(self, numbers: Iterable[int]) -> dict[int, Floats]:
        rows = self.execute(f"SELECT photo, whole FROM vectors WHERE photo IN {sql_list(numbers)}")  # noqa: S608
        return {number: vector.to_numpy() for number, vector in rows}

    def regions_of(self, numbers: Iterable[int], dimension: int) -> StoredRegions:
        # Aggregated by the server: one object of pgvector for each region takes longer than the transfer.
        boxes = "float4send(x1) || float4send(y1) || float4send(x2) || float4send(y2)"
        rows = self.execute(
            f"SELECT photo, string_agg({boxes}, '' ORDER BY place), "  # noqa: S608
            "string_agg(halfvec_send(vector), '' ORDER BY place) "
            f"FROM regions WHERE photo IN {sql_list(numbers)} GROUP BY photo"
        )
        found: StoredRegions = {}
        for number, sides, vectors in rows:
            numbers_of_all = np.frombuffer(vectors, dtype=">f2").reshape(-1, _HEADER + dimension)[:, _HEADER:]
            found[number] = (
                np.frombuffer(sides, dtype=">f4").reshape(-1, 4).astype(np.float32),
                numbers_of_all.astype(np.float16),
            )
        return found


@contextmanager
def connected(address: DatabaseAddress) -> Iterator[PostgresConnection]:
    """Connect in autocommit mode, for a block."""
    with explain_errors(address), psycopg.connect(address.conninfo, autocommit=True) as raw:
        _set_up(address, raw)
        yield PostgresConnection(raw)


def _set_up(address: DatabaseAddress, raw: RawConnection) -> bool:
    """Set the search path and register the vector types; return whether the database has pgvector."""
    extension = raw.execute(_EXTENSION_QUERY).fetchone()
    path = address.schema
    if extension is not None:
        schema, version, *oids = extension
        path = f'{path}, "{schema}"'
        if tuple(int(part) for part in version.split(".")[:2]) < (0, 8):
            needed = "0.8 is required; run ALTER EXTENSION vector UPDATE"
            raise DeixisError(f"{address.name}: has pgvector {version}, {needed}")
        register_vector_info(raw, TypeInfo("vector", *oids[:2]))
        register_halfvec_info(raw, TypeInfo("halfvec", *oids[2:]))
        half, half_array = oids[2:]
        raw.adapters.register_dumper(HalfVectors, type("", (_ArrayDumper,), {"oid": half_array, "element": half}))
    settings = {
        "search_path": path,
        "jit": "off",  # compiling takes longer than these queries
        "hnsw.iterative_scan": "strict_order",  # graph searches return as many as requested
    }
    raw.execute("SELECT set_config(key, value, false) FROM json_each_text(%s) _", (json.dumps(settings),))
    return extension is not None


def _read_entries(connection: PostgresConnection, address: DatabaseAddress) -> dict[str, str]:
    try:
        return dict(connection.execute("SELECT key, value FROM about").fetchall())
    except (errors.UndefinedTable, errors.UndefinedColumn):
        raise DeixisError(
            f"{address.name}: not a photo index; create one with: deixis index PHOTOS --into {address.name}"
        ) from None


def _read_info(connection: PostgresConnection, address: DatabaseAddress) -> IndexInfo:
    return IndexInfo.from_entries(_read_entries(connection, address), address.name, address.name)


class PostgresReader:
    """The index at an address, open for reading; each snapshot has a connection of a pool."""

    def __init__(self, path: str) -> None:
        self.address = parse_address(path)
        with connected(self.address):
            pass  # errors are raised at once; a pool would only wait
        self._pool = ConnectionPool(
            self.address.conninfo,
            kwargs={"autocommit": True},
            configure=partial(_set_up, self.address),  # type: ignore[arg-type] # its result is not needed
            check=ConnectionPool.check_connection,
            min_size=0,
            max_size=_MAX_CONNECTIONS,
            timeout=_POOL_TIMEOUT_S,
            reconnect_timeout=0,
            num_workers=1,
            open=True,
        )
        self._count, self._count_valid_until = 0, 0.0

    def version(self) -> None:
        """A commit is only noticed by reading the database."""

    def close(self) -> None:
        self._pool.close()

    @contextmanager
    def snapshot(self) -> Iterator[PostgresSnapshot]:
        """Give the current state, as one read-only transaction."""
        with explain_errors(self.address):
            raw = self._take()
            try:
                with raw:
                    connection = PostgresConnection(raw)
                    with connection.pipeline():
                        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                        entries = _read_entries(connection, self.address)
                    yield PostgresSnapshot(self, connection, entries)
            finally:
                self._pool.putconn(raw)

    def _take(self) -> RawConnection:
        try:
            return self._pool.getconn()
        except PoolClosed:
            raise DeixisError(f"{self.address.name}: was closed; open it again") from None
        except PoolTimeout:
            with connected(self.address):  # raises the reason, which the pool does not tell
                self._pool.check()
            return self._pool.getconn()

    def count(self, connection: PostgresConnection) -> int:
        """Return the number of photos; of very many, the number a moment ago."""
        if time.monotonic() >= self._count_valid_until:
            self._count = records.count(connection)
            if self._count >= _LARGE_COUNT:
                self._count_valid_until = time.monotonic() + _COUNT_VALID_S
        return self._count


class PostgresSnapshot(IndexSnapshot):
    """The state of the database in one transaction."""

    def __init__(self, reader: PostgresReader, connection: PostgresConnection, entries: dict[str, str]) -> None:
        name = reader.address.name
        super().__init__(name, IndexInfo.from_entries(entries, name, name))
        self._reader, self._connection = reader, connection
        self._uses_graphs = entries.get(_SEARCH_KEY) == _APPROXIMATE

    def count(self, photo_filter: PhotoFilter | None = None) -> int:
        if not photo_filter:
            return self._reader.count(self._connection)
        condition, values = records.filter_condition(self._connection, photo_filter)
        row = self._connection.execute(f"SELECT count(*) FROM photos p WHERE {condition}", values).fetchone()  # noqa: S608
        return int(row[0]) if row else 0

    def reading(self) -> AbstractContextManager[PostgresConnection]:
        return nullcontext(self._connection)

    def numbers(self, photo_filter: PhotoFilter | None = None) -> NDArray[np.int64]:
        return records.filtered_numbers(self._connection, photo_filter or PhotoFilter())

    def nearest_numbers(self, query: Floats, count: int, photo_filter: PhotoFilter | None) -> NDArray[np.int64]:
        # Sorted again: a graph search does not put the older of equal photos first.
        rows = sorted(self._nearest("vectors", "whole", Vector(query), photo_filter, count))
        return np.array([number for _, number in rows], dtype=np.int64)

    def region_ranking(self, query: Floats, photo_filter: PhotoFilter | None, shortlist: int) -> NDArray[np.int64]:
        # Only the order counts here, so the query is scaled into the range of half precision.
        vector = HalfVector(query / max(float(np.linalg.norm(query)), 1e-12))
        rows = self._nearest("regions", "vector", vector, photo_filter, shortlist, ", vector")
        return rank_by_regions([(number, found.to_numpy()) for _, number, found in rows], query)

    def vectors_of(self, numbers: NDArray[np.int64]) -> Floats:
        found = self._connection.whole_vectors(numbers.tolist())
        vectors = np.zeros((len(numbers), self.info.dimension), dtype=np.float32)
        for row, number in enumerate(numbers.tolist()):
            if number in found:
                vectors[row] = found[number]
        return vectors

    def _nearest(
        self,
        table: str,
        column: str,
        vector: Vector | HalfVector,
        photo_filter: PhotoFilter | None,
        count: int,
        columns: str = "",
    ) -> list[tuple[Any, ...]]:
        """Return the rows with the nearest vectors: distance, photo number, and further columns."""
        if photo_filter or not self._uses_graphs:
            condition, values = records.filter_condition(self._connection, photo_filter or PhotoFilter())
            source = f"JOIN photos p ON p.id = photo WHERE {condition}" if photo_filter else ""
            # A sum cannot be looked up in a graph, so the server compares every row.
            distance, order = f"({column} <#> ?) + 0", "distance, photo"
        else:
            ef_search = str(min(max(2 * count, _MIN_EF_SEARCH), _MAX_EF_SEARCH))
            self._connection.execute("SELECT set_config('hnsw.ef_search', ?, false)", (ef_search,))
            source, values, distance, order = "", [], f"{column} <#> ?", "distance"
        query = (
            f"SELECT {distance} AS distance, photo{columns} FROM {table} {source} "  # noqa: S608
            f"ORDER BY {order} LIMIT {int(count)}"
        )
        return self._connection.execute(query, [vector, *values]).fetchall()


def read_database_entries(path: str) -> dict[str, str]:
    address = parse_address(path)
    with connected(address) as connection:
        return _read_entries(connection, address)


@contextmanager
def open_for_copying(path: str) -> Iterator[tuple[PostgresConnection, IndexInfo, DatabaseAddress]]:
    """Connect to an existing index to read all of it."""
    address = parse_address(path)
    with connected(address) as connection:
        yield connection, _read_info(connection, address), address


@contextmanager
def open_postgres_writer(path: str, model: ModelInfo, rebuild: bool = False) -> Iterator[PostgresWriter]:
    """Open an index for the vectors of a model, creating it if there is none."""
    address = parse_address(path)
    with connected(address) as connection:
        _add_pgvector(connection, address)
        info = _open_tables(connection, address, model, rebuild)
        with connected(address) as second:
            yield PostgresWriter(address, info, WritingConnection(connection.raw, second))


class WritingConnection(PostgresConnection):
    """A connection with long transactions, and a second one for what other processes must see at once."""

    def __init__(self, raw: RawConnection, second: PostgresConnection) -> None:
        super().__init__(raw)
        self.second = second
        self._folders: dict[bytes, int] = {}

    def folder_number(self, path: bytes) -> int:
        # A new folder is committed at once, so that no other process waits for the end of this transaction.
        if path not in self._folders:
            self._folders[path] = self.second.folder_number(path)
        return self._folders[path]


class PostgresWriter(IndexWriter[WritingConnection]):
    """One of several processes that write an index.

    Contents are claimed by advisory locks of the second connection; the server releases them if this process dies.
    """

    is_shared = True
    database_error = psycopg.Error

    def __init__(self, address: DatabaseAddress, info: IndexInfo, connection: WritingConnection) -> None:
        super().__init__(connection)
        self.address, self.info = address, info
        self._settled: list[int] = []

    def begin(self) -> None:
        super().begin()
        (uid,) = self.connection.execute("SELECT value FROM about WHERE key = 'uid'").fetchone() or ("",)
        if uid != self.info.uid:
            raise DeixisError(f"{self.address.name}: another process has rebuilt it; run again")

    def commit(self) -> None:
        super().commit()
        settled, self._settled = self._settled, []
        if settled:
            self.connection.second.execute("SELECT pg_advisory_unlock(key) FROM unnest(?::bigint[]) key", (settled,))

    def can_commit(self, error: BaseException) -> bool:
        is_intact = self.connection.raw.info.transaction_status == TransactionStatus.INTRANS
        return is_intact and super().can_commit(error)

    def claim(self, sha256: bytes) -> bool:
        row = self.connection.second.execute("SELECT pg_try_advisory_lock(?)", (self._lock_key(sha256),)).fetchone()
        return row == (True,)

    def settle(self, sha256: bytes) -> None:
        self._settled.append(self._lock_key(sha256))

    def finish(self) -> None:
        self.connection.execute("ANALYZE photos, vectors, regions")

    def _lock_key(self, sha256: bytes) -> int:
        digest = hashlib.blake2b(self.info.uid.encode() + sha256, digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)


def _open_tables(
    connection: PostgresConnection, address: DatabaseAddress, model: ModelInfo, rebuild: bool
) -> IndexInfo:
    """Create or replace the tables of an index in one transaction, and return its description."""
    with connection.raw.transaction():
        # Of two processes that create the same index, the second waits and finds it complete.
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", (address.schema,))
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = ?", (address.schema,))
        existing = {name for (name,) in rows}
        if existing and rebuild:
            _drop_tables(connection, address, existing)
        if not existing or rebuild:
            _create_tables(connection, address, model)
        info = _read_info(connection, address)
        info.check_model(model.fingerprint, address.name)
        return info


def _add_pgvector(connection: PostgresConnection, address: DatabaseAddress) -> None:
    """Create the extension in a database that does not have it."""
    if _set_up(address, connection.raw):
        return
    try:
        connection.execute("SET search_path TO DEFAULT")
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (errors.UniqueViolation, errors.DuplicateObject):
        pass  # another process has just created it
    except (errors.FeatureNotSupported, errors.UndefinedFile, errors.InsufficientPrivilege):
        raise DeixisError(f"{address.name}: {_NO_PGVECTOR}") from None
    _set_up(address, connection.raw)


def _drop_tables(connection: PostgresConnection, address: DatabaseAddress, existing: set[str]) -> None:
    if "about" not in existing or _read_entries(connection, address).get("format") != FORMAT:
        raise DeixisError(
            f"{address.name}: its tables are not replaced, because deixis did not create them; use a separate schema, "
            "such as ?schema=photos"
        )
    tables = sql.SQL(", ").join(sql.Identifier(address.schema, table) for table in _TABLES)
    connection.raw.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(tables))


def _create_tables(connection: PostgresConnection, address: DatabaseAddress, model: ModelInfo) -> None:
    raw, schema = connection.raw, sql.Identifier(address.schema)
    if connection.execute("SELECT to_regnamespace(?)", (address.schema,)).fetchone() == (None,):
        raw.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
    dimensions = {"dimension": sql.Literal(model.dimension), "region_dimension": sql.Literal(model.region_dimension)}
    raw.execute(sql.SQL(_SCHEMA).format(**dimensions))
    # Vectors beside their rows: reading those stored elsewhere takes one lookup each.
    if 4 * model.dimension <= _INLINE_BYTES:
        raw.execute("ALTER TABLE vectors ALTER whole SET STORAGE PLAIN")
    if 2 * model.region_dimension <= _INLINE_BYTES:
        raw.execute("ALTER TABLE regions ALTER vector SET STORAGE PLAIN")
    for entry in IndexInfo.new_entries(model).items():
        connection.execute("INSERT INTO about VALUES (?, ?)", entry)


def set_approximate(path: str, approximate: bool, *, regions: bool = True) -> None:
    """Search an index by graphs (HNSW), which are built now, or exactly, without them.

    Photos added later join the graphs. Searches with filters are exact in any case. The graph of `regions` takes most
    of the time and space.
    """
    address = parse_address(path)
    with connected(address) as connection, connection.raw.transaction():
        info = _read_info(connection, address)
        if approximate and max(info.dimension, info.region_dimension) > _MAX_GRAPH_DIMENSION:
            raise DeixisError(
                f"{address.name}: its vectors have more than {_MAX_GRAPH_DIMENSION:,} numbers, too many for a graph"
            )
        for graph, definition in _GRAPHS.items():
            if not approximate:
                connection.execute(f"DROP INDEX IF EXISTS {graph}")
            elif regions or graph != _REGION_GRAPH:
                connection.execute(f"CREATE INDEX IF NOT EXISTS {graph} ON {definition}")
        write_entry(connection, _SEARCH_KEY, _APPROXIMATE if approximate else _EXACT)
