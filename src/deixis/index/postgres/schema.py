"""The tables of an index in PostgreSQL: made, made anew, and read to know whose they are."""

from __future__ import annotations

from typing import LiteralString

from psycopg import errors, sql

from deixis.errors import DeixisError
from deixis.index.about import FORMAT, About, Model, first_words, refuse_other_model, understood
from deixis.index.postgres.address import Address
from deixis.index.postgres.connection import PostgresConnection, connect
from deixis.index.postgres.troubles import NO_VECTORS, not_an_index

_TABLES: tuple[LiteralString, ...] = ("about", "thumbnails", "regions", "vectors", "photos", "skipped", "folders")

# As in SQLite, but for vectors, and for `removed`: the server searches what is there, so nobody remembers numbers.
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

_INLINE = 8000
"""Bytes of a vector that still fit into a page with all else of their row."""


def read_said(connection: PostgresConnection, address: Address) -> dict[str, str]:
    """All that an index says of itself."""
    try:
        return dict(connection.execute("SELECT key, value FROM about").fetchall())
    except (errors.UndefinedTable, errors.UndefinedColumn):
        raise not_an_index(address) from None


def about_of(said: dict[str, str], address: Address) -> About:
    """What of it every index says."""
    return understood(said, address.name, address.name)


def open_tables(address: Address, model: Model, rebuild: bool) -> tuple[PostgresConnection, About]:
    """A connection to the tables of an index, ready for what a model sees; they are made if they are not there.

    Those of another model are refused, unless they are to be made anew.
    """
    connection = _with_vectors(address)
    try:
        # Two that begin the same index at once: the second one waits, and finds it made. Tables appear, or are
        # replaced, in one step.
        with connection.raw.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", (address.schema,))
            held = _tables_there(connection, address)
            if held and rebuild:
                _drop(connection, address, held)
            if not held or rebuild:
                _make(connection, address, model)
            about = about_of(read_said(connection, address), address)
            refuse_other_model(about, model.fingerprint, address.name)
    except BaseException:
        connection.raw.close()
        raise
    return connection, about


def _with_vectors(address: Address) -> PostgresConnection:
    connection = connect(address)
    if connection.knows_vectors:
        return connection
    try:
        connection.execute("SET search_path TO DEFAULT")
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except (errors.UniqueViolation, errors.DuplicateObject):
        pass  # another process was quicker
    except (errors.FeatureNotSupported, errors.UndefinedFile, errors.InsufficientPrivilege):
        raise DeixisError(f"{address.name}: {NO_VECTORS}") from None
    finally:
        connection.raw.close()
    return connect(address)


def _tables_there(connection: PostgresConnection, address: Address) -> set[str]:
    """The tables of the schema by name."""
    rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = ?", (address.schema,))
    return {name for (name,) in rows}


def _drop(connection: PostgresConnection, address: Address, held: set[str]) -> None:
    """Take an index away; nobody else's tables are touched."""
    if "about" not in held or read_said(connection, address).get("format") != FORMAT:
        raise DeixisError(
            f"{address.name}: its tables were not made by deixis, so they are not replaced; give a schema of its own, "
            "such as ?schema=photos"
        )
    tables = sql.SQL(", ").join(sql.Identifier(address.schema, table) for table in _TABLES)
    connection.raw.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(tables))


def _make(connection: PostgresConnection, address: Address, model: Model) -> None:
    raw, schema = connection.raw, sql.Identifier(address.schema)
    if connection.execute("SELECT to_regnamespace(?)", (address.schema,)).fetchone() == (None,):
        raw.execute(sql.SQL("CREATE SCHEMA {}").format(schema))
    dimensions = {"dimension": sql.Literal(model.dimension), "region_dimension": sql.Literal(model.region_dimension)}
    raw.execute(sql.SQL(_SCHEMA).format(**dimensions))
    # Each vector beside its row: what lies apart from it is fetched by one look into an index each.
    if 4 * model.dimension <= _INLINE:
        raw.execute("ALTER TABLE vectors ALTER whole SET STORAGE PLAIN")
    if 2 * model.region_dimension <= _INLINE:
        raw.execute("ALTER TABLE regions ALTER vector SET STORAGE PLAIN")
    about = first_words(model.fingerprint, model.dimension, model.region_dimension)
    for each in about.items():
        connection.execute("INSERT INTO about VALUES (?, ?)", each)
