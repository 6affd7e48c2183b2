"""Judgements: answering, skipping and undoing, each in a transaction of the caller.

A snapshot is a photo with all its events and the state derived from them. Snapshots are cached; a cached one is brought
up to date with the events that any process has added since. A `PhotoTransaction` adds events to one photo. A request
that is sent twice is recorded once.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Connection, Row, String, bindparam, insert, select, update

from deixis.annotate.chains import find_grouping_problem, rand_index
from deixis.annotate.events import Event, Judged, Skipped, Undone, make_event, undone_events
from deixis.annotate.guidelines import guideline_version
from deixis.annotate.material import CaptionMention, Material
from deixis.annotate.people import read_worker
from deixis.annotate.quality import (
    Lesson,
    Purpose,
    Qualification,
    add_check,
    is_correct,
    make_lesson,
    suspend_unreliable,
    update_box_checks,
    update_qualification,
    void_check,
)
from deixis.annotate.queue import KNOWN_QUESTION, LeasedQuestion, update_questions
from deixis.annotate.state import PhotoState, current_mentions, derive_state, extend_state
from deixis.annotate.store import AFTER_COMMIT, RefusedError, checks, events, leases, photos, remarks
from deixis.annotate.webhooks import describe_change, insert_messages
from deixis.annotate.workflow import ANSWERS_WITH_BOX, XYXY, Answer, Rules, Stage, Task, allowed_answers
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.annotate.project import Project

MIN_BOX_SIDE = 1.0
"""Pixels; smaller boxes are drawn by mistake."""

MAX_REMARK_LENGTH = 2000
_MAX_SECONDS = 24 * 3600.0
_CACHE_SIZE = 5000

BoundSeconds = Callable[[float, float], float]
"""Returns the seconds that count, given when a question was leased and the seconds that the client claims."""

_WORKER = bindparam("p_worker", type_=String)
_PHOTO = bindparam("p_photo", type_=String)
_BY_NUMBER = bindparam("p_number", type_=BigInteger)

_LOCK_PHOTO = select(photos.c.place, photos.c.last_event).where(photos.c.id == _PHOTO).with_for_update()

_UPDATE_PHOTO = (
    update(photos)
    .where(photos.c.id == _PHOTO)
    .values({name: bindparam(name) for name in ("last_event", "chains", "waiting", "finished")})
)

_EVENTS_AFTER = (
    select(events.c.kind, events.c.number, events.c.worker, events.c.at, events.c.body)
    .where(events.c.photo == _PHOTO, events.c.number > _BY_NUMBER, events.c.known.is_(None))
    .order_by(events.c.number)
)

_EVENT_BY_KEY = select(events.c.number).where(events.c.key == bindparam("p_key"))

_LEASE = select(leases.c.worker, leases.c.state).where(leases.c.token == bindparam("p_token"))

# Of two simultaneous requests, the second waits for the first and then finds no open lease.
_ANSWER_LEASE = (
    update(leases)
    .where(leases.c.token == bindparam("p_token"), leases.c.worker == _WORKER, leases.c.state == "open")
    .values(state="answered")
    .returning(*leases.c)
)

_CHECKED_IN_TEST = select(checks.c.number).where(
    checks.c.event == _BY_NUMBER, checks.c.purpose == "test", checks.c.right.is_not(None)
)


@dataclass(frozen=True, slots=True)
class PhotoSnapshot:
    """A photo with all its events and the state derived from them."""

    material: Material
    events: tuple[Event, ...]
    state: PhotoState

    @property
    def last_event(self) -> int:
        return self.events[-1].number if self.events else 0

    @property
    def mentions(self) -> list[CaptionMention]:
        """The mentions that were not dropped, including those held back for a reviewer."""
        return current_mentions(self.material, self.events)


class SnapshotCache:
    """The most recently used snapshots of committed states. Thread-safe."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._cached: OrderedDict[str, PhotoSnapshot] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, connection: Connection, photo: str, *, last_event: int | None = None) -> PhotoSnapshot:
        """Return the snapshot of a photo as this transaction sees it; `last_event`, if known, saves a query."""
        with self._lock:
            cached = self._cached.get(photo)
        if cached is None:
            built = self.build(_read_material(connection, photo), _read_events(connection, photo, after=0))
            if connection.get_execution_options().get("reads"):  # so all of it was committed
                self.store(built)
            return built
        if cached.last_event == last_event:
            return cached
        return self.extend(cached, _read_events(connection, photo, after=cached.last_event))

    def build(self, material: Material, events: tuple[Event, ...]) -> PhotoSnapshot:
        return PhotoSnapshot(material, events, derive_state(material, events, self._rules))

    def extend(self, snapshot: PhotoSnapshot, new: tuple[Event, ...]) -> PhotoSnapshot:
        """Add events, one by one if `extend_state` can."""
        photo, events, state = snapshot.material.photo, snapshot.events, snapshot.state
        for event in new:
            extended = extend_state(state, photo, events, event, self._rules)
            if extended is None:
                return self.build(snapshot.material, (*snapshot.events, *new))
            state, events = extended, (*events, event)
        return PhotoSnapshot(snapshot.material, events, state) if new else snapshot

    def store(self, snapshot: PhotoSnapshot) -> None:
        if not snapshot.events:  # its material may still change, in any process
            return
        with self._lock:
            self._cached[snapshot.material.photo] = snapshot
            self._cached.move_to_end(snapshot.material.photo)
            while len(self._cached) > _CACHE_SIZE:
                self._cached.popitem(last=False)


def _read_material(connection: Connection, photo: str) -> Material:
    found = connection.execute(select(photos.c.material).where(photos.c.id == photo)).scalar()
    if found is None:
        raise DeixisError(f"no photo {photo!r} in this project")
    return Material.from_json(found)


def _read_events(connection: Connection, photo: str, *, after: int) -> tuple[Event, ...]:
    """Read the events of a photo without answers to known questions, which change no state."""
    rows = connection.execute(_EVENTS_AFTER, {"p_photo": photo, "p_number": after})
    return tuple(make_event(*row) for row in rows)


class PhotoTransaction:
    """Adds events to one photo, which is locked until the transaction ends."""

    def __init__(self, project: Project, connection: Connection, photo: str) -> None:
        self.photo, self.connection = photo, connection
        self._project = project
        # Locks the row on PostgreSQL; SQLite has a single writer.
        row = connection.execute(_LOCK_PHOTO, {"p_photo": photo}).first()
        if row is None:
            raise RefusedError(f"no photo {photo!r} in this project")
        self._position: int = row.place
        self._cache = project.snapshots  # fixed here, because edited settings replace the project's cache
        self.snapshot = self._cache.read(connection, photo, last_event=row.last_event)
        self._before = self.snapshot.state
        self._added: list[Event] = []

    def add_event(self, key: str, worker: str, kind: str, body: dict[str, Any], *, remark: str = "") -> int:
        """Insert an event and return its number; `apply` has to follow."""
        at = self._project.clock()
        number = insert_event(self.connection, key, self.photo, worker, at, kind, body, remark=remark)
        self._added.append(make_event(kind, number, worker, at, body))
        return number

    def replace_material(self, material: Material) -> None:
        """Change the phrases of a photo without events; `apply` has to follow."""
        self.snapshot = self._cache.build(material, ())

    def apply(self, *, answered: int | None = None) -> None:
        """Update state, queue, the row of the photo and the checks of boxes; `answered` is that of the queue."""
        added = tuple(self._added)
        self.snapshot = self._cache.extend(self.snapshot, added)
        self._added.clear()
        state = self.snapshot.state
        if self._project.webhooks:
            bodies = describe_change(self._project, self.photo, self._before, state, added)
            insert_messages(self._project, self.connection, bodies)
        update_questions(self.connection, self.photo, self._position, state, answered)
        values = {"p_photo": self.photo, "last_event": self.snapshot.last_event} | photo_columns(state)
        self.connection.execute(_UPDATE_PHOTO, values)
        update_box_checks(self._project, self.connection, self._before, state)
        self._before = state
        self.connection.info[AFTER_COMMIT].append(partial(self._cache.store, self.snapshot))


@contextmanager
def change_photo(project: Project, photo: str) -> Iterator[PhotoTransaction]:
    """Run the block as one transaction on a photo."""
    with project.database.writing() as connection:
        yield PhotoTransaction(project, connection, photo)


def photo_columns(state: PhotoState) -> dict[str, Any]:
    """Return the columns of the table of photos that summarize a state."""
    return {"chains": len(state.chains), "waiting": len(state.review), "finished": state.finished}


def insert_event(
    connection: Connection,
    key: str,
    photo: str,
    worker: str,
    at: float,
    kind: str,
    body: dict[str, Any],
    *,
    remark: str = "",
    known_question: int | None = None,
) -> int:
    """Insert an event with its remark and return its number. `key` is unique, so a repeated request adds no event."""
    values = {"key": key, "photo": photo, "worker": worker, "at": at, "kind": kind, "body": body}
    values |= {"task": body.get("task"), "seconds": body.get("seconds", 0.0), "known": known_question}
    number = int(connection.execute(insert(events), values).inserted_primary_key[0])  # type: ignore[index]
    # Databases cannot store NUL characters and unpaired surrogates.
    text = remark.replace("\0", "").encode(errors="replace").decode().strip()[:MAX_REMARK_LENGTH]
    if text:
        connection.execute(insert(remarks), {"event": number, "worker": worker, "text": text, "seen": False})
    return number


def find_event(connection: Connection, key: str) -> int | None:
    """Return the number of the event with a key."""
    found: int | None = connection.scalar(_EVENT_BY_KEY, {"p_key": key})
    return found


@dataclass(frozen=True, slots=True)
class JudgementResult:
    """The result of a transaction."""

    event: int = 0  # its number; 0 if only the next question was requested
    again: bool = False  # the request had been recorded before
    qualification: Qualification | None = None  # after a question of the test
    lesson: Lesson | None = None  # after a question of the test
    question: LeasedQuestion | None = None  # the next one, if requested
    reason: str | None = None  # why there is no next question
    seconds: float = 0.0  # that count for this judgement

    @property
    def is_new(self) -> bool:
        return self.event > 0 and not self.again


class UnknownQuestionError(RefusedError):
    """The token names no question of this worker."""

    def __init__(self) -> None:
        super().__init__("this question was not assigned to you")


class ExpiredQuestionError(RefusedError):
    """The question is not leased to this worker any more."""

    def __init__(self) -> None:
        super().__init__("this question has expired or is not needed any more; continue with the next one")


def record_answer(
    project: Project,
    connection: Connection,
    worker: str,
    token: str,
    answer: str,
    *,
    box: XYXY | None = None,
    groups: Sequence[Sequence[str]] = (),
    seconds: float = 0.0,
    remark: str = "",
    bound: BoundSeconds | None = None,
    guideline: int | None = None,
) -> JudgementResult:
    """Record the answer to a leased question; `box`, in pixels of the photo, belongs to `ANSWERS_WITH_BOX`.

    `guideline` is the version that the worker saw, by default the one in force.
    """
    lease = _close_lease(connection, worker, token)
    if isinstance(lease, int):
        return JudgementResult(lease, again=True)
    seconds = _counted(project, lease, seconds, bound)
    parsed = parse_answer(Task(lease.task), answer, project.settings)
    checked = _check_groups(lease.asked["mentions"], parsed, groups)
    box = _check_box(connection, lease, parsed, box)
    newest = guideline_version(project, connection, Task(lease.task))
    seen = newest if guideline is None else min(guideline, newest)
    body = _event_body(lease, seconds, answer=parsed, box=box, groups=checked, guideline=seen or None)
    number = _record_event(project, connection, lease, Judged.kind, body, remark)
    if lease.known is None:
        return JudgementResult(number, seconds=seconds)
    qualification, lesson = _check_answer(project, connection, lease, parsed, box, number, checked)
    if lease.purpose != Purpose.TEST:  # hidden questions must behave like all others
        return JudgementResult(number, seconds=seconds)
    return JudgementResult(number, qualification=qualification, lesson=lesson, seconds=seconds)


def skip_question(
    project: Project,
    connection: Connection,
    worker: str,
    token: str,
    *,
    bad_phrase: str | None = None,
    seconds: float = 0.0,
    remark: str = "",
    bound: BoundSeconds | None = None,
) -> JudgementResult:
    """Return a question without an answer; `bad_phrase` reports one of its mentions as not being a phrase."""
    lease = _close_lease(connection, worker, token)
    if isinstance(lease, int):
        return JudgementResult(lease, again=True)
    if bad_phrase is not None and bad_phrase not in lease.asked["mentions"]:
        raise RefusedError(f"{bad_phrase[:40]!r} is not a mention of this question")
    seconds = _counted(project, lease, seconds, bound)
    body = _event_body(lease, seconds, bad_phrase=bad_phrase or None)
    number = _record_event(project, connection, lease, Skipped.kind, body, remark)
    if lease.known is not None:
        task, purpose = Task(lease.task), Purpose(lease.purpose)
        add_check(connection, worker, task, purpose, event=number, known_question=lease.known)
    return JudgementResult(number, seconds=seconds)


def undo_event(project: Project, connection: Connection, worker: str, event: int) -> JudgementResult:
    """Undo an event: workers their own judgements, reviewers any event. Undoing twice has no further effect."""
    found = read_worker(connection, worker)
    columns = (events.c.photo, events.c.worker, events.c.kind, events.c.known)
    row = connection.execute(select(*columns).where(events.c.number == event)).first()
    if row is None:
        raise RefusedError(f"event {event} does not exist")
    own = row.worker == worker and row.kind in (Judged.kind, Skipped.kind)
    if not (own or found.can_review):
        raise RefusedError(f"event {event} cannot be undone by {found.name or found.id}; ask a reviewer")
    if row.known is not None:  # known questions must behave like all others, except in a test, which shows the answer
        if connection.scalar(_CHECKED_IN_TEST, {"p_number": event}):
            raise RefusedError("the right answer was shown, so this answer of the test cannot be taken back")
        key = f"undo:{event}:0"
        if (before := find_event(connection, key)) is not None:
            return JudgementResult(before, again=True)
        void_check(connection, event)
        body, at = {"event": event}, project.clock()
        number = insert_event(connection, key, row.photo, worker, at, Undone.kind, body, known_question=row.known)
        return JudgementResult(number)
    transaction = PhotoTransaction(project, connection, row.photo)
    history = transaction.snapshot.events
    earlier = [other for other in history if isinstance(other, Undone) and other.event == event]
    if event in undone_events(history):
        return JudgementResult(earlier[-1].number, again=True)
    number = transaction.add_event(f"undo:{event}:{len(earlier)}", worker, Undone.kind, {"event": event})
    transaction.apply()
    return JudgementResult(number)


def parse_answer(stage: Stage, answer: str, rules: Rules) -> str:
    """Return an answer that a stage accepts: an `Answer`, or an answer to the lead's own question."""
    if stage is Task.OWN:
        if rules.question is None:
            raise ExpiredQuestionError
        if (said := rules.question.parse(answer)) is None:
            choices = ", ".join(rules.question.answers) or "any text"
            raise RefusedError(f"{answer[:40]!r} is not an answer of {rules.question.name}; choose from: {choices}")
        return said
    for allowed in allowed_answers(stage):
        if allowed.value == answer:
            return allowed
    choices = ", ".join(allowed.value for allowed in allowed_answers(stage))
    raise RefusedError(f"{answer[:40]!r} is not an answer of the task {stage.value}; choose from: {choices}")


def _close_lease(connection: Connection, worker: str, token: str) -> Row[Any] | int:
    """Mark a lease as answered and return its row; for a repeated request, return the number of the event."""
    if not (token.isascii() and token.isprintable()):  # PostgreSQL refuses NUL characters even in a query
        raise UnknownQuestionError
    row = connection.execute(_ANSWER_LEASE, {"p_token": token, "p_worker": worker}).first()
    if row is not None:
        return row
    lease = connection.execute(_LEASE, {"p_token": token}).first()
    if lease is None or lease.worker != worker:  # do not reveal that another worker has this token
        raise UnknownQuestionError
    number = find_event(connection, token) if lease.state == "answered" else None
    if number is None:
        raise ExpiredQuestionError
    return number


def _counted(project: Project, lease: Row[Any], seconds: float, bound: BoundSeconds | None) -> float:
    seconds = min(max(float(seconds), 0.0), _MAX_SECONDS) if math.isfinite(seconds) else 0.0
    return seconds if bound is None else bound(lease.until - project.settings.lease_s, seconds)


def _event_body(lease: Row[Any], seconds: float, **values: Any) -> dict[str, Any]:
    body = {"task": lease.task, "subject": lease.subject, "seconds": seconds}
    return body | {
        name: list(value) if name in ("box", "groups") else value for name, value in values.items() if value is not None
    }


def _record_event(
    project: Project, connection: Connection, lease: Row[Any], kind: str, body: dict[str, Any], remark: str
) -> int:
    """Insert an event about the question of a lease; one about a known question changes no photo."""
    if lease.known is not None:
        values = (lease.token, lease.photo, lease.worker, project.clock(), kind, body)
        return insert_event(connection, *values, remark=remark, known_question=lease.known)
    transaction = PhotoTransaction(project, connection, lease.photo)
    number = transaction.add_event(lease.token, lease.worker, kind, body, remark=remark)
    if isinstance(answer := body.get("answer"), Answer) and answer in (Answer.DRAWN, Answer.ADJUSTED):
        add_check(connection, lease.worker, Task.DRAWING, Purpose.WORK, event=number)
    transaction.apply(answered=lease.question)
    return number


def _check_answer(
    project: Project,
    connection: Connection,
    lease: Row[Any],
    answer: str,
    box: XYXY | None,
    event: int,
    groups: Sequence[Sequence[str]] | None,
) -> tuple[Qualification, Lesson]:
    """Compare an answer with the known one and update the worker's qualification; explain the known one."""
    task, purpose = Task(lease.task), Purpose(lease.purpose)
    known = connection.execute(KNOWN_QUESTION, {"p_number": lease.known}).one()
    shown = lease.asked["new_box"]
    if task is Task.OWN and (asked := project.settings.question):
        correct = asked.is_correct(answer, known.answer)
    else:
        expected = Answer(known.answer)
        correct = is_correct(task, answer, box, expected, known.boxes, project.settings.good_box_iou, shown)
    if groups is not None:
        correct = rand_index(groups, known.lesson["groups"]) >= project.settings.good_groups
    add_check(connection, lease.worker, task, purpose, event=event, known_question=lease.known, correct=correct)
    qualification = update_qualification(project, connection, lease.worker, task)
    if purpose is Purpose.HIDDEN:
        suspend_unreliable(project, connection, lease.worker)
    return qualification, make_lesson(known, correct, box, project.settings.good_box_iou)


def _check_groups(mentions: Sequence[str], answer: str, groups: Sequence[Sequence[str]]) -> list[list[str]] | None:
    """Return the groups of the answer "grouped", if they are a partition of the mentions."""
    if answer is not Answer.GROUPED:
        if groups:
            raise RefusedError(f"the answer {str(answer)!r} takes no groups")
        return None
    if problem := find_grouping_problem(mentions, groups):
        raise RefusedError(problem)
    return [list(group) for group in groups]


def _check_box(connection: Connection, lease: Row[Any], answer: str, box: XYXY | None) -> XYXY | None:
    """Return the box of an answer that has one, if it is allowed: inside the photo, or one of the boxes shown."""
    if not isinstance(answer, Answer) or answer not in ANSWERS_WITH_BOX:
        if box is not None:
            raise RefusedError(f"the answer {str(answer)!r} takes no box")
        return None
    material = connection.execute(select(photos.c.material).where(photos.c.id == lease.photo)).scalar_one()
    checked = check_box((material["width"], material["height"]), box, f"the answer {str(answer)!r}")
    if answer is Answer.WRONG_BOX and list(checked) not in lease.asked["boxes"]:
        raise RefusedError("the answer 'wrong box' names one of the boxes that are shown")
    return checked


def check_box(size: tuple[int, int], box: Sequence[float] | None, what: str) -> XYXY:
    """Return a box that is inside a photo; `what` needs it."""
    if box is None or len(box) != 4 or not all(isinstance(side, int | float) and math.isfinite(side) for side in box):
        raise RefusedError(f"{what} needs a box of four finite numbers: x1, y1, x2, y2")
    x1, y1, x2, y2 = (float(side) for side in box)
    text = f"the box {x1:g}, {y1:g}, {x2:g}, {y2:g}"
    if x2 - x1 < MIN_BOX_SIDE or y2 - y1 < MIN_BOX_SIDE:
        raise RefusedError(f"{text} is less than one pixel wide or high")
    width, height = size
    if x1 < 0 or y1 < 0 or x2 > width or y2 > height:
        raise RefusedError(f"{text} extends beyond the photo of {width} × {height} pixels")
    return x1, y1, x2, y2
