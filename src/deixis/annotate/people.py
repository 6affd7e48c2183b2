"""Who works in a project: invited by name, known to events by an opaque id only, and forgotten on request."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from deixis.annotate.project import Project
from deixis.annotate.store import statements
from deixis.annotate.store.schema import remarks, sessions, workers
from deixis.errors import DeixisError

LONGEST_NAME = 100
MODEL = "model"
"""The role of what only proposes: nobody can have it, and it is in no list of people."""

_UNKNOWN = "this invitation is not known, or was used; ask the project's owner for a new one"


class NameTakenError(DeixisError):
    """A name that somebody has already."""


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
            raise NameTakenError(f"{name}: there is somebody of that name already")
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
            raise DeixisError(_UNKNOWN)
        return read_worker(connection, found)


def accept(project: Project, token: str, password: str) -> Worker:
    """Take an invitation, which is used up with it.

    Parameters
    ----------
    project
        To which they were invited.
    token
        That of the invitation.
    password
        The hash of the one they chose.
    """
    mine = workers.c.invitation == _hash(token)
    with project.database.writing() as connection:
        taken = connection.execute(
            update(workers)
            .where(mine)
            .values(invitation=None, password=password, joined_at=project.clock())
            .returning(workers.c.id)
        ).scalar()
        if taken is None:
            raise DeixisError(_UNKNOWN)
        return read_worker(connection, taken)


def invite_again(project: Project, worker: str) -> str:
    """A new invitation for somebody, whose password and sessions end; its token."""
    token = secrets.token_urlsafe(24)
    with project.database.writing() as connection:
        who = read_worker(connection, worker)
        if who.forgotten:
            raise DeixisError(f"{worker}: was forgotten; invite them under a name")
        connection.execute(delete(sessions).where(sessions.c.worker == worker))
        values = {"invitation": _hash(token), "password": None}
        connection.execute(update(workers).where(workers.c.id == worker).values(**values))
    return token


def change(project: Project, worker: str, *, role: Role | None = None, vouched: bool | None = None) -> Worker:
    """Give somebody another role, or vouch for them."""
    values = ({"role": role.value} if role else {}) | ({"vouched": vouched} if vouched is not None else {})
    with project.database.writing() as connection:
        read_worker(connection, worker)
        if values:
            connection.execute(update(workers).where(workers.c.id == worker).values(**values))
        return read_worker(connection, worker)


def password_of(project: Project, name: str) -> tuple[str, str] | None:
    """The id of somebody, by name, and the hash of their password; None where there is none."""
    with project.database.reading() as connection:
        row = connection.execute(select(workers.c.id, workers.c.password).where(workers.c.name == name.strip())).first()
    return (row.id, row.password) if row is not None and row.password else None


def set_password(project: Project, worker: str, password: str) -> None:
    """Keep the hash of a new password; all sessions end."""
    with project.database.writing() as connection:
        connection.execute(delete(sessions).where(sessions.c.worker == worker))
        connection.execute(update(workers).where(workers.c.id == worker).values(password=password))


def forget(project: Project, name: str) -> Worker:
    """Remove a person's name, invitation, password and remarks; what they judged stays, under an id without meaning."""
    with project.database.writing() as connection:
        worker = find_worker(connection, name)
        connection.execute(delete(remarks).where(remarks.c.worker == worker.id))
        connection.execute(delete(sessions).where(sessions.c.worker == worker.id))
        connection.execute(
            update(workers)
            .where(workers.c.id == worker.id)
            .values(name=None, invitation=None, password=None, forgotten=True)
        )
    return worker


def find_worker(connection: Connection, name_or_id: str) -> Worker:
    """Somebody by name or id."""
    rows = select(workers.c.id).where((workers.c.name == name_or_id) | (workers.c.id == name_or_id))
    found = connection.scalar(rows.where(workers.c.role != MODEL))
    if found is None:
        raise DeixisError(f"{name_or_id}: nobody of that name is in this project")
    return read_worker(connection, found)


def read_worker(connection: Connection, worker: str) -> Worker:
    """Somebody by id."""
    row = connection.execute(statements.WORKER, {"its_worker": worker}).first()
    if row is None:
        raise DeixisError(f"there is no worker {worker!r} in this project")
    return _worker(row)


def worker_and_levels(connection: Connection, worker: str) -> tuple[Worker, dict[str, str]]:
    """Somebody by id with the standings that are written down; other transactions that want the same wait."""
    rows = connection.execute(statements.WORKER_AND_LEVELS, {"its_worker": worker}).all()
    if not rows:
        raise DeixisError(f"there is no worker {worker!r} in this project")
    return _worker(rows[0]), {row.task: row.level for row in rows if row.task is not None}


def _worker(row: Any) -> Worker:
    return Worker(row.id, row.name, Role(row.role), row.vouched, row.history_items, row.history_accuracy, row.forgotten)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
