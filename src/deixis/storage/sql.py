"""SQL databases, for the photo index and the annotation workbench: addresses, SQLite files and error messages.

The index speaks to its drivers directly and the workbench through SQLAlchemy; both open SQLite with the same pragmas,
hide passwords in the same way and report errors in the same words.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from deixis.errors import hide_passwords

_SCHEMES = ("postgresql://", "postgres://")
_POSTGRES = re.compile(r"(?P<scheme>postgres(?:ql)?(?:\+\w+)?)://(?P<rest>.*)", re.DOTALL)
_PASSWORD_OPTION = re.compile(r"(?i)([?&][a-z]*password=)[^&]*")
_INVALID_PORT = re.compile(r"^([^\[:/?#]*):(?!\d+([/?#,]|$)).*")

SQLITE_PRAGMAS = ("journal_mode = WAL", "synchronous = FULL")
"""For writers: readers never wait, and a committed transaction survives a power failure."""

BEGIN_WRITE = "BEGIN IMMEDIATE"
"""Takes the write lock at once: a transaction that starts by reading could be refused the lock later."""

_PRIMARY_CODE = 0xFF
"""The bits of an extended SQLite error code that hold the primary code."""

_NOT_WRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)

_POSTGRES_REASONS = {
    "42501": "no permission for this; ask the administrator of the database",
    "25006": "the database is read-only",
    "53100": "the server's disk is full",
    "40P01": "another process wrote the same rows; run again",
    "40001": "another process wrote the same rows; run again",
    "42P01": "another process has removed the tables; run again",
    "3F000": "another process has removed the tables; run again",
}
"""By SQLSTATE."""


def is_postgres(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is the address of a PostgreSQL database."""
    return os.fspath(path).startswith(_SCHEMES)


def hide_password(path: str | os.PathLike[str]) -> str:
    """Return a path or an address without anything that could be part of a password."""
    text = os.fspath(path)
    address = _POSTGRES.fullmatch(text)
    if address is None:
        return hide_passwords(text)  # settings of a connection that were given as a folder
    # Up to the last @: users type passwords that contain one without escaping it.
    credentials, at, rest = address["rest"].rpartition("@")
    user = re.split(r"[:/?#]", credentials, maxsplit=1)[0]
    # An invalid port may be a password, in an address without a host.
    rest = _PASSWORD_OPTION.sub(r"\1…", _INVALID_PORT.sub(r"\1", rest))
    return f"{address['scheme']}://{f'{user}{at}' if user else ''}{rest}"


def sqlite_uri(path: Path) -> str:
    """Return the URI of an SQLite file, without options, for ``sqlite3.connect(..., uri=True)``."""
    return f"file:{quote(os.fsencode(path.absolute()))}"


def is_immutable(path: Path) -> bool:
    """Return whether no process can be changing an SQLite file: its folder is not writable and it has no log.

    Such a file has to be opened with ``immutable=1``: otherwise SQLite creates files beside it even to read it.
    """
    return not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()


@contextmanager
def read_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Read one state of an SQLite database in the block, unaffected by commits of a writer."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def explain_sql_error(error: BaseException) -> str | None:
    """Say what a database error means and what to do about it; None where the database itself may be damaged."""
    if not isinstance(error, sqlite3.Error):
        return _postgres_reason(error)
    if isinstance(error, sqlite3.ProgrammingError):
        return "was closed; open it again"
    code = _primary_code(error)
    if code == sqlite3.SQLITE_FULL:
        return "the disk is full"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another process is writing it; try again when it has finished"
    if code in _NOT_WRITABLE:
        return f"cannot be opened ({error}); check that the file and its folder exist and are writable"
    if code == sqlite3.SQLITE_IOERR:
        return f"cannot be read or written ({error}); check whether the disk is full or failing"
    return None


def is_corruption(error: BaseException) -> bool:
    """Return whether SQLite found bytes in a file that it cannot have written."""
    return _primary_code(error) in _DAMAGED


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without what libpq puts before the server's own words."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[0] if lines else type(error).__name__
    return " ".join(line.rpartition("FATAL:")[2].split())


def _primary_code(error: Any) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & _PRIMARY_CODE


def _postgres_reason(error: Any) -> str:
    line = first_line(error)
    if "password authentication failed" in line or "no password supplied" in line:
        return f"the password is wrong or missing; set PGPASSWORD or use ~/.pgpass ({line})"
    if reason := _POSTGRES_REASONS.get(getattr(error, "sqlstate", None) or ""):
        return f"{reason} ({line})"
    if any(base.__name__ == "OperationalError" for base in type(error).__mro__):
        return f"the server cannot be reached; try again later ({line})"
    return line
