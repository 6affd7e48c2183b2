"""Chains of a photo, and the corrections of a lead that replace them.

A correction states all that its chains have afterwards: mentions, boxes and how they end. It stays valid whatever
happens to the judgements before it, and undoing it brings back what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deixis.annotate.events import Corrected
from deixis.annotate.linking import AppliedTransition, Chain, mention_order
from deixis.annotate.material import CaptionMention
from deixis.annotate.workflow import (
    Answer,
    DrawnBox,
    ProposalSource,
    Stage,
    Status,
    Task,
    Transition,
    WorkerAnswer,
    WorkflowState,
    always,
    nothing,
)

COMPLETE, SCENE, NO_BOX, OPEN = "complete", "scene", "no box", "open"
ENDINGS = (COMPLETE, SCENE, NO_BOX, OPEN)
"""How a corrected chain ends: with its boxes, without a box for one of two reasons, or with questions to workers."""


@dataclass(frozen=True, slots=True)
class ChainState:
    """A chain and its position in the workflow."""

    mentions: Chain
    workflow: WorkflowState | None = None  # None while mentions may still join
    transitions: tuple[AppliedTransition, ...] = ()
    unsplit: bool = False  # a worker said that it names several things, but its head nouns are all the same
    corrected: tuple[int, ...] = ()  # numbers of the corrections that count
    since: int = 0  # judgements about boxes count after this event
    discarded: tuple[DrawnBox, ...] = ()  # boxes that a lead deleted

    @property
    def shown(self) -> CaptionMention:
        """The mention shown in the box tasks: the longest, the first of equals."""
        return max(self.mentions, key=lambda mention: len(mention.text))

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for mention in self.mentions for name in mention.types))

    @property
    def visible_boxes(self) -> tuple[DrawnBox, ...]:
        """The accepted boxes and the one that waits for a judgement."""
        if self.workflow is None:
            return ()
        return self.workflow.boxes + ((self.workflow.new_box,) if self.workflow.new_box else ())


StartWorkflow = Callable[[Chain], WorkflowState]
"""Returns the workflow of a chain whose boxes workers are asked about from the beginning."""


def box_json(box: DrawnBox) -> dict[str, Any]:
    """Describe a box that existed before a correction."""
    plain: dict[str, Any] = {"xyxy": list(box.xyxy), "id": box.id, "worker": box.worker}
    if box.proposed:
        plain |= {"model": box.proposed.model, "probability": box.proposed.probability}
    return plain


def correct_chains(
    chains: Iterable[ChainState], corrections: Sequence[Corrected], start: StartWorkflow
) -> list[ChainState]:
    """Apply corrections in order. Chains that they do not concern stay as they are."""
    found = list(chains)
    for event in corrections:
        for number, wanted in enumerate(event.chains):
            found = _apply(found, event, number, wanted, start)
    return found


def _apply(
    chains: Sequence[ChainState], event: Corrected, number: int, wanted: Mapping[str, Any], start: StartWorkflow
) -> list[ChainState]:
    names = set(wanted["mentions"])
    sources, rest = [], []
    for chain in chains:
        left = tuple(mention for mention in chain.mentions if mention.id not in names)
        if len(left) < len(chain.mentions):
            sources.append(chain)
            chain = replace(chain, mentions=left, since=event.number)
        if left:
            rest.append(chain)
    mentions = sorted((each for chain in sources for each in chain.mentions if each.id in names), key=mention_order)
    if not mentions:  # all of them were dropped
        return list(chains)
    if wanted.get("types"):
        mentions = [replace(mention, types=tuple(wanted["types"])) for mention in mentions]
    made = _make_chain(tuple(mentions), sources, event, number, wanted, start)
    return [*rest, made]


def _make_chain(
    mentions: Chain,
    sources: Sequence[ChainState],
    event: Corrected,
    number: int,
    wanted: Mapping[str, Any],
    start: StartWorkflow,
) -> ChainState:
    first, corrected = sources[0], tuple(dict.fromkeys(each for chain in sources for each in chain.corrected))
    made = replace(first, mentions=mentions, corrected=(*corrected, event.number), unsplit=False)
    workflow, ending = first.workflow, wanted.get("ending")
    if ending is not None:
        boxes = tuple(_make_box(box, event, f"c{event.number}:{number}:{i}") for i, box in enumerate(wanted["boxes"]))
        workflow = _end(mentions, boxes, ending, event, start)
        before = {box.id: box for chain in sources for box in chain.visible_boxes}
        moved = tuple(
            (before[plain["from"]], box)
            for plain, box in zip(wanted["boxes"], boxes, strict=True)
            if plain.get("from") in before
        )
        adjusted = tuple(pair for chain in sources if chain.workflow for pair in chain.workflow.adjusted)
        workflow = replace(workflow, adjusted=(*adjusted, *moved))
        kept = {box.id for box in boxes} | {old.id for old, _ in moved}
        discarded = tuple(box for name, box in before.items() if name not in kept) if event.is_about_boxes else ()
        made = replace(made, since=event.number, discarded=(*first.discarded, *discarded))
    target = workflow.stage if workflow else Status.PLACED
    step = Transition(Status.REVIEW, (), nothing, always, target)
    transitions = dict.fromkeys(taken for chain in sources for taken in chain.transitions)
    return replace(made, workflow=workflow, transitions=(*transitions, (event.number, step)))


def _make_box(plain: Mapping[str, Any], event: Corrected, new_id: str) -> DrawnBox:
    x1, y1, x2, y2 = plain["xyxy"]
    source = ProposalSource(plain["model"], plain["probability"]) if "model" in plain else None
    return DrawnBox(plain.get("id", new_id), (x1, y1, x2, y2), plain.get("worker", event.worker), source)


def _end(
    mentions: Chain, boxes: tuple[DrawnBox, ...], ending: str, event: Corrected, start: StartWorkflow
) -> WorkflowState:
    if ending == OPEN and not boxes:
        return start(mentions)
    stages: dict[str, Stage] = {OPEN: Task.COVERAGE, COMPLETE: Status.COMPLETE}
    stage = stages.get(ending, Status.NOT_VISUAL)
    state = WorkflowState(stage, mentions=len(mentions), boxes=boxes)
    if stage is not Status.NOT_VISUAL:
        return state
    answer = Answer.SCENE if ending == SCENE else Answer.NO_BOX
    return replace(state, boxes=(), requirement_votes=(WorkerAnswer(answer, event.worker),))
