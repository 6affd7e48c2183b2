"""Who works in a project: invited by name, known to events by an opaque id only, and forgotten on request."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, delete, insert, select, update

from deixis.annotate.project import Project
from deixis.annotate.store import statements
from deixis.annotate.store.schema import remarks, workers
from deixis.errors import DeixisError

LONGEST_NAME = 100


class Role(StrEnum):
    """What somebody may do: work; review too; or everything."""

    WORKER = "worker"
    REVIEWER = "reviewer"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Worker:
    """Somebody who works in a project; `name` is None once forgotten."""

    id: str
    name: str | None
    role: Role
    vouched: bool
    history_items: int
    history_accuracy: float
    forgotten: bool

    @property
    def reviews(self) -> bool:
        """Whether they may decide on their own."""
        return self.role in (Role.REVIEWER, Role.OWNER)


def invite(
    project: Project,
    name: str,
    *,
    role: Role = Role.WORKER,
    vouched: bool = False,
    history_items: int = 0,
    history_accuracy: float = 0.0,
) -> tuple[str, str]:
    """Invite somebody.

    Parameters
    ----------
    project
        To which.
    name
        How they are called in it; no two have the same name.
    role
        What they may do.
    vouched
        The owner knows them, so that no history is asked for.
    history_items, history_accuracy
        What they have done elsewhere.

    Returns
    -------
    tuple of str
        Their id, and the token of their invitation, of which only a hash is kept.
    """
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise DeixisError(f"{name[:LONGEST_NAME]!r} cannot be a name; give up to {LONGEST_NAME} printable characters")
    worker, token = f"w{secrets.token_hex(6)}", secrets.token_urlsafe(24)
    with project.database.writing() as connection:
        if connection.scalar(select(workers.c.id).where(workers.c.name == name)):
            raise DeixisError(f"{name}: there is somebody of that name already")
        connection.execute(
            insert(workers),
            {
                "id": worker,
                "name": name,
                "invitation": _hash(token),
                "role": role.value,
                "invited_at": project.clock(),
                "vouched": vouched,
                "history_items": history_items,
                "history_accuracy": history_accuracy,
                "forgotten": False,
            },
        )
    return worker, token


def invited(project: Project, token: str) -> Worker:
    """Who holds an invitation."""
    with project.database.reading() as connection:
        found = connection.scalar(select(workers.c.id).where(workers.c.invitation == _hash(token)))
        if found is None:
            raise DeixisError("this invitation is not known; ask the project's owner for a new one")
        return read_worker(connection, found)


def forget(project: Project, name: str) -> Worker:
    """Remove a person's name, invitation, password and remarks; what they judged stays, under an id without meaning."""
    with project.database.writing() as connection:
        worker = find_worker(connection, name)
        connection.execute(delete(remarks).where(remarks.c.worker == worker.id))
        connection.execute(
            update(workers)
            .where(workers.c.id == worker.id)
            .values(name=None, invitation=None, password=None, forgotten=True)
        )
    return worker


def find_worker(connection: Connection, name_or_id: str) -> Worker:
    """Somebody by name or id."""
    rows = select(workers.c.id).where((workers.c.name == name_or_id) | (workers.c.id == name_or_id))
    found = connection.scalar(rows)
    if found is None:
        raise DeixisError(f"{name_or_id}: nobody of that name is in this project")
    return read_worker(connection, found)


def read_worker(connection: Connection, worker: str, *, lock: bool = False) -> Worker:
    """Somebody by id; `lock` makes other transactions that want to do the same wait."""
    statement = statements.WORKER_LOCKED if lock else statements.WORKER
    row = connection.execute(statement, {"its_worker": worker}).first()
    if row is None:
        raise DeixisError(f"there is no worker {worker!r} in this project")
    return Worker(row.id, row.name, Role(row.role), row.vouched, row.history_items, row.history_accuracy, row.forgotten)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
