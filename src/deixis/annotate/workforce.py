"""External workers: their assignments, the signed links of their page, and the services that send them.

A workforce is a plugin: a module or an object of the form of `Workforce`, under the entry point group `ENTRY_POINTS`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from sqlalchemy import Connection, insert, select, update

from deixis.annotate.people import EXTERNAL_PREFIX, Role, add_worker, read_worker
from deixis.annotate.project import Project
from deixis.annotate.store import RefusedError, assignments, workers
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from fastapi import APIRouter

ENTRY_POINTS = "deixis.annotate.workforces"
EXTERNAL_PAGE = "/external"
OPEN, APPROVED = "open", "approved"


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
    project: Project,
    assignment: str,
    hit: str,
    external_worker: str,
    items: int,
    submit_to: str,
    *,
    confirmed: bool = False,
) -> Assignment:
    """Start an assignment under the names used by the workforce; an assignment can be entered once.

    New workers are added. The project vouches for those whose id the plugin has `confirmed`, by a signature or a
    request to the workforce; the others only claim to be who they are.
    """
    with project.database.writing() as connection:
        if find_assignment(connection, assignment) is not None:
            raise RefusedError("this assignment was entered before; go on where you did, or return it")
        worker = _find_or_add_worker(project, connection, external_worker, confirmed)
        row = {"id": assignment, "hit": hit, "worker": worker, "items": items, "done": 0}
        row |= {"submit_to": submit_to, "begun_at": project.clock(), "state": OPEN}
        connection.execute(insert(assignments), row)
        return Assignment(assignment, hit, worker, items, 0, submit_to)


def _find_or_add_worker(project: Project, connection: Connection, external_worker: str, confirmed: bool) -> str:
    name = f"{EXTERNAL_PREFIX}{external_worker}"
    columns = (workers.c.id, workers.c.role, workers.c.password, workers.c.invitation)
    found = connection.execute(select(*columns).where(workers.c.name == name)).first()
    if found is not None:
        if found.role != Role.WORKER or found.password or found.invitation:  # an invited worker has this name
            raise RefusedError("this name belongs to another worker")
        if confirmed:
            confirm_worker(connection, found.id)
        return str(found.id)
    now = project.clock()
    return add_worker(connection, name, role=Role.WORKER, vouched=confirmed, invited_at=now, joined_at=now)


def confirm_worker(connection: Connection, worker: str) -> None:
    """Note that the workforce has confirmed the id of a worker, who is vouched for from then on."""
    connection.execute(update(workers).where(workers.c.id == worker).values(vouched=True))


def find_assignment(connection: Connection, assignment: str) -> Assignment | None:
    row = connection.execute(select(assignments).where(assignments.c.id == assignment)).first()
    return _make_assignment(row) if row is not None else None


def read_assignment(project: Project, assignment: str) -> Assignment:
    with project.database.reading() as connection:
        found = find_assignment(connection, assignment)
    if found is None:
        raise DeixisError("unknown assignment")
    return found


def count_item(connection: Connection, assignment: str, change: int = 1) -> Assignment:
    """Change the number of answered questions."""
    changed = update(assignments).where(assignments.c.id == assignment).values(done=assignments.c.done + change)
    return _make_assignment(connection.execute(changed.returning(*assignments.c)).one())


def list_assignments(project: Project) -> list[Assignment]:
    """List all assignments, oldest first."""
    with project.database.reading() as connection:
        rows = connection.execute(select(assignments).order_by(assignments.c.begun_at, assignments.c.id)).all()
    return [_make_assignment(row) for row in rows]


def external_name(project: Project, worker: str) -> str | None:
    """Return the name used by the workforce; None for workers who were invited or forgotten."""
    with project.database.reading() as connection:
        name = read_worker(connection, worker).name or ""
    return name.removeprefix(EXTERNAL_PREFIX) if name.startswith(EXTERNAL_PREFIX) else None


def _make_assignment(row: Any) -> Assignment:
    return Assignment(row.id, row.hit, row.worker, row.items, row.done, row.submit_to, row.state)


def make_items_key(secret: bytes, items: int) -> str:
    """Sign the number of questions that a link asks for."""
    signature = hmac.new(secret, f"outside {items}".encode(), hashlib.sha256).hexdigest()
    return f"{items}.{signature[:32]}"


def parse_items_key(secret: bytes, key: str) -> int | None:
    """Return the number of questions of a key; None if this project has not signed it."""
    items = key.partition(".")[0]
    if not (items.isascii() and items.isdecimal() and len(items) < 6):
        return None
    return int(items) if hmac.compare_digest(key.encode(), make_items_key(secret, int(items)).encode()) else None


@dataclass(frozen=True)
class Offer:
    """Work that is offered to a workforce."""

    url: str  # public address of the workbench
    people: int  # each does one assignment
    reward: float  # for an assignment, in US dollars
    items: int = 20  # questions in an assignment
    minutes: int = 60  # time for an assignment
    days: int = 7  # how long the offer is available
    title: str = "Say what is in photos"
    description: str = "Answer small questions about photos and their captions, and draw boxes."

    def __post_init__(self) -> None:
        if min(self.people, self.items, self.minutes, self.days) < 1 or self.reward <= 0:
            raise DeixisError("people, items, minutes, days and reward must be positive")


@dataclass
class Approvals:
    """Submitted assignments: approved, not complete, or unknown to this project."""

    approved: list[str] = field(default_factory=list)
    not_done: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


class Workforce(Protocol):
    """A service that sends workers to the page, and pays them.

    Its routes call `start_assignment` with `confirmed` if they have checked the id of the worker; `settle` calls
    `confirm_worker`.
    """

    HOSTS: Sequence[str]
    """Sites that may show the page in a frame and receive its form."""

    router: APIRouter
    """The routes with which workers enter."""

    def hire(self, project: Project, offer: Offer, *, live: bool) -> str:
        """Offer work, and return the name of the offer; without `live`, in a sandbox in which nothing is paid."""

    def settle(self, project: Project, *, live: bool) -> Approvals:
        """Approve complete assignments; the others are left for a person to decide."""


def installed_workforces() -> list[Workforce]:
    """Load the workforces of all installed packages."""
    from importlib.metadata import entry_points  # slow import

    return [cast(Workforce, point.load()) for point in entry_points(group=ENTRY_POINTS)]


def find_workforce() -> Workforce:
    """Return the workforce that is installed."""
    if not (found := installed_workforces()):
        raise DeixisError("no external workforce is installed; pip install 'deixis[mturk]' installs Mechanical Turk")
    return found[0]
