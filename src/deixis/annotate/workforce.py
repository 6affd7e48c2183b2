"""Assignments of an outside workforce: who was sent, for how many questions, and how many are answered."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select, update

from deixis.annotate.changing import RefusedError
from deixis.annotate.people import Role, read_worker
from deixis.annotate.project import Project
from deixis.annotate.store.schema import assignments, workers

OPEN, APPROVED = "open", "approved"
_PREFIX = "outside "


@dataclass(frozen=True, slots=True)
class Assignment:
    """What somebody from outside has taken on.

    Attributes
    ----------
    id, hit
        As the workforce names them.
    worker
        Who, as the project names them.
    items, done
        How many questions are asked for, and how many are answered.
    submit_to
        Where to send the form that hands it in.
    state
        Open, until the workforce was told that it is approved.
    """

    id: str
    hit: str
    worker: str
    items: int
    done: int
    submit_to: str
    state: str = OPEN

    @property
    def is_done(self) -> bool:
        """Whether it can be handed in."""
        return self.done >= self.items or self.state != OPEN


def begin_assignment(
    project: Project, assignment: str, hit: str, outside: str, items: int, submit_to: str
) -> Assignment:
    """Somebody from outside begins, or comes back to, an assignment.

    Whoever comes for the first time is added as a worker. The workforce has asked for their history, so the project
    vouches for them; tests and hidden questions are the same for all.

    Parameters
    ----------
    project
        Where.
    assignment, hit, outside
        The assignment, its HIT, and the worker, as the workforce names them.
    items
        How many questions are asked for.
    submit_to
        Where to send the form that hands it in.
    """
    with project.database.writing() as connection:
        worker = _worker(project, connection, outside)
        found = find_assignment(connection, assignment)
        if found is not None:
            if found.worker != worker or found.hit != hit:
                raise RefusedError("this assignment is somebody else's")
            return found
        row = {"id": assignment, "hit": hit, "worker": worker, "items": items, "done": 0}
        row |= {"submit_to": submit_to, "begun_at": project.clock(), "state": OPEN}
        connection.execute(insert(assignments), row)
        return Assignment(assignment, hit, worker, items, 0, submit_to)


def _worker(project: Project, connection: Connection, outside: str) -> str:
    name = f"{_PREFIX}{outside}"
    columns = (workers.c.id, workers.c.role, workers.c.password, workers.c.invitation)
    found = connection.execute(select(*columns).where(workers.c.name == name)).first()
    if found is not None:
        if found.role != Role.WORKER or found.password or found.invitation:  # was invited under such a name
            raise RefusedError("this name is somebody else's")
        return str(found.id)
    worker = f"w{secrets.token_hex(6)}"
    row = {"id": worker, "name": name, "role": Role.WORKER.value, "invited_at": project.clock(), "vouched": True}
    row |= {"joined_at": project.clock(), "history_items": 0, "history_accuracy": 0.0, "forgotten": False}
    connection.execute(insert(workers), row)
    return worker


def find_assignment(connection: Connection, assignment: str) -> Assignment | None:
    """An assignment by the workforce's name."""
    row = connection.execute(select(assignments).where(assignments.c.id == assignment)).first()
    return _from(row) if row is not None else None


def count_item(connection: Connection, assignment: str, more: int = 1) -> Assignment:
    """One more question of an assignment is answered, or one less."""
    mine = assignments.c.id == assignment
    connection.execute(update(assignments).where(mine).values(done=assignments.c.done + more))
    found = find_assignment(connection, assignment)
    if found is None:
        raise RefusedError("this assignment is not known")
    return found


def all_assignments(project: Project, hit: str | None = None) -> list[Assignment]:
    """All assignments, or those of a HIT, in the order in which they began."""
    chosen = select(assignments).order_by(assignments.c.begun_at, assignments.c.id)
    with project.database.reading() as connection:
        rows = connection.execute(chosen.where(assignments.c.hit == hit) if hit else chosen).all()
    return [_from(row) for row in rows]


def outside_name(project: Project, worker: str) -> str | None:
    """How the workforce names somebody; None for those who were invited, or forgotten."""
    with project.database.reading() as connection:
        name = read_worker(connection, worker).name or ""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else None


def note_approval(project: Project, assignment: str) -> None:
    """Note that the workforce was told to pay for an assignment."""
    with project.database.writing() as connection:
        connection.execute(update(assignments).where(assignments.c.id == assignment).values(state=APPROVED))


def _from(row: Any) -> Assignment:
    return Assignment(row.id, row.hit, row.worker, row.items, row.done, row.submit_to, row.state)
