"""Who is asked what next.

A worker gets the first question, in the order of the photos, whose task they may do, that nobody holds and that they
are not barred from. It is theirs for a while; then it can be given to another, and whoever comes too late is told so.
Among the questions are some whose answer is known.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from deixis.annotate import control
from deixis.annotate.people import Worker, read_worker
from deixis.annotate.project import Project
from deixis.annotate.standing import Level, Purpose
from deixis.annotate.store import statements
from deixis.annotate.walks import Task

_CLOSED = (Level.NO_HISTORY, Level.FAILED, Level.SUSPENDED)


@dataclass(frozen=True, slots=True)
class Given:
    """A question in the hands of a worker.

    Attributes
    ----------
    token
        Names it when it is answered; of use to this worker only.
    task, photo, asked
        What to show: `deixis.annotate.questions.Question.as_json`.
    until
        When it may be given to somebody else.
    test
        Whether it belongs to the qualification test. Hidden questions do not say that they are.
    """

    token: str
    task: Task
    photo: str
    asked: dict[str, Any]
    until: float
    test: bool


def next_question(
    project: Project, worker: str, *, besides: Collection[str] = (), only: Collection[Task] = tuple(Task)
) -> Given | None:
    """The next question for a worker; None where there is none now.

    Parameters
    ----------
    project, worker
        Where, and who.
    besides
        Tokens of questions that the worker has on the screen or in waiting. Of those that they hold otherwise, the
        oldest is given again: a page that was loaded anew goes on where it was.
    only
        Tasks to choose from.
    """
    return project.database.run(lambda connection: _next(project, connection, worker, besides, only))


def _next(
    project: Project, connection: Connection, worker: str, besides: Collection[str], only: Collection[Task]
) -> Given | None:
    now = project.clock()
    who = read_worker(connection, worker, lock=True)
    held = connection.execute(statements.LEASES_HELD, {"its_worker": worker, "now": now}).all()
    for row in held:
        if row.token not in besides and row.task in only:
            return Given(row.token, Task(row.task), row.photo, row.asked, row.until, row.purpose == Purpose.TEST)
    if len(held) >= project.settings.held_at_once or who.forgotten:
        return None
    levels = control.levels_of(project, connection, who)
    tasks = [task for task in only if levels[task] not in _CLOSED]
    while tasks and (found := _first_open(connection, worker, tasks, now)) is not None:
        task = Task(found.task)
        purpose = _purpose(project, task, levels[task])
        if purpose is Purpose.WORK:
            return _give(project, connection, who, purpose, task, found, now)
        unseen = _unseen(project, connection, worker, task, now)
        if unseen is not None:
            return _give(project, connection, who, purpose, task, unseen, now)
        if purpose is Purpose.HIDDEN:
            return _give(project, connection, who, Purpose.WORK, task, found, now)
        tasks.remove(task)  # they have seen all questions that could tell whether they are fit for it
    return None


def _first_open(connection: Connection, worker: str, tasks: Collection[Task], now: float) -> Any:
    values = {"its_worker": worker, "tasks": [task.value for task in tasks], "now": now}
    return connection.execute(statements.FIRST_OPEN_QUESTION, values).first()


def _purpose(project: Project, task: Task, level: Level) -> Purpose:
    if level is Level.TEST:
        return Purpose.TEST
    if level is Level.FIRST and task is not Task.DRAWING:
        return Purpose.FIRST
    binary = task is not Task.DRAWING
    hide = level is Level.TRUSTED and binary and project.chance.random() < project.settings.hidden_share
    return Purpose.HIDDEN if hide else Purpose.WORK


def _unseen(project: Project, connection: Connection, worker: str, task: Task, now: float) -> Any:
    """A known question that this worker was never asked, nor anything else about a photo that was reviewed."""
    mine = {"its_worker": worker, "its_task": task.value, "now": now}
    seen = {*connection.scalars(statements.KNOWN_SEEN, mine), *connection.scalars(statements.KNOWN_HELD, mine)}
    rows = connection.execute(statements.KNOWN_OF_TASK, {"its_task": task.value}).all()
    if any(row.reviewed for row in rows):
        touched = set(connection.scalars(statements.PHOTOS_OF_WORKER, {"its_worker": worker}))
        rows = [row for row in rows if not (row.reviewed and row.photo in touched)]
    unseen = [row.number for row in rows if row.number not in seen]
    if not unseen:
        return None
    return connection.execute(statements.KNOWN, {"its_number": project.chance.choice(unseen)}).one()


def _give(
    project: Project, connection: Connection, who: Worker, purpose: Purpose, task: Task, found: Any, now: float
) -> Given:
    until = now + project.settings.lease_s
    lease: dict[str, Any] = {"token": secrets.token_urlsafe(12), "worker": who.id, "purpose": purpose.value}
    lease |= {"task": task.value, "photo": found.photo, "subject": found.subject, "asked": found.asked}
    lease |= {"question": None, "known": found.number, "until": until, "state": "open"}
    if purpose is Purpose.WORK:
        lease |= {"question": found.number, "known": None}
        if found.leased_until:
            connection.execute(statements.LATE_LEASE_LOST, {"its_number": found.number})
        connection.execute(statements.QUESTION_LEASED, {"its_number": found.number, "until": until})
    else:
        connection.execute(statements.LATE_KNOWN_LOST, {"its_number": found.number, "its_worker": who.id})
    connection.execute(statements.NEW_LEASE, lease)
    return Given(lease["token"], task, found.photo, found.asked, until, purpose is Purpose.TEST)
