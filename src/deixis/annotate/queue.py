"""The queue of open questions: its rows follow the states of photos, and workers lease questions from it."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Connection, Float, String, bindparam, delete, exists, func, insert, select, update

from deixis.annotate.events import Judged
from deixis.annotate.quality import NO_WORK, Level, Purpose, lock_worker, read_able_workers
from deixis.annotate.state import PhotoState, linked_by
from deixis.annotate.store import assigned, barred, checks, events, known_questions, leases, questions
from deixis.annotate.workflow import TASK_NAMES, Question, Task

if TYPE_CHECKING:
    from deixis.annotate.project import Project

_LINKING = (Task.LINK, Task.GROUP)
_MAX_AVOIDED = 50
"""Number of questions that are left to others before a worker gets one of them after all."""

_WORKER = bindparam("p_worker", type_=String)
_TASK = bindparam("p_task", type_=String)
_PHOTO = bindparam("p_photo", type_=String)
_BY_NUMBER = bindparam("p_number", type_=BigInteger)
_NOW = bindparam("p_now", type_=Float)
_NUMBERS = bindparam("p_numbers", type_=BigInteger, expanding=True)

_HELD_LEASES = (
    select(leases)
    .where(leases.c.worker == _WORKER, leases.c.state == "open", leases.c.until > _NOW)
    .order_by(leases.c.until)
)

_QUESTION_COLUMNS = (
    questions.c.number,
    questions.c.task,
    questions.c.photo,
    questions.c.subject,
    questions.c.asked,
    questions.c.leased_until,
)

_IS_ASSIGNED = assigned.c.photo == questions.c.photo
_FOR_OTHERS = exists().where(_IS_ASSIGNED) & ~exists().where(_IS_ASSIGNED, assigned.c.worker == _WORKER)
_MAY_ANSWER = ~exists().where(barred.c.question == questions.c.number, barred.c.worker == _WORKER) & ~_FOR_OTHERS

_FIRST_OPEN_QUESTION = (
    select(*_QUESTION_COLUMNS)
    .where(
        questions.c.task.in_(bindparam("p_tasks", expanding=True)),
        questions.c.leased_until <= _NOW,
        _MAY_ANSWER,
    )
    .order_by(questions.c.place, questions.c.number)
    .limit(1)
    .with_for_update(skip_locked=True)
)

_FIRST_OPEN_BESIDES = _FIRST_OPEN_QUESTION.where(questions.c.number.not_in(bindparam("p_avoided", expanding=True)))

_HAS_ASSIGNED = select(assigned.c.photo).where(assigned.c.worker == _WORKER).limit(1)

_FIRST_OPEN_ASSIGNED = _FIRST_OPEN_QUESTION.where(exists().where(_IS_ASSIGNED, assigned.c.worker == _WORKER))

_FIRST_OPEN_OF_PHOTO = _FIRST_OPEN_QUESTION.where(questions.c.photo == _PHOTO)

# By what a worker stays with. A known question is about another photo, so it does not count as a change of photo.
_NEWEST_LEASE = select(leases.c.photo, leases.c.task).where(leases.c.worker == _WORKER)
_NEWEST_LEASE = _NEWEST_LEASE.order_by(leases.c.until.desc()).limit(1)
_LAST_LEASE = {"photo": _NEWEST_LEASE.where(leases.c.known.is_(None)), "task": _NEWEST_LEASE}

_OPEN_BUT_BARRED = select(func.count()).select_from(barred).where(barred.c.worker == _WORKER)

_OPEN_FOR_OTHERS = select(func.count()).select_from(questions).where(_FOR_OTHERS)

_OPEN_QUESTION = select(*_QUESTION_COLUMNS).where(
    questions.c.photo == _PHOTO,
    questions.c.task == _TASK,
    questions.c.subject == bindparam("p_subject"),
    questions.c.leased_until <= _NOW,
    _MAY_ANSWER,
)

_LEASE_BY_EVENT = (
    select(leases)
    .join(events, events.c.key == leases.c.token)
    .where(events.c.number == _BY_NUMBER, leases.c.worker == _WORKER)
)

_LEASE_QUESTION = update(questions).where(questions.c.number == _BY_NUMBER).values(leased_until=bindparam("p_until"))

# Known questions this worker has not seen; reviewed ones only about photos they have not worked on.
_UNSEEN_KNOWN_QUESTIONS = (
    select(known_questions.c.number)
    .where(
        known_questions.c.task == _TASK,
        known_questions.c.number.not_in(
            select(checks.c.known).where(
                checks.c.worker == _WORKER, checks.c.task == _TASK, checks.c.known.is_not(None)
            )
        ),
        known_questions.c.number.not_in(
            select(leases.c.known).where(
                leases.c.worker == _WORKER,
                leases.c.state == "open",
                leases.c.until > _NOW,
                leases.c.known.is_not(None),
            )
        ),
        known_questions.c.reviewed.is_(False)
        | known_questions.c.photo.not_in(select(events.c.photo).where(events.c.worker == _WORKER)),
    )
    .order_by(known_questions.c.number)
)

_EXPIRE_KNOWN_LEASE = (
    update(leases)
    .where(leases.c.worker == _WORKER, leases.c.known == _BY_NUMBER, leases.c.state == "open")
    .values(state="lost")
)

KNOWN_QUESTION = select(known_questions).where(known_questions.c.number == _BY_NUMBER)

# One row per barred worker, or one without a worker.
_PHOTO_QUESTIONS = (
    select(questions.c.number, questions.c.task, questions.c.subject, barred.c.worker)
    .outerjoin(barred, barred.c.question == questions.c.number)
    .where(questions.c.photo == _PHOTO)
)

_EXPIRE_LEASES = update(leases).where(leases.c.question.in_(_NUMBERS), leases.c.state == "open").values(state="lost")

_DELETE_QUESTIONS = delete(questions).where(questions.c.number.in_(_NUMBERS))


def update_questions(
    connection: Connection, photo: str, position: int, state: PhotoState, answered: int | None = None
) -> None:
    """Update the queued questions of a photo to its state.

    `answered` is the number of the question whose answer changed the state; its lease has ended already.
    """
    queued: dict[tuple[str, str], tuple[int, set[str]]] = {}
    for number, task, subject, worker in connection.execute(_PHOTO_QUESTIONS, {"p_photo": photo}):
        _, barred_workers = queued.setdefault((task, subject), (number, set()))
        if worker is not None:
            barred_workers.add(worker)
    wanted = {(question.task.value, question.subject): question for question in state.questions}
    gone = [number for key, (number, _) in queued.items() if key not in wanted]
    if gone:
        if gone != [answered]:
            connection.execute(_EXPIRE_LEASES, {"p_numbers": gone})
        connection.execute(_DELETE_QUESTIONS, {"p_numbers": gone})
    if answered is not None and answered not in gone:  # other workers still have to answer it
        connection.execute(_LEASE_QUESTION, {"p_number": answered, "p_until": 0.0})
    for key, question in wanted.items():
        if key in queued:
            _update_barred(connection, *queued[key], question.barred)
        else:
            _add_question(connection, position, question)


def _add_question(connection: Connection, position: int, question: Question) -> None:
    values = {"photo": question.photo, "place": position, "task": question.task.value, "subject": question.subject}
    values |= {"asked": question.as_json(), "leased_until": 0.0}
    inserted = connection.execute(insert(questions), values)
    if question.barred:
        number = int(inserted.inserted_primary_key[0])  # type: ignore[index]
        _update_barred(connection, number, frozenset(), question.barred)


def _update_barred(connection: Connection, number: int, before: Collection[str], after: Collection[str]) -> None:
    if new := sorted(set(after) - set(before)):
        connection.execute(insert(barred), [{"question": number, "worker": worker} for worker in new])
    if removed := sorted(set(before) - set(after)):
        connection.execute(delete(barred).where(barred.c.question == number, barred.c.worker.in_(removed)))


class Stay(StrEnum):
    """Photo and task that a worker prefers for the next question."""

    PHOTO = "photo"
    TASK = "task"


@dataclass(frozen=True, slots=True)
class LeasedQuestion:
    """A question reserved for one worker, who names it by its token."""

    token: str
    task: Task
    photo: str
    content: dict[str, Any]  # `Question.as_json`
    until: float
    test: bool  # part of the qualification test; hidden questions are not marked


def next_question(
    project: Project,
    connection: Connection,
    worker: str,
    *,
    exclude: Collection[str] = (),
    tasks: Collection[Task] = tuple(Task),
    stay: Stay | None = None,
) -> LeasedQuestion | None:
    """Lease the next question of a worker; None if there is none now.

    `exclude` lists the tokens of questions that the page already shows or has loaded. Other questions that the worker
    holds come first, oldest first, so that a reloaded page continues where it was, then photos assigned to the worker;
    those assigned to others are left out. `stay` prefers questions about the photo, or of the task, of the last one.
    Links that would leave nobody to verify a chain come last.
    """
    now = project.clock()
    found, levels = lock_worker(project, connection, worker)
    held = connection.execute(_HELD_LEASES, {"p_worker": worker, "p_now": now}).all()
    for row in held:
        if row.token not in exclude and row.task in tasks:
            is_test = row.purpose == Purpose.TEST
            return LeasedQuestion(row.token, Task(row.task), row.photo, row.asked, row.until, is_test)
    if len(held) >= project.settings.held_at_once or found.forgotten or found.suspended:
        return None
    open_tasks = [task for task in tasks if levels[task] not in NO_WORK]
    avoided: dict[int, Any] = {}  # for others, as long as there is other work
    while open_tasks:
        parameters = {"p_worker": worker, "p_tasks": [task.value for task in open_tasks], "p_now": now}
        question = _find_question(connection, parameters, stay, list(avoided))
        if question is None:
            break
        task = Task(question.task)
        purpose = _choose_purpose(project, task, levels[task])
        if purpose is not Purpose.WORK:
            known = _choose_known_question(project, connection, worker, task, now)
            if known is not None:
                return _lease(project, connection, worker, purpose, known, now)
        if purpose in (Purpose.WORK, Purpose.HIDDEN):
            if len(avoided) < _MAX_AVOIDED and _leaves_no_verifier(project, connection, worker, question):
                avoided[question.number] = question
                continue
            return _lease(project, connection, worker, Purpose.WORK, question, now)
        open_tasks.remove(task)  # the worker has seen all known questions that could qualify them
    first = next(iter(avoided.values()), None)
    return _lease(project, connection, worker, Purpose.WORK, first, now) if first else None


def _find_question(
    connection: Connection, parameters: dict[str, Any], stay: Stay | None, avoided: Collection[int]
) -> Any:
    if avoided:
        return connection.execute(_FIRST_OPEN_BESIDES, parameters | {"p_avoided": avoided}).first()
    near = _find_near(connection, parameters, stay) if stay else None
    if near is None and connection.execute(_HAS_ASSIGNED, {"p_worker": parameters["p_worker"]}).first():
        near = connection.execute(_FIRST_OPEN_ASSIGNED, parameters).first()
    return near or connection.execute(_FIRST_OPEN_QUESTION, parameters).first()


def _leaves_no_verifier(project: Project, connection: Connection, worker: str, question: Any) -> bool:
    """Whether everybody would have linked a mention of the chain if this worker did. It matters in small teams."""
    rules = project.settings
    if question.task not in _LINKING or not rules.independent or rules.verify_own:
        return False
    snapshot = project.snapshots.read(connection, question.photo)
    links = [event for event in snapshot.events if isinstance(event, Judged) and event.task in _LINKING]
    asked = set(question.asked["mentions"])
    chains = [chain for chain in snapshot.state.chains if asked & {mention.id for mention in chain.mentions}]
    linkers = {linker for chain in chains for linker in linked_by(chain, links)}
    if not linkers or worker in linkers:
        return False
    assigned_to = read_assigned(connection).get(question.photo)
    able = read_able_workers(project, connection, everybody=assigned_to is not None).present[Task.VERIFY]
    return not (able if assigned_to is None else able & assigned_to) - linkers - {worker}


def _find_near(connection: Connection, parameters: dict[str, Any], stay: Stay) -> Any:
    """Find the first open question about the photo, or of the task, of the worker's last question; None if none."""
    last = connection.execute(_LAST_LEASE[stay.value], {"p_worker": parameters["p_worker"]}).first()
    if last is None:
        return None
    if stay is Stay.PHOTO:
        return connection.execute(_FIRST_OPEN_OF_PHOTO, parameters | {"p_photo": last.photo}).first()
    if last.task not in parameters["p_tasks"]:
        return None
    return connection.execute(_FIRST_OPEN_QUESTION, parameters | {"p_tasks": [last.task]}).first()


def lease_again(project: Project, connection: Connection, worker: str, event: int) -> LeasedQuestion | None:
    """Lease the question that an undone event answered, known ones too; None if it is not open any more."""
    now = project.clock()
    lease = connection.execute(_LEASE_BY_EVENT, {"p_number": event, "p_worker": worker}).first()
    if lease is None:
        return None
    found, levels = lock_worker(project, connection, worker)
    if found.forgotten or levels[Task(lease.task)] in NO_WORK:
        return None
    if lease.known is not None:
        question = connection.execute(KNOWN_QUESTION, {"p_number": lease.known}).first()
    else:
        parameters = {"p_photo": lease.photo, "p_task": lease.task, "p_subject": lease.subject}
        question = connection.execute(_OPEN_QUESTION, parameters | {"p_worker": worker, "p_now": now}).first()
    if question is None or (question.photo, question.subject) != (lease.photo, lease.subject):
        return None  # numbers of known questions can be used again
    return _lease(project, connection, worker, Purpose(lease.purpose), question, now)


def explain_no_question(project: Project, connection: Connection, worker: str) -> str:
    """Say in one line for the worker why there is no question."""
    settings = project.settings
    found, levels = lock_worker(project, connection, worker)
    if found.suspended:
        return "the project's owner has suspended you"
    if all(level is Level.NO_HISTORY for level in levels.values()):
        needed = f"{settings.history_items} items with {settings.history_accuracy:.0%} accuracy"
        return f"this project requires {needed} done elsewhere; ask its owner to vouch for you"
    closed = [f"“{TASK_NAMES[task]}”" for task in Task if levels[task] in NO_WORK]
    if len(closed) == len(Task):
        return "too many of your answers were wrong, so you get no more questions; ask the project's owner"
    held = connection.execute(_HELD_LEASES, {"p_worker": worker, "p_now": project.clock()}).all()
    if len(held) >= settings.held_at_once:
        return f"{len(held)} questions already wait for your answers"
    others = connection.scalar(_OPEN_BUT_BARRED, {"p_worker": worker}) or 0
    reasons = [f"you are not qualified for {', '.join(closed)}"] if closed else []
    if others == 1:
        reasons.append("one open question needs somebody else, because you have worked on it or skipped it")
    elif others:
        reasons.append(f"{others} open questions need somebody else, because you have worked on them or skipped them")
    if elsewhere := connection.scalar(_OPEN_FOR_OTHERS, {"p_worker": worker}):
        reasons.append(f"{elsewhere} open questions are assigned to others")
    return "; ".join(["no questions at the moment", *reasons])


def read_assigned(connection: Connection) -> dict[str, set[str]]:
    """Return the workers by photo; nobody else is asked about these photos."""
    found: dict[str, set[str]] = {}
    for photo, worker in connection.execute(select(assigned.c.photo, assigned.c.worker)):
        found.setdefault(photo, set()).add(worker)
    return found


def _choose_purpose(project: Project, task: Task, level: Level) -> Purpose:
    if level is Level.TEST:
        return Purpose.TEST
    if task is Task.DRAWING:  # checked by the quality task
        return Purpose.WORK
    if level is Level.FIRST:
        return Purpose.FIRST
    hide = level is Level.TRUSTED and project.random.random() < project.settings.hidden_share
    return Purpose.HIDDEN if hide else Purpose.WORK


def _choose_known_question(project: Project, connection: Connection, worker: str, task: Task, now: float) -> Any:
    parameters = {"p_worker": worker, "p_task": task.value, "p_now": now}
    unseen = connection.scalars(_UNSEEN_KNOWN_QUESTIONS, parameters).all()
    if not unseen:
        return None
    return connection.execute(KNOWN_QUESTION, {"p_number": project.random.choice(unseen)}).one()


def _lease(
    project: Project, connection: Connection, worker: str, purpose: Purpose, question: Any, now: float
) -> LeasedQuestion:
    """Lease a row of the queue, or of the known questions if the purpose is a check."""
    token, until = secrets.token_urlsafe(12), now + project.settings.lease_s
    row: dict[str, Any] = {"token": token, "worker": worker, "purpose": purpose.value, "until": until, "state": "open"}
    row |= {"task": question.task, "photo": question.photo, "subject": question.subject, "asked": question.asked}
    if purpose is Purpose.WORK:
        row |= {"question": question.number, "known": None}
        if question.leased_until:
            connection.execute(_EXPIRE_LEASES, {"p_numbers": [question.number]})
        connection.execute(_LEASE_QUESTION, {"p_number": question.number, "p_until": until})
    else:
        row |= {"question": None, "known": question.number}
        connection.execute(_EXPIRE_KNOWN_LEASE, {"p_number": question.number, "p_worker": worker})
    connection.execute(insert(leases), row)
    return LeasedQuestion(token, Task(question.task), question.photo, question.asked, until, purpose is Purpose.TEST)
