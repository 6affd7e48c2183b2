"""Checksums of rows in SQLite files, which notice only damage to their structure.

Triggers keep a CRC-32 in each row of the tables that are protected, and the number of rows and the sum of these in the
table `totals`. So a changed row, a lost one and an invented one are all noticed. The function that the triggers call
has to be registered on every connection that writes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

from deixis.storage.checksums import crc32_of

TOTALS = "totals"
_COLUMN = "row_crc"
_FUNCTION = "deixis_crc"
_CHECK = "deixis_checked"
_ROWS_AT_ONCE = 1000
_EVENTS = ("insert", "update", "delete")


def register_checks(connection: sqlite3.Connection) -> None:
    """Register the functions that triggers and views call."""
    connection.create_function(_FUNCTION, -1, _crc, deterministic=True)
    connection.create_function(_CHECK, -1, _check, deterministic=True)


def _crc(*values: object) -> int:
    return crc32_of(repr(values).encode("utf-8", "surrogatepass"))


def _check(stored: object, *values: object) -> int:
    if _crc(*values) != stored:
        raise ValueError("a row does not match its checksum")
    return 1


def protect_tables(connection: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Add checksums to tables, and compute those of the rows that are there.

    Runs in a transaction of the caller; to be called again after columns were added.
    """
    register_checks(connection)
    connection.execute(f"DROP TABLE IF EXISTS {TOTALS}")
    connection.execute(f"CREATE TABLE {TOTALS} (name TEXT PRIMARY KEY, number INTEGER, crc INTEGER, columns TEXT)")
    for table in tables:
        there = [name for _, name, *_ in connection.execute(f"PRAGMA main.table_info({table})")]
        columns = [f'"{name}"' for name in there if name != _COLUMN]
        if _COLUMN not in there:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {_COLUMN} INTEGER")
        for event in _EVENTS:
            connection.execute(f"DROP TRIGGER IF EXISTS {table}_{event}_checksum")
        connection.execute(f"UPDATE {table} SET {_COLUMN} = {_FUNCTION}({', '.join(columns)})")  # noqa: S608
        total = f"INSERT INTO {TOTALS} SELECT ?, count(*), coalesce(sum({_COLUMN}), 0), ? FROM {table}"  # noqa: S608
        connection.execute(total, (table, ", ".join(columns)))
        for statement in _triggers(table, columns, _key(connection, table)):
            connection.execute(statement)


def is_protected(connection: sqlite3.Connection) -> bool:
    """Return whether the tables of a database have checksums; an older version may have written it."""
    found = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (TOTALS,)).fetchone()
    return bool(found[0])


def check_tables(connection: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Read all rows of some tables, and raise `sqlite3.DatabaseError` if they are not those that were written."""
    for table in tables:
        for problem in find_damaged_rows(connection, table):
            raise sqlite3.DatabaseError(problem)


def find_damaged_rows(connection: sqlite3.Connection, table: str) -> Iterator[str]:
    """Yield one line for each row of a table that is damaged, and one if rows are missing."""
    rows = connection.execute(f"SELECT {_COLUMN}, {_columns(connection, table)} FROM main.{table} NOT INDEXED")  # noqa: S608
    count = total = 0
    while some := rows.fetchmany(_ROWS_AT_ONCE):
        for row in some:
            if _crc(*row[1:]) != row[0]:
                yield f"a row of the table {table} does not match its checksum: {str(row[1])[:40]!r}"
        count += len(some)
        total += sum(row[0] for row in some if isinstance(row[0], int))
    stored = connection.execute(f"SELECT number, crc FROM {TOTALS} WHERE name = ?", (table,)).fetchone()  # noqa: S608
    if stored != (count, total):
        yield f"rows of the table {table} are missing, or have been added"


def checked_views(connection: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Let statements of a connection that only reads see each row of the tables only after a check of its checksum."""
    register_checks(connection)
    for table in tables:
        columns = _columns(connection, table)
        connection.execute(
            f"CREATE TEMP VIEW {table} AS SELECT {columns} FROM main.{table} "  # noqa: S608
            f"WHERE {_CHECK}({_COLUMN}, {columns})"
        )


def _columns(connection: sqlite3.Connection, table: str) -> str:
    found = connection.execute(f"SELECT columns FROM {TOTALS} WHERE name = ?", (table,)).fetchone()  # noqa: S608
    if found is None:
        raise sqlite3.DatabaseError(f"the checksums of the table {table} are missing")
    return str(found[0])


def _key(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the columns that identify a row: those of the primary key in a table without row numbers."""
    (created,) = connection.execute("SELECT sql FROM main.sqlite_master WHERE name = ?", (table,)).fetchone()
    if "WITHOUT ROWID" not in created.upper():
        return ["rowid"]
    return [f'"{name}"' for _, name, *_, number in connection.execute(f"PRAGMA main.table_info({table})") if number]


def _triggers(table: str, columns: list[str], key: list[str]) -> Iterator[str]:
    this = " AND ".join(f"{name} = NEW.{name}" for name in key)
    compute = f"UPDATE {table} SET {_COLUMN} = {_FUNCTION}({', '.join(columns)}) WHERE {this};"  # noqa: S608
    new = f"(SELECT {_COLUMN} FROM {table} WHERE {this})"  # noqa: S608
    total = f"UPDATE {TOTALS} SET number = number {{}}, crc = crc {{}} WHERE name = '{table}';"  # noqa: S608
    events = {
        "INSERT": compute + total.format("+ 1", f"+ {new}"),
        f"UPDATE OF {', '.join(columns)}": compute + total.format("", f"- OLD.{_COLUMN} + {new}"),
        "DELETE": total.format("- 1", f"- OLD.{_COLUMN}"),
    }
    for event, statements in events.items():
        name = f"{table}_{event.partition(' ')[0].lower()}_checksum"
        yield f"CREATE TRIGGER {name} AFTER {event} ON {table} BEGIN {statements} END"
