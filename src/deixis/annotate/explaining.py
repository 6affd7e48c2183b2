"""Why things are as they are: the way of every chain through the table, judgement by judgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from deixis.annotate.events import Discounted, Event, Judged, Marking, Ruled, Skipped, Undone
from deixis.annotate.project import Project
from deixis.annotate.state import ChainState
from deixis.annotate.store.folds import Folded
from deixis.annotate.store.schema import workers


@dataclass(frozen=True, slots=True)
class Told:
    """A judgement, who gave it, and what it led to; or why it counts no more."""

    event: int
    who: str
    at: str
    said: str
    led_to: str


@dataclass(frozen=True, slots=True)
class Story:
    """A chain: its phrases, where it is, its boxes, and how it came there."""

    phrases: tuple[str, ...]
    mentions: tuple[str, ...]
    types: tuple[str, ...]
    place: str
    boxes: tuple[tuple[float, float, float, float], ...]
    told: tuple[Told, ...]


def explain(project: Project, photo: str, *, until: int | None = None) -> tuple[list[Story], list[Told]]:
    """The stories of a photo's chains, and what counts no more.

    Parameters
    ----------
    project, photo
        Where.
    until
        As it was after the event of this number: any moment can be seen again.
    """
    with project.database.reading() as connection:
        folded = project.folds.at(connection, photo)
        names = {row.id: row.name or row.id for row in connection.execute(workers.select())}
    if until is not None:
        folded = project.folds.fold(folded.material, tuple(event for event in folded.events if event.number <= until))
    by_number = {event.number: event for event in folded.events}
    return [_story(chain, by_number, names) for chain in folded.state.chains], _not_counted(folded, names)


def _story(chain: ChainState, events: Mapping[int, Event], names: Mapping[str, str]) -> Story:
    told = []
    for number, edge in chain.taken:
        led_to = f"{edge.deed}; {edge.condition}; to {edge.to.value}"
        told.append(_told(events[number], names, led_to))
    walk = chain.walk
    return Story(
        tuple(mention.text for mention in chain.mentions),
        tuple(mention.id for mention in chain.mentions),
        chain.types,
        walk.at.value if walk else "mentions may still join",
        tuple(box.xyxy for box in walk.boxes) if walk else (),
        tuple(told),
    )


def _not_counted(folded: Folded, names: Mapping[str, str]) -> list[Told]:
    undone = {event.event: event.number for event in folded.events if isinstance(event, Undone)}
    discounted = {(event.whom, event.task): event.number for event in folded.events if isinstance(event, Discounted)}
    told = []
    for event in folded.events:
        if not isinstance(event, Judged) or event.number in folded.state.counted:
            continue
        if event.number in undone:
            why = f"undone by event {undone[event.number]}"
        elif discounted.get((event.worker, event.task), 0) > event.number:
            why = f"its worker was suspended, event {discounted[event.worker, event.task]}"
        else:
            why = "what it was about is not there any more"
        told.append(_told(event, names, why))
    return told


def _told(event: Event, names: Mapping[str, str], led_to: str) -> Told:
    at = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="seconds")
    return Told(event.number, names.get(event.worker, event.worker), at, said(event), led_to)


def said(event: Event) -> str:
    """An event in a few words.

    Examples
    --------
    >>> said(Undone(number=9, worker="ann", event=3))
    'took back event 3'
    """
    if isinstance(event, Judged):
        return f"{event.task.value}: {event.answer.value}"
    if isinstance(event, Ruled):
        return f"review: {event.answer.value}"
    if isinstance(event, Skipped):
        return f"{event.task.value}: given back" + (f", {event.bad_phrase} is no phrase" if event.bad_phrase else "")
    if isinstance(event, Marking):
        return f"{event.decision} the phrase {event.mention}"
    if isinstance(event, Undone):
        return f"took back event {event.event}"
    return "was suspended" if isinstance(event, Discounted) else event.kind
