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
from deixis.annotate.store.folds import read_size
from deixis.annotate.store.schema import events
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


@dataclass(frozen=True, slots=True)
class Done:
    """What a transaction recorded, the photo that it changed, and where the worker stands after a test question."""

    recorded: Recorded
    changing: Changing | None = None
    standing: control.Standing | None = None


class NeverGivenError(RefusedError):
    """A token that names no question of this worker's."""

    def __init__(self) -> None:
        super().__init__("this question was never given to you")


class TakenBackError(RefusedError):
    """A question that was given to this worker, and is not theirs any more."""

    def __init__(self) -> None:
        super().__init__("this question was taken back, because it waited too long or is not asked any more")


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
    done = project.database.run(
        lambda connection: take_answer(project, connection, worker, token, answer, box, seconds, remark), keep
    )
    return done.recorded


def take_answer(
    project: Project,
    connection: Connection,
    worker: str,
    token: str,
    answer: str,
    box: XYXY | None = None,
    seconds: float = 0.0,
    remark: str = "",
) -> Done:
    """`record` in a transaction that has begun; `keep` what it returns once that is committed."""
    lease = _taken(connection, worker, token)
    if isinstance(lease, Recorded):
        return Done(lease)
    said = parse_answer(Task(lease.task), answer)
    body: dict[str, Any] = {"answer": said.value}
    if lease.known is not None:
        size = read_size(connection, lease.photo) if said is Answer.DRAWN else (0, 0)
        drawn = _checked_box(size, said, box)
        number = _add_known(project, connection, lease, Judged.kind, _with_box(body, drawn), seconds, remark)
        standing = _check(project, connection, lease, said, drawn, number)
        return Done(Recorded(number), standing=standing if lease.purpose == Purpose.TEST else None)
    changing = Changing(project, connection, lease.photo)
    material = changing.folded.material
    drawn = _checked_box((material.width, material.height), said, box)
    body = _about(lease, seconds) | _with_box(body, drawn)
    number = changing.add(lease.token, lease.worker, Judged.kind, body, remark=remark)
    if said is Answer.DRAWN:
        control.note_check(connection, worker, Task.DRAWING, Purpose.WORK, event=number)
    changing.settle(answered=lease.question)
    return Done(Recorded(number), changing)


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
    done = project.database.run(
        lambda connection: take_back(project, connection, worker, token, bad_phrase, seconds, remark), keep
    )
    return done.recorded


def take_back(
    project: Project,
    connection: Connection,
    worker: str,
    token: str,
    bad_phrase: str | None = None,
    seconds: float = 0.0,
    remark: str = "",
) -> Done:
    """`skip` in a transaction that has begun; `keep` what it returns once that is committed."""
    lease = _taken(connection, worker, token)
    if isinstance(lease, Recorded):
        return Done(lease)
    if bad_phrase is not None and bad_phrase not in lease.asked["mentions"]:
        raise RefusedError(f"{bad_phrase[:40]!r} is no mention of this question")
    body = {"bad_phrase": bad_phrase} if bad_phrase else {}
    if lease.known is not None:
        number = _add_known(project, connection, lease, Skipped.kind, body, seconds, remark)
        purpose = Purpose(lease.purpose)
        control.note_check(connection, worker, Task(lease.task), purpose, known_question=lease.known, event=number)
        return Done(Recorded(number))
    changing = Changing(project, connection, lease.photo)
    number = changing.add(lease.token, lease.worker, Skipped.kind, _about(lease, seconds) | body, remark=remark)
    changing.settle(answered=lease.question)
    return Done(Recorded(number), changing)


def undo(project: Project, worker: str, event: int) -> Recorded:
    """Take an event back: a worker their own judgement, a reviewer anything. Taking it back twice is once."""
    return project.database.run(lambda connection: take_undo(project, connection, worker, event), keep).recorded


def take_undo(project: Project, connection: Connection, worker: str, event: int) -> Done:
    """`undo` in a transaction that has begun; `keep` what it returns once that is committed."""
    who = read_worker(connection, worker)
    columns = (events.c.photo, events.c.worker, events.c.kind, events.c.known)
    row = connection.execute(select(*columns).where(events.c.number == event)).first()
    if row is None:
        raise RefusedError(f"there is no event {event}")
    own = row.worker == worker and row.kind in (Judged.kind, Skipped.kind)
    if not (own or who.reviews):
        raise RefusedError(f"event {event} cannot be taken back by {who.name or who.id}")
    if row.known is not None:  # must look like any other
        return Done(_undo_known(project, connection, row.photo, row.known, worker, event))
    changing = Changing(project, connection, row.photo)
    before = [other for other in changing.folded.events if isinstance(other, Undone) and other.event == event]
    if event in undone_now(changing.folded.events):
        return Done(Recorded(before[-1].number, again=True))
    number = changing.add(f"undo:{event}:{len(before)}", worker, Undone.kind, {"event": event})
    changing.settle()
    return Done(Recorded(number), changing)


def keep(done: Done) -> None:
    """Remember the state of the photo that was changed."""
    if done.changing is not None:
        done.changing.keep()


def _undo_known(project: Project, connection: Connection, photo: str, known: int, worker: str, event: int) -> Recorded:
    key = f"undo:{event}:0"
    if (before := event_of(connection, key)) is not None:
        return Recorded(before, again=True)
    control.void_check(connection, event)
    body = {"event": event}
    at = project.clock()
    return Recorded(add_event(connection, key, photo, worker, at, Undone.kind, body, known_question=known))


def parse_answer(place: Place, answer: str) -> Answer:
    """One of the answers that a task takes, from what came in."""
    for possible in answers_to(place):
        if possible.value == answer:
            return possible
    choices = ", ".join(possible.value for possible in answers_to(place))
    raise RefusedError(f"{answer[:40]!r} is no answer in {place.value}; choose one of: {choices}")


def _taken(connection: Connection, worker: str, token: str) -> Row[Any] | Recorded:
    """The lease of a question, which is answered with this; or what was recorded when it came before."""
    well_formed = token.isascii() and token.isprintable()  # some databases cannot even be asked for the others
    if not well_formed:
        raise NeverGivenError
    row = connection.execute(statements.LEASE_ANSWERED, {"its_token": token, "its_worker": worker}).first()
    if row is not None:
        return row
    lease = connection.execute(statements.LEASE, {"its_token": token}).first()
    if lease is None or lease.worker != worker:  # another worker's token looks like one that never was
        raise NeverGivenError
    number = event_of(connection, token) if lease.state == "answered" else None
    if number is None:
        raise TakenBackError
    return Recorded(number, again=True)


def _about(lease: Row[Any], seconds: float) -> dict[str, Any]:
    return {"task": lease.task, "subject": lease.subject, "seconds": _checked_seconds(seconds)}


def _with_box(body: dict[str, Any], box: XYXY | None) -> dict[str, Any]:
    return body | ({"box": list(box)} if box else {})


def _add_known(
    project: Project,
    connection: Connection,
    lease: Row[Any],
    kind: str,
    body: dict[str, Any],
    seconds: float,
    remark: str,
) -> int:
    """Add an event that answers a known question, and so changes no photo."""
    return add_event(
        connection,
        lease.token,
        lease.photo,
        lease.worker,
        project.clock(),
        kind,
        _about(lease, seconds) | body,
        remark=remark,
        known_question=lease.known,
    )


def _check(
    project: Project, connection: Connection, lease: Row[Any], said: Answer, box: XYXY | None, number: int
) -> control.Standing:
    """See whether a known answer is right, and what that means for the worker."""
    task = Task(lease.task)
    row = connection.execute(statements.KNOWN, {"its_number": lease.known}).one()
    right = control.is_right(task, said, box, Answer(row.answer), row.boxes, project.settings.good_box_iou)
    purpose = Purpose(lease.purpose)
    control.note_check(connection, lease.worker, task, purpose, known_question=lease.known, event=number, right=right)
    standing = control.standing_in(project, connection, lease.worker, task)
    if purpose is Purpose.HIDDEN:
        control.suspend_unreliable(project, connection, lease.worker)
    return standing


def _checked_box(size: tuple[int, int], said: Answer, box: XYXY | None) -> XYXY | None:
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
    width, height = size
    if x1 < 0 or y1 < 0 or x2 > width or y2 > height:
        raise RefusedError(f"the box {x1:g}, {y1:g}, {x2:g}, {y2:g} leaves the photo, which is {width} × {height}")
    return x1, y1, x2, y2


def _checked_seconds(seconds: float) -> float:
    """A time that can be true; pages may send anything."""
    return min(max(float(seconds), 0.0), _TOO_LONG_S) if math.isfinite(seconds) else 0.0
