"""Quality control (section 2.3 of the paper): checked answers, qualification levels and suspensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Connection, Integer, String, bindparam, func, insert, select, update

from deixis import geometry
from deixis.annotate.chains import ChainState
from deixis.annotate.people import IS_ACTIVE, WORKER_COLUMNS, Role, Worker, make_worker, release_questions
from deixis.annotate.settings import Settings, max_wrong
from deixis.annotate.state import PhotoState
from deixis.annotate.store import checks, events, known_questions, qualifications, requeue, workers
from deixis.annotate.workflow import XYXY, Answer, Task
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.annotate.project import Project

_WORKER = bindparam("p_worker", type_=String)
_TASK = bindparam("p_task", type_=String)
_BY_NUMBER = bindparam("p_number", type_=BigInteger)

# One row per task. The lock keeps two pages of one worker from requesting questions at the same time.
_LOCK_WORKER_AND_LEVELS = (
    select(*WORKER_COLUMNS, qualifications.c.task, qualifications.c.level)
    .outerjoin(qualifications, qualifications.c.worker == workers.c.id)
    .where(workers.c.id == _WORKER)
    .with_for_update(of=workers)
)

_SAME_QUALIFICATION = (qualifications.c.worker == _WORKER) & (qualifications.c.task == _TASK)

_QUALIFICATION_AND_KNOWN = select(
    select(qualifications.c.level).where(_SAME_QUALIFICATION).scalar_subquery().label("level"),
    select(qualifications.c.after).where(_SAME_QUALIFICATION).scalar_subquery().label("after"),
    select(func.count(known_questions.c.number))
    .where(known_questions.c.task == _TASK)
    .scalar_subquery()
    .label("known"),
)

_UPDATE_QUALIFICATION = update(qualifications).where(_SAME_QUALIFICATION).values(level=bindparam("p_level"))

_CHECKS_AFTER = (
    select(checks.c.purpose, checks.c.right)
    .where(
        checks.c.worker == _WORKER,
        checks.c.task == _TASK,
        checks.c.right.is_not(None),
        checks.c.number > _BY_NUMBER,
    )
    .order_by(checks.c.number)
)

_LAST_HIDDEN_CHECKS = (
    select(checks.c.right)
    .where(checks.c.worker == _WORKER, checks.c.purpose == "hidden", checks.c.right.is_not(None))
    .order_by(checks.c.number.desc())
    .limit(bindparam("p_limit", type_=Integer))
)

_JUDGE_BOX = (
    update(checks).where(checks.c.event == _BY_NUMBER).values(right=bindparam("p_right")).returning(checks.c.worker)
)


_SEE = update(workers).where(workers.c.id == _WORKER).values(seen_at=bindparam("seen_at"))
_SEEN_INTERVAL_S = 60.0

REVIEWED = "A reviewer of this project decided so."

_GUESSED, _GUESSED_OF = 5, 10
"""Five wrong of the last ten answers are as good as guessing, and end the trust."""


class Level(StrEnum):
    """Qualification of a worker for a task."""

    NO_HISTORY = "history too short"
    TEST = "in the test"
    FIRST = "first items"
    TRUSTED = "trusted"
    FAILED = "failed the test"
    SUSPENDED = "suspended"


NO_WORK = (Level.NO_HISTORY, Level.FAILED, Level.SUSPENDED)
"""Levels at which a worker gets no questions."""


class Purpose(StrEnum):
    """Why a worker gets a question: to make data, or to check the worker by a known answer."""

    WORK = "work"
    TEST = "test"
    FIRST = "first"
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class Check:
    """One checked answer; with purpose `WORK`, a drawn box that others judged."""

    purpose: Purpose
    correct: bool


@dataclass(frozen=True, slots=True)
class QualificationTest:
    """A test so far: `done` of `of` questions of an attempt, and how many were and may be wrong."""

    done: int
    of: int
    wrong: int
    allowed: int
    attempt: int  # from 1
    attempts: int


@dataclass(frozen=True, slots=True)
class StageSizes:
    """Number of questions in the test and in the first items."""

    test: int
    first: int


def stage_sizes(task: Task, available: int, settings: Settings) -> StageSizes:
    """Reduce the stages of a task if the project has too few known questions (`available`)."""
    test = min(settings.test_questions, available // 4)
    if task is Task.DRAWING:  # the boxes of the first items are judged by other workers
        return StageSizes(test, settings.first_items)
    return StageSizes(test, min(settings.first_items, available - test))


def compute_level(task: Task, checks: Sequence[Check], sizes: StageSizes, settings: Settings) -> Level:
    """Compute the level of a worker from all checked answers, earliest first.

    | stage | passed | failed |
    |---|---|---|
    | test | `test_accuracy` of `test_questions`: first items | too many wrong in each of `test_attempts`: failed |
    | first items | `first_accuracy` or `first_boxes_good` of `first_items`: trusted | too many wrong: suspended |
    | trusted | | below `rolling_accuracy` over the last `rolling_items`, or five of ten wrong: suspended |

    A stage ends as soon as its result is certain. After the test, one wrong answer alone never suspends.
    """
    tests = [check.correct for check in checks if check.purpose is Purpose.TEST]
    test_level, _ = follow_test(tests, sizes.test, settings)
    if test_level is not None:
        return test_level
    later = [check.correct for check in checks if check.purpose is not Purpose.TEST]
    accuracy = settings.first_boxes_good if task is Task.DRAWING else settings.first_accuracy
    first = later[: sizes.first]
    if first.count(False) > max(max_wrong(sizes.first, accuracy), 1):
        return Level.SUSPENDED
    if len(first) < sizes.first:
        return Level.FIRST
    accuracy = min(accuracy, settings.rolling_accuracy)
    for end in range(sizes.first + 1, len(later) + 1):
        if not _keeps_accuracy(later[:end], settings.rolling_items, accuracy):
            return Level.SUSPENDED
    return Level.TRUSTED


def is_reliable(hidden: Sequence[bool], settings: Settings) -> bool:
    """Return whether a worker's last hidden answers, in all tasks together, are accurate enough.

    A worker who turns bad after the first items is wrong in all tasks, which shows sooner in all of them together.
    """
    return _keeps_accuracy(hidden, settings.rolling_items, settings.rolling_accuracy)


def _keeps_accuracy(answers: Sequence[bool], items: int, accuracy: float) -> bool:
    """Whether the last answers are accurate enough, and not as good as guessing lately (ours; §2.3 has no numbers)."""
    wrong, lately = list(answers[-items:]).count(False), list(answers[-_GUESSED_OF:]).count(False)
    return wrong <= max(max_wrong(items, accuracy), 1) and (lately < _GUESSED or accuracy == 0)


def follow_test(answers: Sequence[bool], length: int, settings: Settings) -> tuple[Level | None, QualificationTest]:
    """Return `TEST`, `FAILED`, or None once the test is passed, and the state of the last attempt."""
    allowed, attempts = max_wrong(length, settings.test_accuracy), settings.test_attempts
    state = QualificationTest(0, length, 0, allowed, 1, attempts)
    if length == 0:
        return None, state
    for correct in answers:
        state = replace(state, done=state.done + 1, wrong=state.wrong + (not correct))
        if state.wrong > allowed:
            if state.attempt == attempts:
                return Level.FAILED, state
            state = QualificationTest(0, length, 0, allowed, state.attempt + 1, attempts)
        elif state.done == length:
            return None, state
    return Level.TEST, state


def is_correct(
    task: Task,
    answer: str,
    box: XYXY | None,
    expected: Answer,
    boxes: Sequence[XYXY],
    min_iou: float,
    shown: XYXY | None = None,
) -> bool:
    """Compare an answer with the known one. "scene" and "no box" count as equal, because workers honestly differ.

    An adjusted box is correct if it fits one of the correct boxes. Where these are not known, it must stay near a good
    box that was `shown`.
    """
    if task is Task.REQUIREMENT:
        return (answer is Answer.BOX) == (expected is Answer.BOX)
    if task is Task.DRAWING and answer is expected is Answer.DRAWN and box is not None:
        return bool((geometry.iou([box], boxes) >= min_iou).any())
    if answer is Answer.ADJUSTED and box is not None:
        fitting = boxes or ([shown] if shown is not None and expected is Answer.GOOD else [])
        return bool(len(fitting)) and bool((geometry.iou([box], fitting) >= min_iou).any())
    return answer is expected


@dataclass(frozen=True, slots=True)
class Lesson:
    """Whether an answer was right, the known answer, why it is right, and boxes that show it."""

    correct: bool
    answer: str
    why: str
    boxes: tuple[XYXY, ...] = ()


def make_lesson(known: Any, correct: bool, box: XYXY | None, min_iou: float) -> Lesson:
    """Make the lesson after an answer to a known question, a row of its table; `box` was drawn by the worker."""
    stored = known.lesson or {"why": REVIEWED if known.reviewed else "", "boxes": known.boxes}
    boxes = tuple(tuple(each) for each in stored["boxes"])
    why = stored["why"]
    if Task(known.task) in (Task.DRAWING, Task.QUALITY) and box is not None and boxes:
        overlap = float(geometry.iou([box], boxes).max())
        why = f"{why} Yours overlaps {overlap:.0%} with the closest one; {min_iou:.0%} is needed.".strip()
    return Lesson(correct, known.answer, why, boxes)


def lock_worker(project: Project, connection: Connection, worker_id: str) -> tuple[Worker, dict[Task, Level]]:
    """Lock a worker and return them with their level in each task; levels not stored yet are computed and stored."""
    rows = connection.execute(_LOCK_WORKER_AND_LEVELS, {"p_worker": worker_id}).all()
    if not rows:
        raise DeixisError(f"no worker {worker_id!r} in this project")
    worker, settings, now = make_worker(rows[0]), project.settings, project.clock()
    if rows[0].seen_at is None or now - rows[0].seen_at > _SEEN_INTERVAL_S:
        connection.execute(_SEE, {"p_worker": worker_id, "seen_at": now})
    if not worker.has_history(settings):
        return worker, dict.fromkeys(Task, Level.NO_HISTORY)
    stored = {row.task: row.level for row in rows}
    return worker, {
        task: Level(stored.get(task) or update_qualification(project, connection, worker_id, task).level)
        for task in Task
    }


@dataclass(frozen=True, slots=True)
class AbleWorkers:
    """Those who may work on each task, and those of them who are present."""

    all: Mapping[Task, set[str]]
    present: Mapping[Task, set[str]]


def read_able_workers(project: Project, connection: Connection, *, everybody: bool = False) -> AbleWorkers:
    """Find who has joined, is qualified and has been seen lately.

    Reviewers and owners count only with `everybody`, or if there are no workers. If nobody who may do anything is
    present, at night, nobody counts as absent.
    """
    rows = connection.execute(select(*WORKER_COLUMNS, workers.c.joined_at).where(IS_ACTIVE)).all()
    asked = rows if everybody else [row for row in rows if row.role == Role.WORKER] or rows
    since = project.clock() - project.settings.absent_after_h * 3600
    qualified = {row.id for row in asked if make_worker(row).has_history(project.settings)}
    levels = select(qualifications.c.worker, qualifications.c.task).where(qualifications.c.level.in_(NO_WORK))
    excluded = {(row.worker, row.task) for row in connection.execute(levels)}
    able = {task: {worker for worker in qualified if (worker, task.value) not in excluded} for task in Task}
    anybody = set().union(*able.values())
    present = {row.id for row in asked if row.id in anybody and (row.seen_at or row.joined_at) >= since} or anybody
    return AbleWorkers(able, {task: found & present for task, found in able.items()})


@dataclass(frozen=True, slots=True)
class Qualification:
    """The level of a worker in a task, and the state of a test that is not over."""

    task: Task
    level: Level
    test: QualificationTest | None = None


def update_qualification(project: Project, connection: Connection, worker: str, task: Task) -> Qualification:
    """Compute and store the level of a worker; on suspension, their judgements are queued again."""
    key = {"p_worker": worker, "p_task": task.value}
    row = connection.execute(_QUALIFICATION_AND_KNOWN, key).one()
    if row.level == Level.SUSPENDED:
        return Qualification(task, Level.SUSPENDED)
    rows = connection.execute(_CHECKS_AFTER, key | {"p_number": row.after or 0})
    found = [Check(Purpose(purpose), correct) for purpose, correct in rows]
    sizes = stage_sizes(task, row.known, project.settings)
    level = compute_level(task, found, sizes, project.settings)
    if row.level is None:
        values = {"worker": worker, "task": task.value, "level": level.value, "after": 0}
        connection.execute(insert(qualifications), values)
    elif row.level != level:
        connection.execute(_UPDATE_QUALIFICATION, key | {"p_level": level.value})
    if level is Level.SUSPENDED:
        _requeue_judgements(connection, worker, task)
    if level is not Level.TEST:
        return Qualification(task, level)
    answers = [check.correct for check in found if check.purpose is Purpose.TEST]
    return Qualification(task, level, follow_test(answers, sizes.test, project.settings)[1])


def suspend_unreliable(project: Project, connection: Connection, worker: str) -> None:
    """Suspend a worker from all tasks if their hidden answers are wrong too often."""
    parameters = {"p_worker": worker, "p_limit": max(project.settings.rolling_items, _GUESSED_OF)}
    newest = connection.scalars(_LAST_HIDDEN_CHECKS, parameters).all()
    if is_reliable(newest[::-1], project.settings):
        return
    same_worker = qualifications.c.worker == worker
    connection.execute(update(qualifications).where(same_worker).values(level=Level.SUSPENDED.value))
    for task in connection.scalars(select(qualifications.c.task).where(same_worker)).all():
        _requeue_judgements(connection, worker, Task(task))


def _requeue_judgements(connection: Connection, worker: str, task: Task) -> None:
    """Release the worker's questions, and list their photos for `deixis.annotate.project.requeue_suspended`."""
    listed = set(
        connection.scalars(select(requeue.c.photo).where(requeue.c.worker == worker, requeue.c.task == task.value))
    )
    judged = connection.scalars(
        select(events.c.photo)
        .where(events.c.worker == worker, events.c.task == task.value, events.c.known.is_(None))
        .distinct()
    )
    release_questions(connection, worker, task.value)
    if rows := [{"worker": worker, "task": task.value, "photo": photo} for photo in judged if photo not in listed]:
        connection.execute(insert(requeue), rows)


def reinstate(project: Project, connection: Connection, worker: str, task: Task) -> Level:
    """Ignore the worker's earlier checks and start with the test again; requeued judgements stay excluded."""
    last = connection.scalar(select(func.max(checks.c.number)).where(checks.c.worker == worker)) or 0
    key = (qualifications.c.worker == worker) & (qualifications.c.task == task.value)
    connection.execute(update(qualifications).where(key).values(level=Level.TEST.value, after=last))
    return update_qualification(project, connection, worker, task).level


def add_check(
    connection: Connection,
    worker: str,
    task: Task,
    purpose: Purpose,
    *,
    event: int | None = None,
    known_question: int | None = None,
    correct: bool | None = None,
) -> None:
    """Store an answer that is checked now, or later if `correct` is None."""
    values = {"worker": worker, "task": task.value, "purpose": purpose.value, "event": event}
    connection.execute(insert(checks), values | {"known": known_question, "right": correct})


def void_check(connection: Connection, event: int) -> None:
    """Ignore the check of an answer that was undone."""
    connection.execute(update(checks).where(checks.c.event == event).values(right=None))


def update_box_checks(project: Project, connection: Connection, before: PhotoState, after: PhotoState) -> None:
    """Check drawn boxes by the judgements of the quality task that changed between two states of a photo."""
    min_iou = project.settings.good_box_iou
    old, new = _judged_boxes(before, min_iou), _judged_boxes(after, min_iou)
    changed = {box: new.get(box) for box in old.keys() | new.keys() if old.get(box) != new.get(box)}
    drawn_by = set()
    for box, correct in changed.items():
        worker = connection.execute(_JUDGE_BOX, {"p_number": box, "p_right": correct}).scalar()
        if worker is not None:
            drawn_by.add(worker)
    for worker in sorted(drawn_by):
        update_qualification(project, connection, worker, Task.DRAWING)


def _judged_boxes(state: PhotoState, min_iou: float) -> dict[int, bool]:
    """Map the event that drew a box to whether it was judged good. A box that was only adjusted a little is good."""
    found = {}
    for chain in state.chains:
        drawn: int | None = None
        pairs = chain.workflow.adjusted if chain.workflow else ()
        near = {before.id: bool(geometry.iou([before.xyxy], [after.xyxy])[0, 0] >= min_iou) for before, after in pairs}
        for number, transition in chain.transitions:
            if transition.stage is Task.DRAWING:
                drawn = number
            elif transition.stage is Task.QUALITY and drawn is not None:
                is_adjusted = Answer.ADJUSTED in transition.answers
                found[drawn] = near.get(f"b{drawn}", False) if is_adjusted else transition.answers == (Answer.GOOD,)
                drawn = number if is_adjusted else drawn
        found |= _corrected_boxes(chain, near)
    return found


def _corrected_boxes(chain: ChainState, near: Mapping[str, bool]) -> dict[int, bool]:
    """Return what a lead's corrections say about boxes of workers: deleted ones and ones moved elsewhere are bad."""
    pairs = chain.workflow.adjusted if chain.workflow and chain.corrected else ()
    moved = {before.id: near[before.id] for before, after in pairs if after.id.startswith("c")}
    judged = moved | {box.id: False for box in chain.discarded}
    return {int(name[1:]): correct for name, correct in judged.items() if name.startswith("b")}
