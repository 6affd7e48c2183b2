"""Corrections that a lead makes to the chains and boxes of a photo, with undo and redo.

Every correction is one event in one transaction, like a judgement: it is on disk before it is acknowledged, and a
request that is sent twice is recorded once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from deixis import geometry
from deixis.annotate.chains import COMPLETE, ENDINGS, NO_BOX, OPEN, SCENE, ChainState, box_json
from deixis.annotate.events import CORRECTIONS, Corrected, Undone, effective_events, undone_events
from deixis.annotate.judgements import JudgementResult, check_box, undo_event
from deixis.annotate.people import read_worker
from deixis.annotate.transactions import PhotoSnapshot, PhotoTransaction, RefusedError, find_event
from deixis.annotate.workflow import XYXY, DrawnBox, Status, Task
from deixis.data.records import ENTITY_TYPES

if TYPE_CHECKING:
    from deixis.annotate.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What a lead wants to change.

    Attributes
    ----------
    action
        One of `deixis.annotate.events.CORRECTIONS`.
    mention
        A mention of the chain.
    box
        The box to draw, or to put in the place of another.
    box_id
        The box to move or to delete.
    mentions
        The mentions of the chain that a split makes a chain of their own.
    other
        A mention of the chain to merge with.
    types
        The new entity types.
    ending
        How the chain ends, one of `deixis.annotate.chains.ENDINGS`; for the deletion of the last box, too.
    """

    action: str
    mention: str
    box: Sequence[float] | None = None
    box_id: str = ""
    mentions: tuple[str, ...] = ()
    other: str = ""
    types: tuple[str, ...] = ()
    ending: str = ""


def correct(
    project: Project, connection: Connection, lead: str, photo: str, wanted: Correction, *, seen: int | None = None
) -> JudgementResult:
    """Record a correction. `seen` is the last event of the photo that the lead saw.

    Raises
    ------
    RefusedError
        It is not possible, or the chain has changed since `seen`.
    """
    _require_lead(connection, lead)
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
    return JudgementResult(number, transaction=transaction)


def undo_correction(project: Project, connection: Connection, lead: str, photo: str) -> JudgementResult:
    """Undo the last correction of a photo that counts."""
    _require_lead(connection, lead)
    counting, _ = correction_stacks(project.snapshots.read(connection, photo))
    if not counting:
        raise RefusedError("there is no correction to undo")
    return undo_event(project, connection, lead, counting[-1])


def redo_correction(project: Project, connection: Connection, lead: str, photo: str) -> JudgementResult:
    """Redo the correction that was undone last, unless another one was made since."""
    _require_lead(connection, lead)
    _, undoing = correction_stacks(project.snapshots.read(connection, photo))
    if not undoing:
        raise RefusedError("there is no correction to redo")
    return undo_event(project, connection, lead, undoing[-1])


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


def _require_lead(connection: Connection, worker: str) -> None:
    if not read_worker(connection, worker).can_review:
        raise RefusedError("only reviewers and owners can correct photos")


class _ChainEditor:
    """One method for each correction, which returns the chains of its event."""

    def __init__(self, snapshot: PhotoSnapshot, merge_iou: float, seen: int) -> None:
        self._material, self._chains = snapshot.material, snapshot.state.chains
        self._merge_iou, self._seen = merge_iou, seen

    def draw(self, wanted: Correction) -> list[dict[str, Any]]:
        chain = self._linked(wanted.mention)
        drawn = {"xyxy": list(self._check(wanted.box))}
        return [_describe(chain, [*map(box_json, chain.visible_boxes), drawn], COMPLETE)]

    def move(self, wanted: Correction) -> list[dict[str, Any]]:
        chain = self._linked(wanted.mention)
        old = _find_box(chain, wanted.box_id)
        new = {"xyxy": list(self._check(wanted.box)), "from": old.id}
        boxes = [new if box is old else box_json(box) for box in chain.visible_boxes]
        return [_describe(chain, boxes, COMPLETE)]

    def delete(self, wanted: Correction) -> list[dict[str, Any]]:
        chain = self._linked(wanted.mention)
        old = _find_box(chain, wanted.box_id)
        boxes = [box_json(box) for box in chain.visible_boxes if box is not old]
        ending = COMPLETE if boxes else _check_ending(wanted.ending or NO_BOX, has_boxes=False)
        return [_describe(chain, boxes, ending)]

    def decide(self, wanted: Correction) -> list[dict[str, Any]]:
        chain = self._linked(wanted.mention)
        ending = _check_ending(wanted.ending, has_boxes=bool(chain.visible_boxes))
        boxes = [box_json(box) for box in chain.visible_boxes if ending in (COMPLETE, OPEN)]
        return [_describe(chain, boxes, ending)]

    def split(self, wanted: Correction) -> list[dict[str, Any]]:
        """The part without the chosen mentions keeps the boxes; workers are asked about the other."""
        chain = self._linked(wanted.mention)
        names = [mention.id for mention in chain.mentions]
        part = [name for name in names if name in wanted.mentions]
        rest = [name for name in names if name not in wanted.mentions]
        if not part or not rest or not set(wanted.mentions) <= set(names):
            raise RefusedError("choose some of the phrases of one chain, not all, to split them off")
        kept = _describe(chain, list(map(box_json, chain.visible_boxes)), _ending_of(chain))
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
        return [_describe(chain, list(map(box_json, kept)), ending) | {"mentions": mentions}]

    def retype(self, wanted: Correction) -> list[dict[str, Any]]:
        """Nobody is asked again because of new types."""
        chain = self._find(wanted.mention)
        unknown = sorted(set(wanted.types) - set(ENTITY_TYPES))
        if unknown or not wanted.types:
            what = repr(unknown[0][:40]) if unknown else "nothing"
            raise RefusedError(f"{what} is not an entity type; choose from: {', '.join(ENTITY_TYPES)}")
        return [{"mentions": [mention.id for mention in chain.mentions], "types": list(wanted.types)}]

    def _find(self, mention: str) -> ChainState:
        for chain in self._chains:
            if mention in {each.id for each in chain.mentions}:
                if any(number > self._seen for number, _ in chain.transitions):
                    raise RefusedError("this phrase has changed meanwhile; look at it again")
                return chain
        raise RefusedError(f"photo {self._material.photo}: no chain has the mention {mention[:40]}")

    def _linked(self, mention: str) -> ChainState:
        chain = self._find(mention)
        if chain.workflow is None:
            raise RefusedError("people are still asked what this phrase is the same as; correct it afterwards")
        return chain

    def _check(self, box: Sequence[float] | None) -> XYXY:
        return check_box((self._material.width, self._material.height), box, "the correction")


def _describe(chain: ChainState, boxes: list[dict[str, Any]], ending: str) -> dict[str, Any]:
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
