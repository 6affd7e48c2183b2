"""The gallery: photos with their chains, boxes, people, disagreements and corrections."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import combinations
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, func, select

from deixis.annotate.chains import ChainState
from deixis.annotate.corrections import correction_stacks
from deixis.annotate.events import Corrected, Event, Judged, Skipped, effective_events
from deixis.annotate.people import MODEL_ROLE
from deixis.annotate.schema import events, photos, workers
from deixis.annotate.state import PhotoState, derive_state
from deixis.annotate.transactions import PhotoSnapshot
from deixis.annotate.workflow import XYXY, Answer, DrawnBox, Task

if TYPE_CHECKING:
    from deixis.annotate.project import Project


class PhotoStage(StrEnum):
    """Where a photo is in the project."""

    OPEN = "open"
    WAITING = "waiting for review"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class GalleryFilter:
    """Which photos to list; all conditions must hold."""

    stage: PhotoStage | None = None
    person: str | None = None  # id of somebody who judged, skipped or corrected something
    disagreement: bool = False  # people gave different answers to one question
    changed: bool = False  # a lead has corrected it


@dataclass(frozen=True, slots=True)
class GalleryBox:
    """A box; `by` is the name of who drew it, `model` that of the model that proposed it. The fields are JSON keys."""

    id: str
    xyxy: XYXY
    by: str | None
    model: str | None
    is_correction: bool  # a lead drew or moved it
    waits: bool  # it was not judged yet


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Different answers to one question, with the names of the people. The fields are JSON keys."""

    task: Task
    mention: str
    answers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class GalleryChain:
    """A chain as the gallery shows it. The fields are JSON keys."""

    mentions: tuple[str, ...]
    phrases: tuple[str, ...]
    types: tuple[str, ...]
    stage: str
    is_scene: bool
    is_linking: bool
    boxes: tuple[GalleryBox, ...]
    corrected_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CorrectionEntry:
    """A correction that counts. The fields are JSON keys."""

    event: int
    who: str
    at: str
    action: str
    phrase: str  # of the corrected chain


@dataclass(frozen=True, slots=True)
class GalleryPhoto:
    """A photo as the gallery shows it."""

    photo: str
    stage: PhotoStage
    captions: tuple[str, ...]
    chains: tuple[GalleryChain, ...]
    people: tuple[str, ...]  # names of those who worked on it
    disagreements: tuple[Disagreement, ...]
    corrections: tuple[CorrectionEntry, ...]
    can_redo: bool
    last_event: int


def list_photos(
    project: Project, wanted: GalleryFilter, *, offset: int = 0, limit: int = 24
) -> tuple[int, list[GalleryPhoto]]:
    """Return the number of photos that match, and some of them in the order of the project."""
    with project.database.reading() as connection:
        found: list[str] = list(connection.scalars(_candidates(wanted)))
        if wanted.disagreement or wanted.changed:
            found = [photo for photo in found if _matches(project.snapshots.read(connection, photo), wanted)]
        names = _read_names(connection)
        page = found[offset : offset + limit]
        return len(found), [_describe(project.snapshots.read(connection, photo), names) for photo in page]


def read_photo(project: Project, photo: str) -> GalleryPhoto:
    with project.database.reading() as connection:
        return _describe(project.snapshots.read(connection, photo), _read_names(connection))


def list_people(project: Project) -> list[tuple[str, str]]:
    """Return the ids and names of the people who have worked on photos."""
    worked = select(events.c.worker).where(events.c.known.is_(None)).distinct()
    chosen = select(workers.c.id, workers.c.name).where(workers.c.role != MODEL_ROLE, workers.c.id.in_(worked))
    with project.database.reading() as connection:
        return [(row.id, row.name or row.id) for row in connection.execute(chosen.order_by(workers.c.name))]


@dataclass(frozen=True, slots=True)
class CorrectionSummary:
    """How far the leads agreed with the workers, on the photos that they corrected. The fields are JSON keys.

    `boxes_kept`, `boxes_moved` and `boxes_deleted` are boxes that workers had accepted; `same_chain` is the share of
    pairs of phrases that are together, or apart, both before and after.
    """

    photos: int = 0
    chains: int = 0
    boxes_kept: int = 0
    boxes_moved: int = 0
    boxes_deleted: int = 0
    boxes_added: int = 0
    same_chain: float | None = None


def summarize_corrections(project: Project, connection: Connection) -> CorrectionSummary:
    """Compare the corrected photos with what the workers alone had said."""
    counts: Counter[str] = Counter()
    together = pairs = 0
    chosen = select(events.c.photo).where(events.c.kind == Corrected.kind).distinct()
    for photo in connection.scalars(chosen).all():
        snapshot = project.snapshots.read(connection, photo)
        corrected = {number for chain in snapshot.state.chains for number in chain.corrected}
        if not corrected:
            continue
        alone = [event for event in snapshot.events if not isinstance(event, Corrected)]
        before = derive_state(snapshot.material, alone, project.settings)
        counts["photos"] += 1
        counts["chains"] += sum(bool(chain.corrected) for chain in snapshot.state.chains)
        counts.update(_compare_boxes(before, snapshot.state))
        same, of = _compare_chains(before, snapshot.state)
        together, pairs = together + same, pairs + of
    return CorrectionSummary(**counts, same_chain=together / pairs if pairs else None)


def _compare_boxes(before: PhotoState, after: PhotoState) -> Counter[str]:
    old = {box.id for chain in before.chains for box in chain.visible_boxes}
    new = {box.id for chain in after.chains for box in chain.visible_boxes}
    moved = {
        one.id
        for chain in after.chains
        if chain.workflow
        for one, other in chain.workflow.adjusted
        if other.id in new and other.id.startswith("c")
    } & old
    added = sum(name.startswith("c") for name in new) - len(moved)
    gone = len(old - new - moved)
    return Counter(boxes_kept=len(old & new), boxes_moved=len(moved), boxes_deleted=gone, boxes_added=added)


def _compare_chains(before: PhotoState, after: PhotoState) -> tuple[int, int]:
    """Count the pairs of phrases about which both states say the same, and all pairs."""
    old, new = (
        {mention.id: number for number, chain in enumerate(state.chains) for mention in chain.mentions}
        for state in (before, after)
    )
    pairs = list(combinations(sorted(old.keys() & new.keys()), 2))
    return sum((old[one] == old[other]) == (new[one] == new[other]) for one, other in pairs), len(pairs)


def _candidates(wanted: GalleryFilter) -> Select[Any]:
    """Select photos that may match; a disagreement, or a correction, may have been undone."""
    chosen = select(photos.c.id).where(photos.c.known.is_(False))
    if wanted.stage is PhotoStage.FINISHED:
        chosen = chosen.where(photos.c.finished)
    elif wanted.stage is not None:
        waits = photos.c.waiting > 0 if wanted.stage is PhotoStage.WAITING else photos.c.waiting == 0
        chosen = chosen.where(photos.c.finished.is_(False), waits)
    about = select(events.c.photo).where(events.c.known.is_(None))
    if wanted.person is not None:
        chosen = chosen.where(photos.c.id.in_(about.where(events.c.worker == wanted.person)))
    if wanted.changed:
        chosen = chosen.where(photos.c.id.in_(about.where(events.c.kind == Corrected.kind)))
    if wanted.disagreement:
        several = func.count(events.c.worker.distinct()) > 1
        judged = about.where(events.c.kind == Judged.kind).group_by(events.c.photo).having(several)
        chosen = chosen.where(photos.c.id.in_(judged))
    return chosen.order_by(photos.c.place)


def _matches(snapshot: PhotoSnapshot, wanted: GalleryFilter) -> bool:
    counting = effective_events(snapshot.events)
    if wanted.changed and not any(isinstance(event, Corrected) for event in counting):
        return False
    return not wanted.disagreement or bool(find_disagreements(counting))


_AS_VOTE = {
    (False, Answer.NO_MORE): (Task.REQUIREMENT, Answer.NO_BOX),
    (False, Answer.DRAWN): (Task.REQUIREMENT, Answer.BOX),
    (True, Answer.NO_MORE): (Task.COVERAGE, Answer.ALL),
    (True, Answer.DRAWN): (Task.COVERAGE, Answer.MORE),
}
"""What an answer in the drawing task says about the need for boxes, or with boxes about coverage."""


def find_disagreements(counting: Iterable[Event], names: Mapping[str, str] | None = None) -> list[Disagreement]:
    """List the questions to which people gave different answers, among the events that count."""
    votes: dict[tuple[Task, str], dict[str, Answer]] = defaultdict(dict)
    for event in counting:
        if isinstance(event, Judged):
            task, answer = event.task, event.answer
            if task is Task.DRAWING:
                task, answer = _AS_VOTE[" " in event.subject, answer]
            votes[task, event.subject][event.worker] = answer
    return [
        Disagreement(
            task,
            subject.partition(" ")[0],
            tuple(((names or {}).get(worker, worker), answer.value) for worker, answer in said.items()),
        )
        for (task, subject), said in votes.items()
        if len(set(said.values())) > 1
    ]


def _read_names(connection: Connection) -> dict[str, str]:
    chosen = select(workers.c.id, workers.c.name).where(workers.c.role != MODEL_ROLE)
    return {row.id: row.name or row.id for row in connection.execute(chosen)}


def _describe(snapshot: PhotoSnapshot, names: Mapping[str, str]) -> GalleryPhoto:
    state, counting = snapshot.state, effective_events(snapshot.events)
    stage = PhotoStage.FINISHED if state.finished else PhotoStage.WAITING if state.review else PhotoStage.OPEN
    corrections = {event.number: event for event in counting if isinstance(event, Corrected)}
    worked = [event.worker for event in counting if isinstance(event, Judged | Skipped | Corrected)]
    return GalleryPhoto(
        snapshot.material.photo,
        stage,
        snapshot.material.captions,
        tuple(_describe_chain(chain, corrections, names) for chain in state.chains),
        tuple(dict.fromkeys(names[worker] for worker in worked if worker in names)),
        tuple(find_disagreements(counting, names)),
        tuple(
            CorrectionEntry(
                number,
                names.get(event.worker, event.worker),
                _format_time(event.at),
                event.action,
                snapshot.material.mention_at(event.chains[0]["mentions"][0]).text,
            )
            for number, event in corrections.items()
        ),
        bool(correction_stacks(snapshot)[1]),
        snapshot.last_event,
    )


def _describe_chain(chain: ChainState, corrections: Mapping[int, Event], names: Mapping[str, str]) -> GalleryChain:
    workflow = chain.workflow
    who = dict.fromkeys(corrections[number].worker for number in chain.corrected)
    return GalleryChain(
        tuple(mention.id for mention in chain.mentions),
        tuple(mention.text for mention in chain.mentions),
        chain.types,
        workflow.stage.value if workflow else "linking",
        bool(workflow and workflow.ended and workflow.is_scene),
        workflow is None,
        describe_boxes(chain, names),
        tuple(names.get(worker, worker) for worker in who),
    )


def describe_boxes(chain: ChainState, names: Mapping[str, str]) -> tuple[GalleryBox, ...]:
    """Describe the accepted boxes of a chain and the one that waits for a judgement."""
    new_box = chain.workflow.new_box if chain.workflow else None
    return tuple(_describe_box(box, names, waits=box is new_box) for box in chain.visible_boxes)


def _describe_box(box: DrawnBox, names: Mapping[str, str], *, waits: bool) -> GalleryBox:
    model = box.proposed.model if box.proposed else None
    by = None if model else names.get(box.worker, box.worker)
    return GalleryBox(box.id, box.xyxy, by, model, box.id.startswith("c"), waits)


def _format_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
