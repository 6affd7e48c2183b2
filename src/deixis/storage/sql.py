"""SQL databases, for the photo index and the annotation workbench: addresses, SQLite files and error messages.

The index speaks to its drivers directly and the workbench through SQLAlchemy; both open SQLite with the same pragmas,
hide passwords in the same way and report errors in the same words.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from deixis.errors import hide_passwords
from deixis.storage.files import open_regular

_SCHEMES = ("postgresql://", "postgres://")
_POSTGRES = re.compile(r"(?P<scheme>postgres(?:ql)?(?:\+\w+)?)://(?P<rest>.*)", re.DOTALL)
_PASSWORD_OPTION = re.compile(r"(?i)([?&][a-z]*password=)[^&]*")
_INVALID_PORT = re.compile(r"^([^\[:/?#]*):(?!\d+([/?#,]|$)).*")

SQLITE_PRAGMAS = ("journal_mode = WAL", "synchronous = FULL")
"""For writers: readers never wait, and a committed transaction survives a power failure."""

BEGIN_WRITE = "BEGIN IMMEDIATE"
"""Takes the write lock at once: a transaction that starts by reading could be refused the lock later."""

_READ_BYTES = 2**20

_PRIMARY_CODE = 0xFF
"""The bits of an extended SQLite error code that hold the primary code."""

_NOT_WRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)

_UNREAD = re.compile("is malformed|unable to get the page|failed to get page")
"""What SQLite says of a page that is damaged, and of one that the disk did not give."""

CHECK_DISK = "check whether the disk is full or failing"

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
        return f"cannot be read or written ({error}); {CHECK_DISK}"
    return None


def is_corruption(error: object) -> bool:
    """Return whether SQLite found bytes in a file that it cannot have written."""
    return _primary_code(error) in _DAMAGED


def find_corruption(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield one line for each thing that SQLite finds wrong with its file."""
    for (line,) in connection.execute("PRAGMA integrity_check"):
        if line != "ok":
            yield " ".join(line.split())


def explain_failed_read(problem: object, database: Path) -> str | None:
    """Say what to do about an SQLite file that seems to be damaged, if only reading it has failed; None if it is.

    SQLite reports a failed read as damage (SQLITE_IOERR_CORRUPTFS), so the file is read and checked again. `problem` is
    an error, or a line of ``PRAGMA integrity_check``.
    """
    if not (is_corruption(problem) or _UNREAD.search(str(problem))):
        return None
    try:
        for path in (database, database.with_name(f"{database.name}-wal")):
            with suppress(FileNotFoundError), open_regular(path) as file:
                while file.read(_READ_BYTES):
                    pass
        options = "mode=ro&immutable=1" if is_immutable(database) else "mode=ro"
        with closing(sqlite3.connect(f"{sqlite_uri(database)}?{options}", uri=True)) as connection:
            found = connection.execute("PRAGMA integrity_check(1)").fetchall()
    except OSError as error:
        return f"cannot be read ({error.strerror or error}); {CHECK_DISK}"
    except (sqlite3.Error, UnicodeDecodeError):
        return None
    return f"could not be read for a moment; {CHECK_DISK}, and try again" if found == [("ok",)] else None


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
