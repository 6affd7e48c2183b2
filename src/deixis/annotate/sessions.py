"""Who is logged in: a browser shows a token, and the project keeps its hash, so that a stolen copy opens nothing."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from deixis.annotate.people import Worker, read_worker
from deixis.annotate.project import Project
from deixis.annotate.store.schema import sessions

LASTS_S = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who is logged in; `assignment` names what an outside workforce sent them for."""

    worker: Worker
    until: float
    assignment: str | None = None


def begin_session(project: Project, worker: str, *, lasts_s: float = LASTS_S, assignment: str | None = None) -> str:
    """Log somebody in; the token, which is told nobody else and kept nowhere."""
    token = secrets.token_urlsafe(32)
    now = project.clock()
    row = {"hash": _hash(token), "worker": worker, "until": now + lasts_s, "assignment": assignment}
    with project.database.writing() as connection:
        connection.execute(delete(sessions).where(sessions.c.until <= now))
        connection.execute(insert(sessions), row)
    return token


def find_session(project: Project, token: str) -> Session | None:
    """Whose token this is; None where it is nobody's, or not any more."""
    with project.database.reading() as connection:
        row = connection.execute(select(sessions).where(sessions.c.hash == _hash(token))).first()
        if row is None or row.until <= project.clock():
            return None
        worker = read_worker(connection, row.worker)
        return None if worker.forgotten else Session(worker, row.until, row.assignment)


def end_session(project: Project, token: str) -> None:
    """Log out."""
    with project.database.writing() as connection:
        connection.execute(delete(sessions).where(sessions.c.hash == _hash(token)))


def csrf_of(token: str) -> str:
    """What only a page of ours can know of a session: shown in a header, which other sites cannot send.

    Examples
    --------
    >>> csrf_of("a") == csrf_of("a"), csrf_of("a") == csrf_of("b")
    (True, False)
    """
    return hashlib.sha256(f"csrf {token}".encode(errors="replace")).hexdigest()[:32]


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
