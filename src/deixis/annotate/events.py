"""Everything that people do, as events that are never changed.

An event is about one photo and has a number; those of a photo are in the order of their numbers. A judgement says what
was asked (its `subject` names what was shown) and what was answered. An undo, and the discounting of a worker who was
suspended, are events too: `in_force` says which events count at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from deixis.annotate.walks import XYXY, Answer, Task
from deixis.errors import DeixisError


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all events have.

    Attributes
    ----------
    number
        Later events have larger ones.
    worker
        Who did it: an opaque id.
    at
        When, in seconds since 1970.
    """

    kind: ClassVar[str] = ""

    number: int
    worker: str
    at: float = 0.0

    def body(self) -> dict[str, Any]:
        """What this kind of event has beyond the others, for JSON."""
        mine = [field.name for field in fields(self) if field.name not in ("number", "worker", "at")]
        return {name: value for name in mine if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Event):
    """An answer to a question.

    Attributes
    ----------
    task, subject
        What was asked; `deixis.annotate.questions.Question.subject`.
    answer
        One of the task's answers.
    box
        For the answer "drawn".
    seconds
        How long it took.
    """

    kind: ClassVar[str] = "judged"

    task: Task
    subject: str
    answer: Answer
    box: XYXY | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(Event):
    """A worker gave a question back.

    `bad_phrase` names a mention that the worker says is none. What a worker wrote is kept apart, where it can be
    forgotten.
    """

    kind: ClassVar[str] = "skipped"

    task: Task
    subject: str
    bad_phrase: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruled(Event):
    """A reviewer's decision on a chain; `subject` is what its next question would be about."""

    kind: ClassVar[str] = "ruled"

    subject: str
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Marking(Event):
    """A reviewer's decision on a phrase: `keep` it, `drop` it, or `add` a new one."""

    kind: ClassVar[str] = "marking"

    mention: str
    decision: str
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone(Event):
    """Takes back the event of that number."""

    kind: ClassVar[str] = "undone"

    event: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Discounted(Event):
    """What a worker said before this event in a task counts no more."""

    kind: ClassVar[str] = "discounted"

    whom: str
    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedLinks(Event):
    """A model's word on which mentions of the photo are the same.

    Attributes
    ----------
    model, fingerprint
        Which one.
    links
        How likely each pair of mentions is the same, by the subject of the question about them.
    yes_from, no_below
        It answers on its own from this probability on, and below that one; people are asked about the rest.
    """

    kind: ClassVar[str] = "proposed links"

    model: str
    fingerprint: str
    links: dict[str, float]
    yes_from: float
    no_below: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedBoxes(Event):
    """A model's word on where things are.

    Attributes
    ----------
    model, fingerprint
        Which one.
    boxes
        For each mention its boxes, the best first: x1, y1, x2, y2, and how likely people find it good.
    show_from
        A box that is less likely good is not shown.
    """

    kind: ClassVar[str] = "proposed boxes"

    model: str
    fingerprint: str
    boxes: dict[str, list[list[float]]]
    show_from: float


MARKINGS = ("keep", "drop", "add")
_ALL = (Judged, Skipped, Ruled, Marking, Undone, Discounted, ProposedLinks, ProposedBoxes)
KINDS: dict[str, type[Event]] = {each.kind: each for each in _ALL}


def event_from(kind: str, number: int, worker: str, at: float, body: dict[str, Any]) -> Event:
    """An event from what a store kept of it.

    Examples
    --------
    >>> event_from("undone", 7, "ann", 0.0, {"event": 3})
    Undone(number=7, worker='ann', at=0.0, event=3)
    """
    if kind not in KINDS:
        raise DeixisError(f"event {number}: this deixis knows no event of the kind {kind!r}; use a newer one")
    typed = dict(body)
    for name, make in (("task", Task), ("answer", Answer), ("box", tuple), ("types", tuple)):
        if name in typed:
            typed[name] = make(typed[name])
    return KINDS[kind](number=number, worker=worker, at=at, **typed)


def in_force(events: Sequence[Event]) -> list[Event]:
    """The events that count: not undone, and not of a worker who was discounted later.

    An undo can itself be undone, and so can a discounting.

    Examples
    --------
    >>> said = Skipped(number=1, worker="ann", task=Task.LINK, subject="")
    >>> [event.number for event in in_force([said, Undone(number=2, worker="ann", event=1)])]
    []
    >>> again = Undone(number=3, worker="ann", event=2)
    >>> [event.number for event in in_force([said, Undone(number=2, worker="ann", event=1), again])]
    [1]
    """
    undone = undone_now(events)
    discounted: set[tuple[str, Task]] = set()
    counted: list[Event] = []
    for event in reversed(events):  # a discounting comes after what it takes back
        if event.number in undone or isinstance(event, Undone):
            continue
        if isinstance(event, Discounted):
            discounted.add((event.whom, event.task))
        elif not (isinstance(event, Judged | Skipped) and (event.worker, event.task) in discounted):
            counted.append(event)
    return counted[::-1]


def undone_now(events: Sequence[Event]) -> set[int]:
    """The numbers of the events that are taken back, by an undo that is not taken back itself.

    Examples
    --------
    >>> undone_now([Undone(number=2, worker="ann", event=1), Undone(number=3, worker="ann", event=2)])
    {2}
    """
    undone: set[int] = set()
    for event in reversed(events):  # an undo comes after what it takes back
        if isinstance(event, Undone) and event.number not in undone:
            undone.add(event.event)
    return undone
