"""Recording what workers do: one transaction each, and one event however often it is sent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from deixis.annotate import control
from deixis.annotate.changing import Changing, RefusedError, add_event, event_of
from deixis.annotate.events import Judged, Skipped, Undone, undone_now
from deixis.annotate.people import read_worker
from deixis.annotate.project import Project
from deixis.annotate.standing import Purpose
from deixis.annotate.store import statements
from deixis.annotate.store.schema import events, photos
from deixis.annotate.walks import XYXY, Answer, Place, Task
from deixis.annotate.workflow import answers_to

SMALLEST_SIDE = 1.0
"""Pixels; whatever is smaller is a slip of the hand."""

_TOO_LONG_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is kept for good: the number of its event, and whether it had been sent before."""

    event: int
    again: bool = False


def record(
    project: Project,
    worker: str,
    token: str,
    answer: str,
    *,
    box: XYXY | None = None,
    seconds: float = 0.0,
    remark: str = "",
) -> Recorded:
    """Keep the answer to a question that was given to a worker.

    Parameters
    ----------
    project, worker
        Where, and who.
    token
        That of the question, as `deixis.annotate.assigning.next_question` gave it.
    answer
        One of the task's answers.
    box
        For the answer "drawn", in pixels of the photo.
    seconds
        How long it took.
    remark
        What the worker has to say about it; it goes to the reviewers.

    Raises
    ------
    RefusedError
        Where the question is not this worker's, was taken back, or cannot be answered so.
    """

    def work(connection: Connection) -> tuple[Recorded, Changing | None]:
        lease = _lease(connection, worker, token)
        if lease.state == "answered":
            return _again(connection, token), None
        said = parse_answer(Task(lease.task), answer)
        drawn = _checked_box(connection, lease.photo, said, box)
        body = {"answer": said.value} | ({"box": list(drawn)} if drawn else {})
        number, changing = _add(project, connection, lease, Judged.kind, body, seconds, remark)
        if changing is None:
            _check(project, connection, lease, said, drawn, number)
            return Recorded(number), None
        if said is Answer.DRAWN:
            control.note_check(connection, worker, Task.DRAWING, Purpose.WORK, event=number)
        changing.settle()
        return Recorded(number), changing

    return project.database.run(work, _keep)[0]


def skip(
    project: Project,
    worker: str,
    token: str,
    *,
    bad_phrase: str | None = None,
    seconds: float = 0.0,
    remark: str = "",
) -> Recorded:
    """Give a question back, perhaps because a phrase is none, or because there is something to say about it.

    Parameters are those of `record`; `bad_phrase` is one of the question's mentions.
    """

    def work(connection: Connection) -> tuple[Recorded, Changing | None]:
        lease = _lease(connection, worker, token)
        if lease.state == "answered":
            return _again(connection, token), None
        if bad_phrase is not None and bad_phrase not in lease.asked["mentions"]:
            raise RefusedError(f"{bad_phrase!r} is no mention of this question")
        body = {"bad_phrase": bad_phrase} if bad_phrase else {}
        number, changing = _add(project, connection, lease, Skipped.kind, body, seconds, remark)
        if changing is None:
            purpose = Purpose(lease.purpose)
            control.note_check(connection, worker, Task(lease.task), purpose, known_question=lease.known)
        else:
            changing.settle()
        return Recorded(number), changing

    return project.database.run(work, _keep)[0]


def undo(project: Project, worker: str, event: int) -> Recorded:
    """Take an event back: a worker their own judgement, a reviewer anything. Taking it back twice is once."""

    def work(connection: Connection) -> tuple[Recorded, Changing | None]:
        who = read_worker(connection, worker)
        columns = (events.c.photo, events.c.worker, events.c.kind, events.c.known)
        row = connection.execute(select(*columns).where(events.c.number == event)).first()
        if row is None:
            raise RefusedError(f"there is no event {event}")
        own = row.worker == worker and row.kind in (Judged.kind, Skipped.kind)
        if not (own or who.reviews):
            raise RefusedError(f"event {event} cannot be taken back by {who.name or who.id}")
        if row.known is not None:  # must look like any other
            return _undo_known(project, connection, row.photo, row.known, worker, event), None
        changing = Changing(project, connection, row.photo)
        before = [other for other in changing.folded.events if isinstance(other, Undone) and other.event == event]
        if event in undone_now(changing.folded.events):
            return Recorded(before[-1].number, again=True), None
        number = changing.add(f"undo:{event}:{len(before)}", worker, Undone.kind, {"event": event})
        changing.settle()
        return Recorded(number), changing

    return project.database.run(work, _keep)[0]


def _undo_known(project: Project, connection: Connection, photo: str, known: int, worker: str, event: int) -> Recorded:
    key = f"undo:{event}:0"
    if (before := event_of(connection, key)) is not None:
        return Recorded(before, again=True)
    control.void_check(connection, event)
    body = {"event": event}
    number = add_event(project, connection, key, photo, worker, Undone.kind, body, known_question=known)
    return Recorded(number)


def parse_answer(place: Place, answer: str) -> Answer:
    """One of the answers that a task takes, from what came in."""
    for possible in answers_to(place):
        if possible.value == answer:
            return possible
    choices = ", ".join(possible.value for possible in answers_to(place))
    raise RefusedError(f"{answer[:40]!r} is no answer in {place.value}; choose one of: {choices}")


def _lease(connection: Connection, worker: str, token: str) -> Row[Any]:
    well_formed = token.isascii() and token.isprintable()  # some databases cannot even be asked for the others
    row = connection.execute(statements.LEASE, {"its_token": token}).first() if well_formed else None
    if row is None or row.worker != worker:  # another worker's token looks like one that never was
        raise RefusedError("this question was never given to you")
    if row.state == "lost":
        raise RefusedError("this question was taken back, because it waited too long or is not asked any more")
    return row


def _again(connection: Connection, token: str) -> Recorded:
    number = event_of(connection, token)
    if number is None:
        raise RefusedError("this question was answered already")
    return Recorded(number, again=True)


def _add(
    project: Project,
    connection: Connection,
    lease: Row[Any],
    kind: str,
    body: dict[str, Any],
    seconds: float,
    remark: str,
) -> tuple[int, Changing | None]:
    """Add the event that answers a question, which is then free again; and the photo, if it changes it."""
    body = {"task": lease.task, "subject": lease.subject, "seconds": _checked_seconds(seconds)} | body
    connection.execute(statements.LEASE_ANSWERED, {"its_token": lease.token})
    if lease.known is None:
        connection.execute(statements.QUESTION_LEASED, {"its_number": lease.question, "until": 0.0})
        changing = Changing(project, connection, lease.photo)
        return changing.add(lease.token, lease.worker, kind, body, remark=remark), changing
    number = add_event(
        project,
        connection,
        lease.token,
        lease.photo,
        lease.worker,
        kind,
        body,
        remark=remark,
        known_question=lease.known,
    )
    return number, None


def _keep(done: tuple[Recorded, Changing | None]) -> None:
    if done[1] is not None:
        done[1].keep()


def _check(
    project: Project, connection: Connection, lease: Row[Any], said: Answer, box: XYXY | None, number: int
) -> None:
    """See whether a known answer is right, and what that means for the worker."""
    task = Task(lease.task)
    row = connection.execute(statements.KNOWN, {"its_number": lease.known}).one()
    right = control.is_right(task, said, box, Answer(row.answer), row.boxes, project.settings.good_box_iou)
    purpose = Purpose(lease.purpose)
    control.note_check(connection, lease.worker, task, purpose, known_question=lease.known, event=number, right=right)
    control.update_standing(project, connection, lease.worker, task)
    if purpose is Purpose.HIDDEN:
        control.suspend_unreliable(project, connection, lease.worker)


def _checked_box(connection: Connection, photo: str, said: Answer, box: XYXY | None) -> XYXY | None:
    """The box, if it is one of this photo."""
    if said is not Answer.DRAWN:
        if box is not None:
            raise RefusedError(f"a box came with the answer {said.value!r}")
        return None
    if box is None or len(box) != 4 or not all(isinstance(side, int | float) and math.isfinite(side) for side in box):
        raise RefusedError("a drawn box is four finite numbers: x1, y1, x2, y2")
    x1, y1, x2, y2 = (float(side) for side in box)
    if x2 - x1 < SMALLEST_SIDE or y2 - y1 < SMALLEST_SIDE:
        raise RefusedError(f"the box {x1:g}, {y1:g}, {x2:g}, {y2:g} is less than a pixel wide or high")
    material = connection.scalar(select(photos.c.material).where(photos.c.id == photo))
    width, height = (material["width"], material["height"]) if material else (0, 0)
    if x1 < 0 or y1 < 0 or x2 > width or y2 > height:
        raise RefusedError(f"the box {x1:g}, {y1:g}, {x2:g}, {y2:g} leaves the photo, which is {width} × {height}")
    return x1, y1, x2, y2


def _checked_seconds(seconds: float) -> float:
    """A time that can be true; pages may send anything."""
    return min(max(float(seconds), 0.0), _TOO_LONG_S) if math.isfinite(seconds) else 0.0
