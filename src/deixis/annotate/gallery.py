"""The gallery, in which leads look at photos with their chains and boxes, and correct them.

Every correction is one event in one transaction, like a judgement: it is on disk before it is acknowledged, and a
request that is sent twice is recorded once.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import combinations
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, delete, func, insert, select

from deixis import geometry
from deixis.annotate.chains import COMPLETE, ENDINGS, NO_BOX, OPEN, SCENE, ChainState, box_json
from deixis.annotate.events import (
    CORRECTIONS,
    Corrected,
    Event,
    Judged,
    PhraseDecision,
    Skipped,
    Undone,
    effective_events,
    undone_events,
)
from deixis.annotate.judgements import (
    JudgementResult,
    PhotoSnapshot,
    PhotoTransaction,
    check_box,
    find_event,
    undo_event,
)
from deixis.annotate.own_question import OwnAnswer, read_answers
from deixis.annotate.people import MODEL_ROLE, find_worker, read_names, require_reviewer
from deixis.annotate.queue import read_assigned
from deixis.annotate.state import PhotoState, derive_state
from deixis.annotate.store import RefusedError, assigned, events, photos, workers
from deixis.annotate.workflow import XYXY, Answer, DrawnBox, Status, Task, mention_of
from deixis.data.records import ENTITY_TYPES

if TYPE_CHECKING:
    from deixis.annotate.project import Project

_PHOTOS_PER_STATEMENT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A correction by a lead."""

    action: str  # one of `deixis.annotate.events.CORRECTIONS`
    mention: str  # any of the chain
    box: Sequence[float] | None = None  # to draw, or to put in the place of another
    box_id: str = ""  # to move or to delete
    mentions: tuple[str, ...] = ()  # that a split makes a chain of their own
    other: str = ""  # a mention of the chain to merge with
    types: tuple[str, ...] = ()
    ending: str = ""  # of the chain, one of `ENDINGS`; for the deletion of the last box, too


def correct(
    project: Project, connection: Connection, lead: str, photo: str, wanted: Correction, *, seen: int | None = None
) -> JudgementResult:
    """Record a correction, unless the chain has changed since `seen`, the last event that the lead saw."""
    require_reviewer(connection, lead)
    transaction = PhotoTransaction(project, connection, photo)
    seen = transaction.snapshot.last_event if seen is None else seen
    digest = hashlib.sha256(json.dumps(asdict(wanted), sort_keys=True).encode()).hexdigest()[:16]
    key = f"correct:{photo}:{seen}:{digest}"
    if (before := find_event(connection, key)) is not None:
        return JudgementResult(before, again=True)
    if wanted.action not in CORRECTIONS:
        raise RefusedError(f"{wanted.action[:40]!r} is not a correction; choose from: {', '.join(CORRECTIONS)}")
    editor = _ChainEditor(transaction.snapshot, project.settings.merge_iou, seen)
    body = {"action": wanted.action, "chains": getattr(editor, wanted.action)(wanted)}
    number = transaction.add_event(key, lead, Corrected.kind, body)
    transaction.apply()
    return JudgementResult(number)


def undo_correction(project: Project, connection: Connection, lead: str, photo: str) -> JudgementResult:
    """Undo the last correction of a photo that counts."""
    return _undo_newest(project, connection, lead, photo, "undo")


def redo_correction(project: Project, connection: Connection, lead: str, photo: str) -> JudgementResult:
    """Redo the correction that was undone last, unless another one was made since."""
    return _undo_newest(project, connection, lead, photo, "redo")


def _undo_newest(project: Project, connection: Connection, lead: str, photo: str, what: str) -> JudgementResult:
    require_reviewer(connection, lead)
    counting, undoing = correction_stacks(project.snapshots.read(connection, photo))
    found = counting if what == "undo" else undoing
    if not found:
        raise RefusedError(f"there is no correction to {what}")
    return undo_event(project, connection, lead, found[-1])


def correction_stacks(snapshot: PhotoSnapshot) -> tuple[list[int], list[int]]:
    """Return the corrections that count, and the undo events that can be undone, oldest first."""
    made = {event.number for event in snapshot.events if isinstance(event, Corrected)}
    if not made:
        return [], []
    counting = [event.number for event in effective_events(snapshot.events) if event.number in made]
    undone = undone_events(snapshot.events)
    undoing = [
        event
        for event in snapshot.events
        if isinstance(event, Undone) and event.event in made and event.number not in undone
    ]
    # A new correction ends the redo of older ones.
    return counting, [event.number for event in undoing if event.number > max(made)]


class _ChainEditor:
    """One method for each correction, which returns the chains of its event."""

    def __init__(self, snapshot: PhotoSnapshot, merge_iou: float, seen: int) -> None:
        self._material, self._state = snapshot.material, snapshot.state
        self._merge_iou, self._seen = merge_iou, seen

    def draw(self, wanted: Correction) -> list[dict[str, Any]]:
        chain = self._linked(wanted.mention)
        drawn = {"xyxy": list(self._check(wanted.box))}
        return [_corrected(chain, [*map(box_json, chain.visible_boxes), drawn], COMPLETE)]

    def move(self, wanted: Correction) -> list[dict[str, Any]]:
        chain = self._linked(wanted.mention)
        old = _find_box(chain, wanted.box_id)
        new = {"xyxy": list(self._check(wanted.box)), "from": old.id}
        boxes = [new if box is old else box_json(box) for box in chain.visible_boxes]
        return [_corrected(chain, boxes, COMPLETE)]

    def delete(self, wanted: Correction) -> list[dict[str, Any]]:
        chain = self._linked(wanted.mention)
        old = _find_box(chain, wanted.box_id)
        boxes = [box_json(box) for box in chain.visible_boxes if box is not old]
        ending = COMPLETE if boxes else _check_ending(wanted.ending or NO_BOX, has_boxes=False)
        return [_corrected(chain, boxes, ending)]

    def decide(self, wanted: Correction) -> list[dict[str, Any]]:
        chain = self._linked(wanted.mention)
        ending = _check_ending(wanted.ending, has_boxes=bool(chain.visible_boxes))
        boxes = [box_json(box) for box in chain.visible_boxes if ending in (COMPLETE, OPEN)]
        return [_corrected(chain, boxes, ending)]

    def split(self, wanted: Correction) -> list[dict[str, Any]]:
        """The part without the chosen mentions keeps the boxes; workers are asked about the other."""
        chain = self._linked(wanted.mention)
        names = [mention.id for mention in chain.mentions]
        part = [name for name in names if name in wanted.mentions]
        rest = [name for name in names if name not in wanted.mentions]
        if not part or not rest or not set(wanted.mentions) <= set(names):
            raise RefusedError("choose some of the phrases of one chain, not all, to split them off")
        kept = _corrected(chain, list(map(box_json, chain.visible_boxes)), _ending_of(chain))
        return [{"mentions": part, "boxes": [], "ending": OPEN}, kept | {"mentions": rest}]

    def merge(self, wanted: Correction) -> list[dict[str, Any]]:
        chain, other = self._linked(wanted.mention), self._linked(wanted.other)
        if chain is other:
            raise RefusedError("these phrases are in one chain already")
        kept = list(chain.visible_boxes)
        for box in other.visible_boxes:
            overlap = float(geometry.iou([box.xyxy], [each.xyxy for each in kept]).max()) if kept else 0.0
            kept += [box] if overlap < self._merge_iou else []
        endings = (_ending_of(chain), _ending_of(other))
        ending = COMPLETE if kept else next((each for each in endings if each != OPEN), OPEN)
        mentions = [mention.id for each in (chain, other) for mention in each.mentions]
        return [_corrected(chain, list(map(box_json, kept)), ending) | {"mentions": mentions}]

    def retype(self, wanted: Correction) -> list[dict[str, Any]]:
        """Nobody is asked again because of new types."""
        chain = self._find(wanted.mention)
        unknown = sorted(set(wanted.types) - set(ENTITY_TYPES))
        if unknown or not wanted.types:
            what = repr(unknown[0][:40]) if unknown else "nothing"
            raise RefusedError(f"{what} is not an entity type; choose from: {', '.join(ENTITY_TYPES)}")
        return [{"mentions": [mention.id for mention in chain.mentions], "types": list(wanted.types)}]

    def _find(self, mention: str) -> ChainState:
        chain = self._state.chain_of(mention)
        if chain is None:
            raise RefusedError(f"photo {self._material.photo}: no chain has the mention {mention[:40]}")
        if any(number > self._seen for number, _ in chain.transitions):
            raise RefusedError("this phrase has changed meanwhile; look at it again")
        return chain

    def _linked(self, mention: str) -> ChainState:
        chain = self._find(mention)
        if chain.workflow is None:
            raise RefusedError("people are still asked what this phrase is the same as; correct it afterwards")
        return chain

    def _check(self, box: Sequence[float] | None) -> XYXY:
        return check_box((self._material.width, self._material.height), box, "the correction")


def _corrected(chain: ChainState, boxes: list[dict[str, Any]], ending: str) -> dict[str, Any]:
    return {"mentions": [mention.id for mention in chain.mentions], "boxes": boxes, "ending": ending}


def _find_box(chain: ChainState, box_id: str) -> DrawnBox:
    for box in chain.visible_boxes:
        if box.id == box_id:
            return box
    raise RefusedError("this box does not exist any more; look at the photo again")


def _check_ending(ending: str, *, has_boxes: bool) -> str:
    allowed = [each for each in ENDINGS if has_boxes or each != COMPLETE]
    if ending not in allowed:
        raise RefusedError(f"{ending[:40]!r} is not possible here; choose from: {', '.join(allowed)}")
    return ending


def _ending_of(chain: ChainState) -> str:
    workflow = chain.workflow
    if workflow is None or isinstance(workflow.stage, Task):
        return OPEN
    if workflow.stage is Status.NOT_VISUAL:
        return SCENE if workflow.is_scene else NO_BOX
    return COMPLETE if chain.visible_boxes else OPEN


class PhotoStage(StrEnum):
    """Where a photo is in the project."""

    OPEN = "open"
    WAITING = "waiting for review"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class GalleryFilter:
    """Conditions on the listed photos; all must hold."""

    stage: PhotoStage | None = None
    person: str | None = None  # id of a worker who judged, skipped or corrected something
    disagreement: bool = False  # people gave different answers to one question
    changed: bool = False  # a lead has corrected it
    assigned: str | None = None  # id of a worker to whom it is assigned; "" for photos that everybody is asked about
    words: str = ""  # each is part of the file name, or begins a word of a caption
    type: str = ""  # entity type of a phrase


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
    mentions: tuple[str, ...]  # ids, also of those that are not linked yet
    chains: tuple[GalleryChain, ...]
    people: tuple[str, ...]  # names of those who worked on it
    disagreements: tuple[Disagreement, ...]
    corrections: tuple[CorrectionEntry, ...]
    can_redo: bool
    last_event: int
    answers: tuple[OwnAnswer, ...] = ()  # to the lead's own question
    assigned: tuple[str, ...] = ()  # names of those to whom it is assigned


def find_photos(
    project: Project, wanted: GalleryFilter, *, offset: int = 0, limit: int = 24
) -> tuple[int, list[GalleryPhoto]]:
    """Return the number of photos that match, and some of them in the order of the project."""
    with project.database.reading() as connection:
        found = _find_names(project, connection, wanted)
        names = read_names(connection)
        assigned_to = read_assigned(connection)
        page = found[offset : offset + limit]
        return len(found), [
            _describe(project, project.snapshots.read(connection, photo), names, assigned_to) for photo in page
        ]


def _find_names(project: Project, connection: Connection, wanted: GalleryFilter) -> list[str]:
    found: list[str] = list(connection.scalars(_candidates(wanted)))
    if wanted.words or wanted.type:
        matching = _find_by_material(project, connection, wanted)
        found = [photo for photo in found if photo in matching]
    if wanted.disagreement or wanted.changed:
        found = [photo for photo in found if _matches(project.snapshots.read(connection, photo), wanted)]
    return found


@dataclass(frozen=True, slots=True)
class Assigned:
    """Photos that were assigned, and why it may not work, if so. The fields are JSON keys."""

    photos: int
    advice: str | None


def assign_photos(project: Project, lead: str | None, wanted: GalleryFilter, people: Collection[str]) -> Assigned:
    """Ask only these workers about all photos that match; without any, everybody again.

    `lead` is the reviewer or owner who does it; None on the command line.
    """
    with project.database.writing() as connection:
        if lead is not None:
            require_reviewer(connection, lead)
        ids = sorted({find_worker(connection, each).id for each in people})
        found = _find_names(project, connection, wanted)
        for start in range(0, len(found), _PHOTOS_PER_STATEMENT):
            block = found[start : start + _PHOTOS_PER_STATEMENT]
            connection.execute(delete(assigned).where(assigned.c.photo.in_(block)))
            rows = [{"photo": photo, "worker": worker} for photo in block for worker in ids]
            if rows:
                connection.execute(insert(assigned), rows)
    settings, needed = project.settings, project.settings.people_needed
    if settings.question and settings.independent:
        needed = max(needed, settings.question.votes)
    few = f"votes need {needed} people, so what they cannot answer goes to reviewers"
    return Assigned(len(found), few if ids and len(ids) < needed else None)


def read_photo(project: Project, photo: str) -> GalleryPhoto:
    with project.database.reading() as connection:
        snapshot = project.snapshots.read(connection, photo)
        return _describe(project, snapshot, read_names(connection), read_assigned(connection))


def list_people(project: Project) -> list[tuple[str, str]]:
    """Return the ids and names of the people who have joined, or have worked on photos."""
    worked = workers.c.id.in_(select(events.c.worker).where(events.c.known.is_(None)))
    people = workers.c.joined_at.is_not(None) | worked
    chosen = select(workers.c.id, workers.c.name).where(workers.c.role != MODEL_ROLE, people)
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
    if wanted.assigned is not None:
        anybody = select(assigned.c.photo)
        theirs = photos.c.id.in_(anybody.where(assigned.c.worker == wanted.assigned))
        chosen = chosen.where(theirs if wanted.assigned else photos.c.id.not_in(anybody))
    if wanted.changed:
        chosen = chosen.where(photos.c.id.in_(about.where(events.c.kind == Corrected.kind)))
    if wanted.disagreement:
        several = func.count(events.c.worker.distinct()) > 1
        judged = about.where(events.c.kind == Judged.kind).group_by(events.c.photo).having(several)
        chosen = chosen.where(photos.c.id.in_(judged))
    return chosen.order_by(photos.c.place)


def _find_by_material(project: Project, connection: Connection, wanted: GalleryFilter) -> set[str]:
    words = [(word, re.compile(rf"(?<!\w){re.escape(word)}")) for word in wanted.words.casefold().split()]
    chosen = select(photos.c.id, photos.c.material).where(photos.c.known.is_(False))
    retyped = select(events.c.photo).where(events.c.kind.in_((Corrected.kind, PhraseDecision.kind))).distinct()
    changed = set(connection.scalars(retyped)) if wanted.type else set()
    found = set()
    for photo, material in connection.execute(chosen):
        name = f"{photo}\n{material['file'] or ''}".casefold()
        captions = "\n".join(material["captions"]).casefold() if words else ""
        if not all(word in name or in_caption.search(captions) for word, in_caption in words):
            continue
        if photo in changed:
            types = [each.types for each in project.snapshots.read(connection, photo).state.chains]
        else:
            types = [each for _, each in material["mentions"]]
        if not wanted.type or any(wanted.type in each for each in types):
            found.add(photo)
    return found


def _matches(snapshot: PhotoSnapshot, wanted: GalleryFilter) -> bool:
    counting = effective_events(snapshot.events)
    if wanted.changed and not any(isinstance(event, Corrected) for event in counting):
        return False
    return not wanted.disagreement or bool(find_disagreements(counting))


AS_VOTE: dict[tuple[bool, str], tuple[Task, str]] = {
    (False, Answer.NO_MORE): (Task.REQUIREMENT, Answer.NO_BOX),
    (False, Answer.DRAWN): (Task.REQUIREMENT, Answer.BOX),
    (True, Answer.NO_MORE): (Task.COVERAGE, Answer.ALL),
    (True, Answer.DRAWN): (Task.COVERAGE, Answer.MORE),
}
"""Meaning of an answer in the drawing task for the need for boxes, or with boxes for coverage."""


def find_disagreements(counting: Iterable[Event], names: Mapping[str, str] | None = None) -> list[Disagreement]:
    """List the questions to which people gave different answers, among the events that count."""
    votes: dict[tuple[Task, str], dict[str, str]] = defaultdict(dict)
    for event in counting:
        if isinstance(event, Judged):
            task, answer = event.task, event.answer
            if task is Task.DRAWING:
                task, answer = AS_VOTE[" " in event.subject, answer]
            votes[task, event.subject][event.worker] = answer
    return [
        Disagreement(
            task,
            mention_of(subject),
            tuple(((names or {}).get(worker, worker), str(answer)) for worker, answer in said.items()),
        )
        for (task, subject), said in votes.items()
        if len({str(answer).casefold() for answer in said.values()}) > 1
    ]


def _describe(
    project: Project, snapshot: PhotoSnapshot, names: Mapping[str, str], assigned_to: Mapping[str, set[str]]
) -> GalleryPhoto:
    state, counting = snapshot.state, effective_events(snapshot.events)
    stage = PhotoStage.FINISHED if state.finished else PhotoStage.WAITING if state.review else PhotoStage.OPEN
    corrections = {event.number: event for event in counting if isinstance(event, Corrected)}
    worked = [event.worker for event in counting if isinstance(event, Judged | Skipped | Corrected)]
    return GalleryPhoto(
        snapshot.material.photo,
        stage,
        snapshot.material.captions,
        tuple(mention.id for mention in snapshot.mentions),
        tuple(_describe_chain(chain, corrections, names) for chain in state.chains),
        tuple(dict.fromkeys(names[worker] for worker in worked if worker in names)),
        tuple(find_disagreements(counting, names)),
        tuple(
            CorrectionEntry(
                number,
                names.get(event.worker, event.worker),
                format_time(event.at),
                event.action,
                snapshot.material.mention_at(event.chains[0]["mentions"][0]).text,
            )
            for number, event in corrections.items()
        ),
        bool(correction_stacks(snapshot)[1]),
        snapshot.last_event,
        tuple(read_answers(snapshot, project.settings.question, names)),
        tuple(sorted(names[worker] for worker in assigned_to.get(snapshot.material.photo, ()))),
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


def format_time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
