"""How far a project is, how fast it goes, what it costs, and how good everybody's work is."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, case, func, select

from deixis.annotate.people import MODEL
from deixis.annotate.project import Project
from deixis.annotate.store.schema import checks, events, known, photos, questions, standings, workers
from deixis.annotate.walks import Task
from deixis.errors import DeixisError
from deixis.evaluation.agreement import Judgement, krippendorff_alpha

_VOTED = (Task.REQUIREMENT, Task.COVERAGE)
"""The tasks that several people are asked about the same thing."""

_HOUR = 3600.0
_LAST_S = 24 * _HOUR


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """A task: open questions, judgements, mean seconds, questions with known answers, and agreement beyond chance."""

    task: Task
    open: int
    judged: int
    seconds: float
    known: int
    agreement: float | None


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """Somebody: what they did, how long it took, what it is worth, and how often they were right where it is known."""

    worker: str
    name: str | None
    judged: int
    hours: float
    pay: float
    checked: int
    accuracy: float | None
    levels: dict[str, str]


@dataclass(frozen=True, slots=True)
class Progress:
    """All of it.

    `hours_left` is what the unfinished photos take if they are like the finished ones; None where none is finished.
    `per_hour` counts judgements over the last day on which there were any.
    """

    photos: int
    finished: int
    waiting: int
    judged: int
    hours: float
    cost: float
    currency: str
    per_hour: float
    hours_left: float | None
    tasks: tuple[TaskProgress, ...]
    workers: tuple[WorkerProgress, ...]


def progress(project: Project) -> Progress:
    """Look at a project."""
    settings = project.settings
    with project.database.reading() as connection:
        total, finished, waiting = connection.execute(
            select(
                func.count(),
                func.count().filter(photos.c.finished),
                func.coalesce(func.sum(photos.c.waiting), 0),
            ).where(photos.c.known.is_(False))
        ).one()
        people = _workers(project, connection)
        tasks = tuple(_task(connection, task) for task in Task)
        per_hour = _per_hour(connection)
        hours_left = _hours_left(project, connection, total, finished)
    return Progress(
        photos=total,
        finished=finished,
        waiting=int(waiting),
        judged=sum(each.judged for each in people),
        hours=sum(each.hours for each in people),
        cost=sum(each.pay for each in people),
        currency=settings.currency,
        per_hour=per_hour,
        hours_left=hours_left,
        tasks=tasks,
        workers=people,
    )


def counted_seconds(project: Project) -> ColumnElement[float]:
    """A question that somebody left open over lunch counts as the longest that is paid."""
    most = project.settings.longest_item_s
    return case((events.c.seconds > most, most), else_=events.c.seconds)


def _workers(project: Project, connection: Connection) -> tuple[WorkerProgress, ...]:
    seconds = func.sum(counted_seconds(project))
    done = {
        row.worker: row
        for row in connection.execute(
            select(events.c.worker, func.count().label("judged"), seconds.label("seconds"))
            .where(events.c.kind == "judged")
            .group_by(events.c.worker)
        )
    }
    right = {
        row.worker: row
        for row in connection.execute(
            select(checks.c.worker, func.count().label("n"), func.count().filter(checks.c.right).label("right"))
            .where(checks.c.right.is_not(None))
            .group_by(checks.c.worker)
        )
    }
    levels: dict[str, dict[str, str]] = {}
    for row in connection.execute(select(standings)):
        levels.setdefault(row.worker, {})[row.task] = row.level
    found = []
    people = select(workers.c.id, workers.c.name).where(workers.c.role != MODEL)
    for row in connection.execute(people.order_by(workers.c.invited_at, workers.c.id)):
        mine, known_ = done.get(row.id), right.get(row.id)
        hours = float(mine.seconds or 0) / _HOUR if mine else 0.0
        found.append(
            WorkerProgress(
                row.id,
                row.name,
                mine.judged if mine else 0,
                hours,
                hours * project.settings.pay_per_hour,
                known_.n if known_ else 0,
                known_.right / known_.n if known_ else None,
                levels.get(row.id, {}),
            )
        )
    return tuple(found)


def _task(connection: Connection, task: Task) -> TaskProgress:
    mine = events.c.task == task.value
    judged = (events.c.kind == "judged") & mine & events.c.known.is_(None)
    count, mean = connection.execute(select(func.count(), func.avg(events.c.seconds)).where(judged)).one()
    waiting = connection.scalar(select(func.count()).select_from(questions).where(questions.c.task == task.value)) or 0
    hidden = connection.scalar(select(func.count()).select_from(known).where(known.c.task == task.value)) or 0
    agreement = _agreement(connection, task) if task in _VOTED else None
    return TaskProgress(task, waiting, count, float(mean or 0.0), hidden, agreement)


def _agreement(connection: Connection, task: Task) -> float | None:
    """Krippendorff's alpha over what several people were asked; None where nothing tells agreement from chance."""
    rows = connection.execute(
        select(events.c.photo, events.c.worker, events.c.body)
        .where(events.c.kind == "judged", events.c.task == task.value, events.c.known.is_(None))
        .order_by(events.c.number)
    )
    last: dict[tuple[str, str, str], Judgement] = {}
    for photo, worker, body in rows:
        item = body["subject"]
        last[photo, item, worker] = Judgement(photo, item, worker, body["answer"])
    try:
        return krippendorff_alpha(list(last.values()), rounds=1).coefficient
    except DeixisError:
        return None


def _per_hour(connection: Connection) -> float:
    newest = connection.scalar(select(func.max(events.c.at)).where(events.c.kind == "judged"))
    if newest is None:
        return 0.0
    recent = (events.c.kind == "judged") & (events.c.at > newest - _LAST_S)
    count, oldest = connection.execute(select(func.count(), func.min(events.c.at)).where(recent)).one()
    return float(count / max((newest - oldest) / _HOUR, 1 / 60))


@dataclass(frozen=True, slots=True)
class Hour:
    """When an hour began, and how many judgements it brought."""

    at: float
    judged: int


def pace(project: Project, most: int = 48) -> list[Hour]:
    """The last hours in which anybody worked, the earliest first."""
    began = func.round(events.c.at / _HOUR - 0.5).label("began")  # not every SQLite has a floor
    chosen = select(began, func.count()).where(events.c.kind == "judged").group_by(began).order_by(began.desc())
    with project.database.reading() as connection:
        rows = connection.execute(chosen.limit(most)).all()
    return [Hour(float(hour) * _HOUR, count) for hour, count in reversed(rows)]


def _hours_left(project: Project, connection: Connection, total: int, finished: int) -> float | None:
    """The hours of work on unfinished photos, from the mean of the finished ones less what was done on the others."""
    if not finished:
        return None
    spent = func.coalesce(func.sum(counted_seconds(project)), 0.0)
    by_state = (
        select(photos.c.finished, spent)
        .join(events, events.c.photo == photos.c.id)
        .where(photos.c.known.is_(False))
        .group_by(photos.c.finished)
    )
    found = {bool(state): float(seconds) for state, seconds in connection.execute(by_state)}
    each = found.get(True, 0.0) / finished
    return max(each * (total - finished) - found.get(False, 0.0), 0.0) / _HOUR


def pay_table(people: Sequence[WorkerProgress], currency: str) -> str:
    """Hours and pay as CSV, for the accounts.

    Examples
    --------
    >>> ann = WorkerProgress("w1", "Ann", 20, 0.5, 7.5, 4, 1.0, {})
    >>> print(pay_table([ann], "EUR"), end="")
    worker,name,judgements,hours,pay_EUR,known_answers,accuracy
    w1,Ann,20,0.5000,7.50,4,1.0000
    """
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["worker", "name", "judgements", "hours", f"pay_{currency}", "known_answers", "accuracy"])
    for each in people:
        accuracy = "" if each.accuracy is None else f"{each.accuracy:.4f}"
        name = _no_formula(each.name or "")
        rows.writerow([each.worker, name, each.judged, f"{each.hours:.4f}", f"{each.pay:.2f}", each.checked, accuracy])
    return text.getvalue()


def _no_formula(text: str) -> str:
    """Spreadsheets run what begins with these."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
