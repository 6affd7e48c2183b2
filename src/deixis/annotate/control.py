"""Quality control (§2.3): answers that can be checked, the standings that follow, and what a suspension takes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select, update

from deixis import geometry
from deixis.annotate.people import Worker
from deixis.annotate.project import Project
from deixis.annotate.standing import Bars, Check, Level, Purpose, answered_in_test, is_reliable, level_of
from deixis.annotate.state import PhotoState
from deixis.annotate.store import statements
from deixis.annotate.store.schema import checks, events, leases, questions, requeue, standings
from deixis.annotate.walks import XYXY, Answer, Task

_DRAWN_OR_NOT = {Answer.BOX: True, Answer.SCENE: False, Answer.NO_BOX: False}


def is_right(task: Task, answer: Answer, box: XYXY | None, expected: Answer, boxes: Sequence[XYXY], iou: float) -> bool:
    """Whether an answer to a known question is right. Scene and no box are not told apart: people honestly differ.

    Examples
    --------
    >>> is_right(Task.REQUIREMENT, Answer.SCENE, None, Answer.NO_BOX, [], 0.5)
    True
    >>> is_right(Task.DRAWING, Answer.DRAWN, (0, 0, 10, 9), Answer.DRAWN, [(0, 0, 10, 10)], 0.5)
    True
    """
    if task is Task.REQUIREMENT:
        return _DRAWN_OR_NOT[answer] == _DRAWN_OR_NOT[expected]
    if task is Task.DRAWING and answer is expected is Answer.DRAWN and box is not None:
        return bool((geometry.iou([box], boxes) >= iou).any())
    return answer is expected


def levels_of(project: Project, connection: Connection, worker: Worker, found: Mapping[str, str]) -> dict[Task, Level]:
    """What a worker may do in each task, from the standings that are written down; those that are missing are added."""
    settings = project.settings
    short = worker.history_items < settings.history_items or worker.history_accuracy < settings.history_accuracy
    if short and not worker.vouched and not worker.reviews:
        return dict.fromkeys(Task, Level.NO_HISTORY)
    return {
        task: Level(found[task]) if task in found else update_standing(project, connection, worker.id, task)
        for task in Task
    }


@dataclass(frozen=True, slots=True)
class Standing:
    """Where somebody stands in a task; `test` is how many questions of it are answered, and how many it has."""

    task: Task
    level: Level
    test: tuple[int, int] | None = None


def update_standing(project: Project, connection: Connection, worker: str, task: Task) -> Level:
    """Work out a standing anew; a suspension queues again what the worker did."""
    return standing_in(project, connection, worker, task).level


def standing_in(project: Project, connection: Connection, worker: str, task: Task) -> Standing:
    """The same, and how far the test is."""
    mine = {"its_worker": worker, "its_task": task.value}
    row = connection.execute(statements.STANDING_AND_KNOWN, mine).one()
    if row.level == Level.SUSPENDED:
        return Standing(task, Level.SUSPENDED)
    rows = connection.execute(statements.CHECKS_AFTER, mine | {"its_number": row.after or 0})
    found = [Check(Purpose(purpose), right) for purpose, right in rows]
    bars = Bars.of(task, row.known, project.settings)
    level = level_of(task, found, bars, project.settings)
    if row.level is None:
        values = {"worker": worker, "task": task.value, "level": level.value, "after": 0}
        connection.execute(statements.NEW_STANDING, values)
    elif row.level != level:
        connection.execute(statements.STANDING_CHANGED, mine | {"its_level": level.value})
    if level is Level.SUSPENDED:
        _queue_again(connection, worker, task)
    if level is not Level.TEST:
        return Standing(task, level)
    answers = [check.right for check in found if check.purpose is Purpose.TEST]
    return Standing(task, level, (answered_in_test(answers, bars.test, project.settings), bars.test))


def suspend_unreliable(project: Project, connection: Connection, worker: str) -> None:
    """Suspend a worker from all tasks whose hidden answers are too often wrong in all of them together."""
    newest = connection.scalars(
        statements.LAST_HIDDEN, {"its_worker": worker, "most": project.settings.rolling_items}
    ).all()
    if is_reliable(list(newest), project.settings):
        return
    theirs = standings.c.worker == worker
    connection.execute(update(standings).where(theirs).values(level=Level.SUSPENDED.value))
    for task in connection.scalars(select(standings.c.task).where(theirs)).all():
        _queue_again(connection, worker, Task(task))


def _queue_again(connection: Connection, worker: str, task: Task) -> None:
    there = set(
        connection.scalars(select(requeue.c.photo).where(requeue.c.worker == worker, requeue.c.task == task.value))
    )
    judged = connection.scalars(
        select(events.c.photo)
        .where(events.c.worker == worker, events.c.task == task.value, events.c.known.is_(None))
        .distinct()
    )
    held = (leases.c.worker == worker) & (leases.c.task == task.value) & (leases.c.state == "open")
    free = select(leases.c.question).where(held, leases.c.question.is_not(None))
    connection.execute(update(questions).where(questions.c.number.in_(free)).values(leased_until=0.0))
    connection.execute(update(leases).where(held).values(state="lost"))
    if rows := [{"worker": worker, "task": task.value, "photo": photo} for photo in judged if photo not in there]:
        connection.execute(insert(requeue), rows)


def reinstate(project: Project, connection: Connection, worker: str, task: Task) -> Level:
    """Forgive what was wrong so far and begin with the test again; what was queued again stays so."""
    last = connection.scalar(select(func.max(checks.c.number)).where(checks.c.worker == worker)) or 0
    mine = (standings.c.worker == worker) & (standings.c.task == task.value)
    connection.execute(update(standings).where(mine).values(level=Level.TEST.value, after=last))
    return update_standing(project, connection, worker, task)


def note_check(
    connection: Connection,
    worker: str,
    task: Task,
    purpose: Purpose,
    *,
    known_question: int | None = None,
    event: int | None = None,
    right: bool | None = None,
) -> None:
    """Write down an answer that can be checked, now (`right`) or later."""
    values = {"worker": worker, "task": task.value, "purpose": purpose.value}
    connection.execute(statements.NEW_CHECK, values | {"known": known_question, "event": event, "right": right})


def void_check(connection: Connection, event: int) -> None:
    """An answer that its worker has taken back says nothing about them."""
    connection.execute(update(checks).where(checks.c.event == event).values(right=None))


def update_box_checks(project: Project, connection: Connection, before: PhotoState, after: PhotoState) -> None:
    """Carry what Quality says of boxes over to those who drew them, also when it is taken back."""
    old, new = _judged_boxes(before), _judged_boxes(after)
    changed = {box: new.get(box) for box in old.keys() | new.keys() if old.get(box) != new.get(box)}
    drawers = set()
    for box, right in changed.items():
        drawer = connection.execute(statements.BOX_JUDGED, {"its_number": box, "its_right": right}).scalar()
        if drawer is not None:
            drawers.add(drawer)
    for drawer in sorted(drawers):
        update_standing(project, connection, drawer, Task.DRAWING)


def _judged_boxes(state: PhotoState) -> dict[int, bool]:
    """By the event that drew it, whether each judged box was good."""
    found = {}
    for chain in state.chains:
        drawn: int | None = None
        for number, edge in chain.taken:
            if edge.at is Task.DRAWING:
                drawn = number
            elif edge.at is Task.QUALITY and drawn is not None:
                found[drawn] = edge.answers == (Answer.GOOD,)
    return found
