"""What an SQLite database is expected to hold, in a small file beside it that is replaced after each commit.

After a kill, SQLite drops everything that follows damage in the write-ahead log, without a word. So the database counts
its commits, and the record has their number and those of the rows. A database with fewer commits than its record has
lost some; one with more was killed between a commit and the record. A missing or empty record, and one of another
database, say nothing. The record is not synced: what was committed survives a power failure, and the record may lag.
"""

from __future__ import annotations

import os
import random
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

from deixis.errors import DeixisError
from deixis.storage.checksums import TOTALS, seal, unseal
from deixis.storage.files import read_regular
from deixis.storage.sql import CHECK_DISK

RECORD_ENDING = "-commits"
_COMMITS = "commits"
_VERSION = 2


def start_counting(connection: sqlite3.Connection) -> None:
    """Let a database with protected tables count its commits, unless it does; its file has the counter at once."""
    if _counter(connection) is None:
        row = (_COMMITS, 0, random.SystemRandom().getrandbits(32), "")
        connection.execute(f"INSERT OR IGNORE INTO {TOTALS} VALUES (?, ?, ?, ?)", row)  # noqa: S608
        if not connection.in_transaction:
            connection.execute("PRAGMA wal_checkpoint").fetchall()


def count_commit(connection: sqlite3.Connection) -> dict[str, Any] | None:
    """Count a commit in its transaction, and return the record to write after it; None if nobody counts."""
    connection.execute(f"UPDATE {TOTALS} SET number = number + 1 WHERE name = ?", (_COMMITS,))  # noqa: S608
    return _expected(connection)


def write_record(database: Path, expected: dict[str, Any] | None) -> None:
    """Replace the record of a database. A record that cannot be written lags."""
    if expected is None:
        return
    path = _record_path(database)
    partial = path.with_name(f".{database.stem}.partial-{os.getpid()}{RECORD_ENDING}")
    with suppress(OSError):
        try:
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(seal(expected))
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)


def accept_commits(database: Path, connection: sqlite3.Connection) -> None:
    """Expect what a database holds now."""
    write_record(database, _expected(connection))


def find_lost_commits(database: Path, connection: sqlite3.Connection) -> str | None:
    """Return what a database has lost, or what is wrong with its record; outside of a transaction."""
    path = _record_path(database)
    try:
        content = read_regular(path)  # before the database, which others may be writing
        expected = unseal(content) if content else None
        if expected is not None and not isinstance(expected["commits"], int):
            raise ValueError("no number of commits")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DeixisError(f"{path}: cannot be read ({error.strerror or error}); {CHECK_DISK}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return f"{path}: damaged ({' '.join(str(error).split())})"
    found = _expected(connection)
    if expected is None or found is None or expected["database"] != found["database"]:
        return None
    if found["commits"] >= expected["commits"]:
        return None
    missing = expected["commits"] - found["commits"]
    rows = [
        f"{found['rows'].get(table, 0)} instead of {count} {table}"
        for table, count in expected["rows"].items()
        if found["rows"].get(table) != count
    ]
    return f"{database}: damaged (the last {missing} commits are lost{''.join(f', {each}' for each in rows)})"


def _record_path(database: Path) -> Path:
    return database.with_name(database.name + RECORD_ENDING)


def _counter(connection: sqlite3.Connection) -> tuple[int, int] | None:
    query = f"SELECT number, crc FROM {TOTALS} WHERE name = ?"  # noqa: S608
    found: tuple[int, int] | None = connection.execute(query, (_COMMITS,)).fetchone()
    return found


def _expected(connection: sqlite3.Connection) -> dict[str, Any] | None:
    rows = {name: (number, crc) for name, number, crc in connection.execute(f"SELECT name, number, crc FROM {TOTALS}")}  # noqa: S608
    if _COMMITS not in rows:
        return None
    commits, database = rows.pop(_COMMITS)
    counts = {name: number for name, (number, _) in rows.items()}
    return {"version": _VERSION, "database": database, "commits": commits, "rows": counts}
