"""What PostgreSQL complains about, in one line for people, without a password."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from deixis.errors import DeixisError, UnavailableError
from deixis.index.postgres.address import Address

NO_VECTORS = (
    "the database has no vector extension; install pgvector 0.8 or newer on the server, "
    "and let its administrator run: CREATE EXTENSION vector"
)


@contextmanager
def plainly(address: Address) -> Iterator[None]:
    """Turn what the database says into one line."""
    try:
        yield
    except psycopg.Error as error:
        kind = DeixisError if isinstance(error, psycopg.DataError) else UnavailableError  # the asker's, or the server's
        # The line says it all; what it came from might say too much.
        raise kind(f"{address.name}: {_reason(error)}") from None


def not_an_index(address: Address) -> DeixisError:
    """There is nothing to search."""
    return DeixisError(
        f"{address.name}: not an index of photos; make one with: deixis index PHOTOS --into {address.name}"
    )


def _reason(error: psycopg.Error) -> str:
    said = _line(error)
    if "password authentication failed" in said or "no password supplied" in said:
        return f"the password is wrong or missing; PGPASSWORD or ~/.pgpass may hold it ({said})"
    for kinds, reason in _REASONS:
        if isinstance(error, kinds):
            return f"{reason} ({said})"
    return said


_REASONS: tuple[tuple[tuple[type[psycopg.Error], ...], str], ...] = (
    ((errors.InsufficientPrivilege,), "no rights to do that; ask whoever runs the database"),
    ((errors.ReadOnlySqlTransaction,), "the database can only be read"),
    ((errors.DiskFull,), "the server's disk is full"),
    ((errors.DeadlockDetected, errors.SerializationFailure), "another process wrote the same photos; run again"),
    ((errors.UndefinedTable, errors.InvalidSchemaName), "another process has taken the index away; run again"),
    ((psycopg.OperationalError,), "the server is gone or cannot be reached; try again when it is there"),
)


def _line(error: psycopg.Error) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0] if lines else type(error).__name__
    # After libpq's own words for where it was going comes what happened.
    return " ".join(said.rpartition("FATAL:")[2].split())
