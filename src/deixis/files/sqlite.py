"""What SQLite's errors mean to people."""

from __future__ import annotations

import sqlite3

_KIND = 0xFF
"""SQLite tells more of an error in the bits above these."""

_NOT_WRITABLE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN)


def reason_of(error: BaseException) -> str | None:
    """What is wrong and what to do about it, in words; None where the file itself may be damaged.

    Examples
    --------
    >>> try:
    ...     sqlite3.connect("file:/nowhere/at-all?mode=ro", uri=True)
    ... except sqlite3.Error as error:
    ...     reason_of(error)
    'cannot be used (unable to open database file); are the file and its folder there, and writable?'
    """
    if isinstance(error, sqlite3.ProgrammingError):
        return "was closed; open it again"
    kind = getattr(error, "sqlite_errorcode", 0) & _KIND
    if kind == sqlite3.SQLITE_FULL:
        return "the disk is full"
    if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another process is writing it; wait until it is done"
    if kind in _NOT_WRITABLE:
        return f"cannot be used ({error}); are the file and its folder there, and writable?"
    if kind == sqlite3.SQLITE_IOERR:
        return f"cannot be used ({error}); is the disk full, or failing?"
    return None


def is_damage(error: BaseException) -> bool:
    """Whether SQLite found bytes in a file that it cannot have written."""
    kinds = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
    return getattr(error, "sqlite_errorcode", 0) & _KIND in kinds
