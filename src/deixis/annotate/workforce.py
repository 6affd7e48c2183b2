"""Assignments of an external workforce, such as Mechanical Turk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select, update

from deixis.annotate.people import Role, add_worker, read_worker
from deixis.annotate.project import Project
from deixis.annotate.schema import assignments, workers
from deixis.annotate.transactions import RefusedError

OPEN, APPROVED = "open", "approved"
_PREFIX = "outside "


@dataclass(frozen=True, slots=True)
class Assignment:
    """A batch of `items` questions that one worker accepted; `done` counts the answered ones.

    `id` and `hit` are the names used by the workforce, `worker` the id in the project, and `submit_to` the address to
    which the page submits the finished assignment.
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
        """Whether it can be submitted."""
        return self.done >= self.items or self.state != OPEN


def start_assignment(
    project: Project, assignment: str, hit: str, external_worker: str, items: int, submit_to: str
) -> Assignment:
    """Start an assignment, or continue one, under the names used by the workforce.

    New workers are added. The workforce has checked their history, so the project vouches for them; tests and hidden
    questions are the same as for other workers.
    """
    with project.database.writing() as connection:
        worker = _find_or_add_worker(project, connection, external_worker)
        found = find_assignment(connection, assignment)
        if found is not None:
            if found.worker != worker or found.hit != hit:
                raise RefusedError("this assignment belongs to another worker")
            return found
        row = {"id": assignment, "hit": hit, "worker": worker, "items": items, "done": 0}
        row |= {"submit_to": submit_to, "begun_at": project.clock(), "state": OPEN}
        connection.execute(insert(assignments), row)
        return Assignment(assignment, hit, worker, items, 0, submit_to)


def _find_or_add_worker(project: Project, connection: Connection, external_worker: str) -> str:
    name = f"{_PREFIX}{external_worker}"
    columns = (workers.c.id, workers.c.role, workers.c.password, workers.c.invitation)
    found = connection.execute(select(*columns).where(workers.c.name == name)).first()
    if found is not None:
        if found.role != Role.WORKER or found.password or found.invitation:  # an invited worker has this name
            raise RefusedError("this name belongs to another worker")
        return str(found.id)
    now = project.clock()
    return add_worker(connection, name, role=Role.WORKER, vouched=True, invited_at=now, joined_at=now)


def find_assignment(connection: Connection, assignment: str) -> Assignment | None:
    row = connection.execute(select(assignments).where(assignments.c.id == assignment)).first()
    return _make_assignment(row) if row is not None else None


def count_item(connection: Connection, assignment: str, change: int = 1) -> Assignment:
    """Change the number of answered questions."""
    same = assignments.c.id == assignment
    connection.execute(update(assignments).where(same).values(done=assignments.c.done + change))
    found = find_assignment(connection, assignment)
    if found is None:
        raise RefusedError("unknown assignment")
    return found


def list_assignments(project: Project, hit: str | None = None) -> list[Assignment]:
    """List all assignments, or those of one HIT, oldest first."""
    chosen = select(assignments).order_by(assignments.c.begun_at, assignments.c.id)
    with project.database.reading() as connection:
        rows = connection.execute(chosen.where(assignments.c.hit == hit) if hit else chosen).all()
    return [_make_assignment(row) for row in rows]


def external_name(project: Project, worker: str) -> str | None:
    """Return the name used by the workforce; None for workers who were invited or forgotten."""
    with project.database.reading() as connection:
        name = read_worker(connection, worker).name or ""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else None


def mark_approved(project: Project, assignment: str) -> None:
    with project.database.writing() as connection:
        connection.execute(update(assignments).where(assignments.c.id == assignment).values(state=APPROVED))


def _make_assignment(row: Any) -> Assignment:
    return Assignment(row.id, row.hit, row.worker, row.items, row.done, row.submit_to, row.state)
