"""Progress of a project: finished photos, pace, cost, agreement, and the accuracy of the workers."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, func, select

from deixis.annotate.events import Judged, Skipped, Undone
from deixis.annotate.gallery import AS_VOTE, CorrectionSummary, summarize_corrections
from deixis.annotate.own_question import explain_known_answers
from deixis.annotate.people import MODEL_ROLE, list_workers
from deixis.annotate.project import Project, tasks_in_use
from deixis.annotate.quality import (
    Level,
    Qualification,
    lock_worker,
    read_able_workers,
    stage_sizes,
    update_qualification,
)
from deixis.annotate.review import blocked_questions, review_queue
from deixis.annotate.settings import explain_lockouts
from deixis.annotate.store import checks, events, known_questions, leases, photos, qualifications, questions, workers
from deixis.annotate.workflow import Answer, Task
from deixis.evaluation.agreement import Judgement, krippendorff_alpha
from deixis.storage.files import escape_formula

_MIN_RARE_VOTES = 10
"""Votes other than the most frequent answer that alpha needs; with fewer, one vote changes it by a tenth or more."""

_IS_JUDGEMENT = events.c.kind == Judged.kind
_HOUR = 3600.0
_RECENT_S = 24 * _HOUR


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """A task: open questions, judgements, mean seconds, known questions, and the agreement of workers.

    `compared` questions have several `votes`; `agreeing` is the share of equal pairs of votes, and `agreement` is
    Krippendorff's alpha, for ratings that of intervals. It is None with fewer than ten votes (`rare_votes`) for other
    answers than the most frequent one, because agreement beyond chance cannot be told from chance then.
    """

    task: Task
    open: int
    judged: int
    seconds: float
    known: int
    agreement: float | None
    agreeing: float | None = None
    compared: int = 0
    votes: int = 0
    rare_votes: int = 0


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """A worker: judgements, hours, pay, checked answers and their accuracy, and the level in each task."""

    worker: str
    name: str | None
    judged: int
    hours: float
    pay: float
    checked: int
    accuracy: float | None
    levels: dict[Task, Level]
    skipped: int = 0
    suspended: bool = False  # by an owner
    seen_at: float | None = None  # Unix time of the last question or judgement
    absent: bool = False
    waiting: int = 0  # questions that the worker holds, and that only absent people such as this one may answer


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a project. The fields are JSON keys."""

    photos: int
    finished: int
    waiting: int
    judged: int
    hours: float
    cost: float
    currency: str
    per_hour: float  # judgements, over the last 24 hours with judgements
    hours_left: float | None  # estimated from the finished photos
    tasks: tuple[TaskProgress, ...]
    workers: tuple[WorkerProgress, ...]
    blocked: dict[str, int]  # questions that nobody can answer, by what they wait for
    corrections: CorrectionSummary
    advice: tuple[str, ...]  # settings that suspend or stop people; `explain_lockouts`


def count_qualifying_questions(project: Project) -> int:
    """Return how many questions with known answers a worker answers before they are trusted in all tasks."""
    with project.database.reading() as connection:
        counted = select(known_questions.c.task, func.count()).group_by(known_questions.c.task)
        known = {Task(task): int(count) for task, count in connection.execute(counted)}
        total = 0
        for task in tasks_in_use(project, connection):
            sizes = stage_sizes(task, known.get(task, 0), project.settings)
            total += sizes.test + (0 if task is Task.DRAWING else sizes.first)
    return total


def read_progress(project: Project) -> Progress:
    settings, blocked = project.settings, blocked_questions(project)
    with project.database.reading() as connection:
        counts = select(func.count(), func.count().filter(photos.c.finished)).where(photos.c.known.is_(False))
        total, finished = connection.execute(counts).one()
        people = _workers(project, connection, Counter(worker for each in blocked for worker in each.absent))
        votes = _read_votes(connection)
        if (own := settings.question) is not None:
            counted = [vote for vote in votes[Task.OWN] if own.counts(vote.item, str(vote.answer))]
            votes[Task.OWN] = [replace(vote, answer=str(vote.answer).casefold()) for vote in counted]
        is_rating = own is not None and own.rating > 0
        tasks = tuple(
            _task(connection, task, votes[task], task is Task.OWN and is_rating)
            for task in tasks_in_use(project, connection)
        )
        per_hour = _per_hour(connection)
        joined = len(set().union(*read_able_workers(project, connection).all.values()))
        hours_left = _hours_left(project, connection, total, finished)
        corrections = summarize_corrections(project, connection)
    judged = sum(each.judged for each in people)
    return Progress(
        photos=total,
        finished=finished,
        waiting=len(review_queue(project, blocked)),
        judged=judged,
        hours=sum(each.hours for each in people),
        cost=sum(each.pay for each in people),
        currency=settings.currency,
        per_hour=per_hour,
        hours_left=hours_left,
        tasks=tasks,
        workers=people,
        blocked=dict(Counter(question.waits_for.value for question in blocked)),
        corrections=corrections,
        advice=(
            *project.settings_problems,
            *explain_lockouts(settings, joined if judged else None),
            *explain_known_answers(project),
            *_explain_claims(project),
        ),
    )


def _explain_claims(project: Project) -> list[str]:
    claimed = [person for person in list_workers(project) if person.claimed]
    if not claimed:
        return []
    people = "1 person claims" if len(claimed) == 1 else f"{len(claimed)} people claim"
    return [
        f"{people} an id of the marketplace that nobody has confirmed, so it may be invented; "
        "deixis annotate settle confirms those who have submitted their work"
    ]


def counted_seconds(project: Project) -> ColumnElement[float]:
    """Limit the time of an item, because workers leave pages open."""
    longest = project.settings.longest_item_s
    return case((events.c.seconds > longest, longest), else_=events.c.seconds)


def _workers(project: Project, connection: Connection, waiting: Counter[str]) -> tuple[WorkerProgress, ...]:
    seconds, now = func.sum(counted_seconds(project)), project.clock()
    done = {
        row.worker: row
        for row in connection.execute(
            select(
                events.c.worker,
                func.count().label("judged"),
                seconds.label("seconds"),
                func.max(events.c.at).label("last"),
            )
            .where(_IS_JUDGEMENT)
            .group_by(events.c.worker)
        )
    }
    checked = {
        row.worker: row
        for row in connection.execute(
            select(checks.c.worker, func.count().label("answers"), func.count().filter(checks.c.right).label("correct"))
            .where(checks.c.right.is_not(None))
            .group_by(checks.c.worker)
        )
    }
    counted = select(events.c.worker, func.count()).where(events.c.kind == Skipped.kind).group_by(events.c.worker)
    skipped = {row[0]: int(row[1]) for row in connection.execute(counted)}
    levels: dict[str, dict[Task, Level]] = {}
    for row in connection.execute(select(qualifications)):
        levels.setdefault(row.worker, {})[Task(row.task)] = Level(row.level)
    held = (leases.c.state == "open") & (leases.c.until > now) & leases.c.question.is_not(None)
    holding = select(leases.c.worker, func.count()).where(held).group_by(leases.c.worker)
    waiting = waiting + Counter({row[0]: int(row[1]) for row in connection.execute(holding)})
    found = []
    people = select(workers).where(workers.c.role != MODEL_ROLE)
    for row in connection.execute(people.order_by(workers.c.invited_at, workers.c.id)):
        work: Any = done.get(row.id)
        check = checked.get(row.id)
        hours = float(work.seconds or 0) / _HOUR if work else 0.0
        seen = max([at for at in (row.seen_at, work.last if work else None) if at is not None], default=None)
        since: float | None = row.joined_at if seen is None else seen
        absent = since is not None and now - since > project.settings.absent_after_h * _HOUR
        found.append(
            WorkerProgress(
                row.id,
                row.name,
                work.judged if work else 0,
                hours,
                hours * project.settings.pay_per_hour,
                check.answers if check else 0,
                check.correct / check.answers if check else None,
                levels.get(row.id, {}),
                skipped.get(row.id, 0),
                row.suspended_at is not None,
                seen,
                absent,
                waiting[row.id],
            )
        )
    return tuple(found)


def _task(connection: Connection, task: Task, votes: Sequence[Judgement], is_rating: bool) -> TaskProgress:
    judged = _IS_JUDGEMENT & (events.c.task == task.value) & events.c.known.is_(None)
    count, mean = connection.execute(select(func.count(), func.avg(events.c.seconds)).where(judged)).one()
    waiting = connection.scalar(select(func.count()).select_from(questions).where(questions.c.task == task.value)) or 0
    same_task = known_questions.c.task == task.value
    known = connection.scalar(select(func.count()).select_from(known_questions).where(same_task)) or 0
    progress = TaskProgress(task, waiting, count, float(mean or 0.0), known, None)
    by_item: dict[tuple[str, str], list[Judgement]] = {}
    for vote in votes:
        by_item.setdefault((vote.photo, vote.item), []).append(vote)
    compared = [vote for item in by_item.values() if len(item) > 1 for vote in item]
    if not compared:
        return progress
    found = beyond_chance = krippendorff_alpha(compared, rounds=1)
    if is_rating:
        numbers = [replace(each, answer=float(str(each.answer))) for each in compared]
        beyond_chance = krippendorff_alpha(numbers, interval=True, rounds=1)
    rare = len(compared) - max(Counter(vote.answer for vote in compared).values())
    alpha = beyond_chance.coefficient if rare >= _MIN_RARE_VOTES else None
    progress = replace(progress, compared=found.n, votes=len(compared), rare_votes=rare)
    return replace(progress, agreement=alpha, agreeing=found.observed)


def _read_votes(connection: Connection) -> dict[Task, list[Judgement]]:
    """Read the answers that were not undone. "No more" in the drawing task is a vote in one of the two votes."""
    undone = {body["event"] for body in connection.scalars(select(events.c.body).where(events.c.kind == Undone.kind))}
    columns = (events.c.number, events.c.photo, events.c.worker, events.c.task, events.c.body)
    rows = connection.execute(select(*columns).where(_IS_JUDGEMENT, events.c.known.is_(None)).order_by(events.c.number))
    last: dict[tuple[Task, str, str, str], Judgement] = {}
    for number, photo, worker, name, body in rows:
        if number in undone:
            continue
        task, item, answer = Task(name), body["subject"], body["answer"]
        if task is Task.DRAWING:
            if answer != Answer.NO_MORE:
                continue
            task, answer = AS_VOTE[" " in item, answer]
        last[task, photo, item, worker] = Judgement(photo, item, worker, answer)
    votes: dict[Task, list[Judgement]] = {task: [] for task in Task}
    for (task, *_), judgement in last.items():
        votes[task].append(judgement)
    return votes


def _per_hour(connection: Connection) -> float:
    newest = connection.scalar(select(func.max(events.c.at)).where(_IS_JUDGEMENT))
    if newest is None:
        return 0.0
    recent = _IS_JUDGEMENT & (events.c.at > newest - _RECENT_S)
    count, oldest = connection.execute(select(func.count(), func.min(events.c.at)).where(recent)).one()
    return float(count / max((newest - oldest) / _HOUR, 1 / 60))


@dataclass(frozen=True, slots=True)
class Hour:
    """Start of an hour, and the number of judgements in it."""

    at: float
    judged: int


def read_pace(project: Project, limit: int = 48) -> list[Hour]:
    """Count the judgements of the last hours with any, earliest first."""
    hour = func.round(events.c.at / _HOUR - 0.5).label("hour")  # some SQLite builds have no floor()
    chosen = select(hour, func.count()).where(_IS_JUDGEMENT).group_by(hour).order_by(hour.desc())
    with project.database.reading() as connection:
        rows = connection.execute(chosen.limit(limit)).all()
    return [Hour(float(start) * _HOUR, count) for start, count in reversed(rows)]


def _hours_left(project: Project, connection: Connection, total: int, finished: int) -> float | None:
    """Estimate the hours left from the mean time of finished photos and the time already spent on the others."""
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


def format_pay(workers: Sequence[WorkerProgress], currency: str) -> str:
    """Format hours and pay as CSV."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["worker", "name", "judgements", "hours", f"pay_{currency}", "known_answers", "accuracy"])
    for each in workers:
        accuracy = "" if each.accuracy is None else f"{each.accuracy:.4f}"
        name = escape_formula(each.name or "")
        rows.writerow(
            [
                escape_formula(each.worker),
                name,
                each.judged,
                f"{each.hours:.4f}",
                f"{each.pay:.2f}",
                each.checked,
                accuracy,
            ]
        )
    return text.getvalue()


@dataclass(frozen=True, slots=True)
class WorkerSummary:
    """The work of one worker."""

    qualifications: tuple[Qualification, ...]
    judged: dict[Task, int]
    hours: float
    pay: float
    photos: int
    finished: int


def summarize_worker(project: Project, worker: str) -> WorkerSummary:
    """Summarize the work of a worker; missing qualifications are computed and stored."""
    with project.database.writing() as connection:
        _, levels = lock_worker(project, connection, worker)
        used = tasks_in_use(project, connection)
        found = tuple(
            update_qualification(project, connection, worker, task)
            if level is Level.TEST
            else Qualification(task, level)
            for task, level in levels.items()
            if task in used
        )
        rows = connection.execute(
            select(events.c.task, func.count(), func.sum(counted_seconds(project)))
            .where(events.c.worker == worker, _IS_JUDGEMENT)
            .group_by(events.c.task)
        ).all()
        total, finished = connection.execute(
            select(func.count(), func.count().filter(photos.c.finished)).where(photos.c.known.is_(False))
        ).one()
    hours = sum(float(seconds or 0) for _, _, seconds in rows) / _HOUR
    judged = {Task(task): count for task, count, _ in rows}
    return WorkerSummary(found, judged, hours, hours * project.settings.pay_per_hour, total, finished)
