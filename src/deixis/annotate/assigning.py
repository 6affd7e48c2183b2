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
from deixis.annotate.people import Worker, worker_and_levels
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
    return project.database.run(lambda connection: give_next(project, connection, worker, besides, only))


def give_next(
    project: Project, connection: Connection, worker: str, besides: Collection[str], only: Collection[Task]
) -> Given | None:
    """`next_question` in a transaction that has begun."""
    now = project.clock()
    who, found_levels = worker_and_levels(connection, worker)
    held = connection.execute(statements.LEASES_HELD, {"its_worker": worker, "now": now}).all()
    for row in held:
        if row.token not in besides and row.task in only:
            return Given(row.token, Task(row.task), row.photo, row.asked, row.until, row.purpose == Purpose.TEST)
    if len(held) >= project.settings.held_at_once or who.forgotten:
        return None
    levels = control.levels_of(project, connection, who, found_levels)
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


def give_again(project: Project, connection: Connection, worker: str, event: int) -> Given | None:
    """The question that a worker answered with this event, after they have taken it back; None if nobody is asked it.

    Whether its answer is known does not show: it comes again either way.
    """
    now = project.clock()
    lease = connection.execute(statements.LEASE_OF_EVENT, {"its_number": event, "its_worker": worker}).first()
    if lease is None:
        return None
    who, found_levels = worker_and_levels(connection, worker)
    task = Task(lease.task)
    if who.forgotten or control.levels_of(project, connection, who, found_levels)[task] in _CLOSED:
        return None
    if lease.known is not None:
        found = connection.execute(statements.KNOWN, {"its_number": lease.known}).first()
    else:
        asked = {"its_photo": lease.photo, "its_task": lease.task, "its_subject": lease.subject}
        found = connection.execute(statements.OPEN_QUESTION, asked | {"its_worker": worker, "now": now}).first()
    return _give(project, connection, who, Purpose(lease.purpose), task, found, now) if found is not None else None


def why_none(project: Project, connection: Connection, worker: str) -> str:
    """Why somebody has no question, in a line for them."""
    who, found_levels = worker_and_levels(connection, worker)
    levels = control.levels_of(project, connection, who, found_levels)
    if all(level is Level.NO_HISTORY for level in levels.values()):
        needed = f"{project.settings.history_items} items at {project.settings.history_accuracy:.0%}"
        return f"{needed} done elsewhere are asked for, or the word of the project's owner"
    closed = [task.value for task in Task if levels[task] in _CLOSED]
    if len(closed) == len(Task):
        return "too many answers were wrong, so there are no more questions for you; ask the project's owner"
    held = connection.execute(statements.LEASES_HELD, {"its_worker": worker, "now": project.clock()}).all()
    if len(held) >= project.settings.held_at_once:
        return f"{len(held)} questions wait for your answer already"
    return "nothing to do at the moment" + (f"; you do not work on: {', '.join(closed)}" if closed else "")


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
    unseen = connection.scalars(statements.KNOWN_UNSEEN, mine).all()
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
