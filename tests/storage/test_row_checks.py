"""Checksums of rows: every change that SQLite itself does not notice is found."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from deixis.storage.row_checks import (
    check_tables,
    checked_views,
    find_damaged_rows,
    is_protected,
    protect_tables,
    register_checks,
)

TABLES = ("words", "pairs")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT, score REAL, code BLOB)")
        connection.execute("CREATE TABLE pairs (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
        connection.execute("INSERT INTO words (word) VALUES ('before')")
        assert not is_protected(connection)
        protect_tables(connection, TABLES)
        assert is_protected(connection)
        connection.executemany(
            "INSERT INTO words (word, score, code) VALUES (?, ?, ?)", [("dog", 1, b"\0"), ("cat", None, b"\xff")]
        )
        connection.execute("INSERT INTO pairs (key, value) VALUES ('a', 'b')")
        yield connection


def unnoticed(database: sqlite3.Connection, statement: str) -> None:
    """Change a table as damage would, without its triggers."""
    for table in TABLES:
        for event in ("insert", "update", "delete"):
            database.execute(f"DROP TRIGGER {table}_{event}_checksum")
    database.execute(statement)


def test_what_was_written_passes(database: sqlite3.Connection) -> None:
    database.execute("UPDATE words SET score = 2 WHERE word = 'dog'")
    database.execute(
        "INSERT INTO pairs (key, value) VALUES ('a', 'c') ON CONFLICT DO UPDATE SET value = excluded.value"
    )
    database.execute("DELETE FROM words WHERE word = 'cat'")
    check_tables(database, TABLES)


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE words SET word = 'dot' WHERE word = 'dog'",
        "UPDATE words SET word = 'x' WHERE word = 'before'",
        "UPDATE words SET id = 9 WHERE word = 'dog'",
        "UPDATE words SET score = 1.0000000000000002 WHERE word = 'dog'",
        "UPDATE words SET score = 0 WHERE word = 'cat'",
        "UPDATE words SET code = x'fe' WHERE word = 'cat'",
        "UPDATE words SET row_crc = row_crc + 1 WHERE word = 'cat'",
        "DELETE FROM words WHERE word = 'cat'",
        "INSERT INTO words (word) VALUES ('new')",
        "UPDATE pairs SET key = 'A'",
        "DELETE FROM pairs",
        "UPDATE totals SET number = number + 1",
        "UPDATE totals SET crc = crc + 1",
        "DELETE FROM totals",
    ],
)
def test_every_other_change_is_found(database: sqlite3.Connection, harm: str) -> None:
    unnoticed(database, harm)
    with pytest.raises(sqlite3.DatabaseError, match="checksum|missing"):
        check_tables(database, TABLES)


def test_reading_a_damaged_row_is_an_error_and_other_rows_can_be_read(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    unnoticed(database, "UPDATE words SET word = 'dot' WHERE word = 'dog'")
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as reader:
        checked_views(reader, TABLES)
        assert reader.execute("SELECT word, score FROM words WHERE id = 3").fetchall() == [("cat", None)]
        with pytest.raises(sqlite3.OperationalError):
            reader.execute("SELECT word FROM words WHERE id = 2").fetchall()
    assert len(list(find_damaged_rows(database, "words"))) == 1


def test_columns_can_be_added_later(database: sqlite3.Connection) -> None:
    database.execute("ALTER TABLE words ADD COLUMN more TEXT")
    check_tables(database, TABLES)
    protect_tables(database, TABLES)
    unnoticed(database, "UPDATE words SET more = 'x' WHERE word = 'dog'")
    with pytest.raises(sqlite3.DatabaseError, match="checksum"):
        check_tables(database, TABLES)


def test_a_writer_without_the_function_is_refused(database: sqlite3.Connection, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as other:
        with pytest.raises(sqlite3.OperationalError, match="deixis_crc"):
            other.execute("INSERT INTO words (word) VALUES ('new')")
        register_checks(other)
        other.execute("INSERT INTO words (word) VALUES ('new')")
