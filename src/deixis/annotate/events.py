"""Immutable events: everything that people and models do to a photo.

The events of a photo are ordered by number. A judgement records its question (task and subject) and the answer. An
undo, and the exclusion of a suspended worker's judgements, are events too; `effective_events` says which events count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from deixis.annotate.workflow import XYXY, Answer, Task
from deixis.errors import DeixisError


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Fields of all events: the running number, the opaque id of the worker, and the Unix time."""

    kind: ClassVar[str] = ""

    number: int
    worker: str
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Event):
    """An answer to a question; `subject` is that of `deixis.annotate.workflow.Question`."""

    kind: ClassVar[str] = "judged"

    task: Task
    subject: str
    answer: str  # an `Answer`, or any text to the lead's own question
    box: XYXY | None = None
    seconds: float = 0.0
    guideline: int = 0  # version of the guideline that the worker saw
    groups: tuple[tuple[str, ...], ...] = ()  # of the answer "grouped": mentions that name the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped(Event):
    """A question returned without an answer; `bad_phrase` names a mention reported as not being a phrase."""

    kind: ClassVar[str] = "skipped"

    task: Task
    subject: str
    bad_phrase: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainDecision(Event):
    """A reviewer's decision on a chain; `subject` is that of its next question."""

    kind: ClassVar[str] = "ruled"

    subject: str
    answer: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class PhraseDecision(Event):
    """A decision on a phrase: one of `PHRASE_DECISIONS`."""

    kind: ClassVar[str] = "marking"

    mention: str
    decision: str
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone(Event):
    """Cancels the event with the number `event`."""

    kind: ClassVar[str] = "undone"

    event: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Discounted(Event):
    """Excludes all earlier judgements of a worker in a task; `whom` is the name of that field in stored events."""

    kind: ClassVar[str] = "discounted"

    whom: str
    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedLinks(Event):
    """A model's coreference probabilities for a photo."""

    kind: ClassVar[str] = "proposed links"

    model: str
    fingerprint: str
    links: dict[str, float]  # probability that two mentions name the same, by the subject of the link question
    yes_from: float  # the model answers itself from this probability on, and below the next
    no_below: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedBoxes(Event):
    """A model's boxes for a photo."""

    kind: ClassVar[str] = "proposed boxes"

    model: str
    fingerprint: str
    boxes: dict[str, list[list[float]]]  # by mention, best first: x1, y1, x2, y2, probability that workers accept it
    show_from: float  # lowest probability at which a box is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedPairs(Event):
    """Regions that a model found for phrases of a photo, to be judged right or wrong."""

    kind: ClassVar[str] = "pairs"

    model: str
    fingerprint: str
    pairs: list[tuple[str, list[float]]]  # a mention, and its region: x1, y1, x2, y2, confidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected(Event):
    """A correction by a lead. `chains` have all that the chains concerned have afterwards; see `correct_chains`.

    A chain has ``mentions``; ``types``, if they changed; and, if its boxes or mentions changed, ``boxes`` and
    ``ending``. A box has ``xyxy``, and either ``id`` and ``worker`` of an earlier box or, if it was moved, ``from``.
    """

    kind: ClassVar[str] = "corrected"

    action: str  # one of `CORRECTIONS`
    chains: list[dict[str, Any]]

    @property
    def is_about_boxes(self) -> bool:
        return self.action in ("draw", "move", "delete", "decide")


CORRECTIONS = ("draw", "move", "delete", "split", "merge", "retype", "decide")

IMPORTED = "imported"
"""The model of proposals that come with a data set."""

PHRASE_DECISIONS = ("keep", "drop", "add")
_ALL = (
    Judged,
    Skipped,
    ChainDecision,
    PhraseDecision,
    Undone,
    Discounted,
    ProposedLinks,
    ProposedBoxes,
    AddedPairs,
    Corrected,
)
KINDS: dict[str, type[Event]] = {each.kind: each for each in _ALL}


def make_event(kind: str, number: int, worker: str, at: float, body: dict[str, Any]) -> Event:
    """Build an event from its database columns."""
    if kind not in KINDS:
        raise DeixisError(f"event {number}: unknown event kind {kind!r}; install a newer version of deixis")
    typed = dict(body)
    for name, convert in (("task", Task), ("answer", Answer), ("box", tuple), ("types", tuple)):
        if name in typed and not (name == "answer" and typed.get("task") is Task.OWN):
            typed[name] = convert(typed[name])
    if "groups" in typed:
        typed["groups"] = tuple(map(tuple, typed["groups"]))
    return KINDS[kind](number=number, worker=worker, at=at, **typed)


def effective_events(events: Sequence[Event]) -> list[Event]:
    """Select the events that count: not undone, and not excluded by a later `Discounted` that is not undone itself."""
    undone = undone_events(events)
    discounted: set[tuple[str, Task]] = set()
    counted: list[Event] = []
    for event in reversed(events):  # an exclusion comes after the judgements it excludes
        if event.number in undone or isinstance(event, Undone):
            continue
        if isinstance(event, Discounted):
            discounted.add((event.whom, event.task))
        elif not (isinstance(event, Judged | Skipped) and (event.worker, event.task) in discounted):
            counted.append(event)
    return counted[::-1]


def undone_events(events: Sequence[Event]) -> set[int]:
    """Return the numbers of the events that are undone."""
    undone: set[int] = set()
    for event in reversed(events):  # an undo comes after the event it cancels
        if isinstance(event, Undone) and event.number not in undone:
            undone.add(event.event)
    return undone
