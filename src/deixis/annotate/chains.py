"""Chains of a photo: how mentions are linked (section 2.1 of the paper), and corrections of a lead.

Mentions are placed one after another. Each is compared with one mention of each chain that may hold it: at most |M|·|C|
questions instead of |M|². Two mentions of the same caption, or without a common type, are never compared. The most
probable chain, one with the same head noun, comes first, and the first "yes" ends the comparison. Mentions whose types
are not connected form separate groups, which are linked independently.

If a model has proposed links, the chain with the highest probability comes first, and no worker is asked where the
model is sure. With `Rules.group_links`, which the paper does not have, a worker sorts the mentions of a group into
chains in one question; the result goes to verification as chains from pairs do.

A correction states all that its chains have afterwards: mentions, boxes and how they end. It stays valid whatever
happens to the judgements before it, and undoing it brings back what they say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from deixis.annotate.events import IMPORTED, Corrected, Judged, ProposedBoxes, ProposedLinks
from deixis.annotate.material import CaptionMention
from deixis.annotate.workflow import (
    WORKFLOW,
    XYXY,
    Answer,
    DrawnBox,
    ProposalSource,
    Rules,
    Stage,
    Status,
    Task,
    Transition,
    WorkerAnswer,
    WorkflowState,
    always,
    apply_answer,
    apply_automatic,
    format_subject,
    nothing,
)

SAME_BOX_IOU = 0.5
"""Boxes of two mentions of one chain with at least this IoU are one proposal."""

_EPSILON = 1e-6

Chain = tuple[CaptionMention, ...]

AppliedTransition = tuple[int, Transition]
"""The number of an event and the transition it caused."""


@dataclass(frozen=True)
class LinkProposals:
    """A model's answers to link questions; about `withdrawn` mentions, whose links were rejected, only "no"."""

    event: ProposedLinks
    withdrawn: frozenset[str] = frozenset()

    def withdraw(self, mentions: Iterable[CaptionMention]) -> LinkProposals:
        return replace(self, withdrawn=self.withdrawn | {mention.id for mention in mentions})

    def probability(self, mention: CaptionMention, chain: Sequence[CaptionMention]) -> float | None:
        """Return the probability that a mention belongs to a chain, from the mean log odds of its known pairs."""
        links = self.event.links
        pairs = (_pair_subject(other, mention) for other in chain)
        found = [min(max(links[pair], _EPSILON), 1 - _EPSILON) for pair in pairs if pair in links]
        if not found:
            return None
        mean = sum(math.log(probability / (1 - probability)) for probability in found) / len(found)
        return 1 / (1 + math.exp(-mean))  # not `arrays.logistic`: its last bit could change recorded decisions

    def answer(self, mention: CaptionMention, chain: Sequence[CaptionMention], subject: str) -> Judged | None:
        """Return the model's judgement; None if a worker has to be asked."""
        probability = self.probability(mention, chain)
        if probability is None or self.event.no_below <= probability < self.event.yes_from:
            return None
        answer = Answer.YES if probability >= self.event.yes_from else Answer.NO
        if answer is Answer.YES and mention.id in self.withdrawn:
            return None
        number, worker = self.event.number, self.event.worker
        return Judged(number=number, worker=worker, task=Task.LINK, subject=subject, answer=answer)


def _pair_subject(one: CaptionMention, other: CaptionMention) -> str:
    first, second = sorted((one, other), key=mention_order)
    return f"{first.id} {second.id}"


def mention_order(mention: CaptionMention) -> tuple[int, int]:
    """Sort key: the order in which mentions are read."""
    return mention.caption, mention.start


def proposed_boxes_for(event: ProposedBoxes, mentions: Sequence[CaptionMention]) -> tuple[DrawnBox, ...]:
    """Merge the boxes that a model proposes for the mentions of a chain, most probable first.

    The probability of a box is the mean over the mentions with proposals of the probability of their same box.
    """
    proposing = sum(mention.id in event.boxes for mention in mentions)
    listed = [
        (mention.id, rank, (x1, y1, x2, y2), probability)
        for mention in mentions
        for rank, (x1, y1, x2, y2, probability) in enumerate(event.boxes.get(mention.id, ()))
    ]
    rated = []
    for mention_id, rank, box, probability in listed:
        best: dict[str, float] = {}
        for other_id, _, other, other_probability in listed:
            if _iou(box, other) >= SAME_BOX_IOU:
                best[other_id] = max(best.get(other_id, 0.0), other_probability)
        rated.append((sum(best.values()) / proposing, probability, f"p{event.number}:{mention_id}:{rank}", box))
    kept: list[DrawnBox] = []
    same_box = 1.0 if event.model == IMPORTED else SAME_BOX_IOU  # boxes of a data set may overlap
    for mean, _, name, box in sorted(rated, key=lambda each: each[:2], reverse=True):
        if mean >= event.show_from and all(_iou(box, other.xyxy) < same_box for other in kept):
            kept.append(DrawnBox(name, box, event.worker, ProposalSource(event.model, round(mean, 3))))
    return tuple(kept)


def _iou(one: XYXY, other: XYXY) -> float:
    """IoU of two boxes in plain Python: it runs for every answer, where NumPy's overhead would dominate."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = ((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return width * height / (sum(areas) - width * height)


@dataclass(frozen=True, slots=True)
class LinkingResult:
    """The chains of one group of mentions so far."""

    chains: tuple[Chain, ...]
    next_pair: tuple[str, str] | None  # mentions to compare next; None if all are placed
    transitions: dict[str, tuple[AppliedTransition, ...]]  # what placed each mention
    next_group: tuple[str, ...] | None = None  # mentions to sort into groups: `apply_grouping`

    def count_linked_by(self, event: int, chain: Iterable[CaptionMention], until: int | None = None) -> int:
        """Count the mentions of a chain that the proposals of an event placed there.

        Links that workers confirmed after the event `until` were still the model's at that time and count too.
        """
        last = [self.transitions[mention.id][-1] for mention in chain if self.transitions[mention.id]]
        return sum(
            Answer.YES in transition.answers and (number == event or (until is not None and number > until))
            for number, transition in last
        )


def groups_by_type(mentions: Iterable[CaptionMention]) -> list[list[CaptionMention]]:
    """Group the mentions that could end up in one chain, directly or through others, by their types."""
    groups: list[tuple[set[str], list[CaptionMention]]] = []
    for mention in mentions:
        types, members = set(mention.types), [mention]
        separate = []
        for other_types, others in groups:
            if types & other_types:
                types |= other_types
                members = others + members
            else:
                separate.append((other_types, others))
        groups = [*separate, (types, members)]
    ordered = [sorted(members, key=mention_order) for _, members in groups]
    return sorted(ordered, key=lambda members: mention_order(members[0]))


def link_mentions(
    mentions: Sequence[CaptionMention],
    answers: Mapping[str, Judged],
    rules: Rules,
    proposals: LinkProposals | None = None,
) -> LinkingResult:
    """Place the mentions of one group as far as `answers`, by subject, reach; they override the model's."""
    chains: list[list[CaptionMention]] = []
    transitions: dict[str, tuple[AppliedTransition, ...]] = {}
    for mention in mentions:
        candidates = _candidate_chains(mention, chains, proposals)
        state = apply_automatic(WorkflowState(Status.NEW, chains_left=tuple(candidates)), rules)
        taken: list[AppliedTransition] = []
        while state.stage is Task.LINK:
            name = state.chains_left[0]
            pair = (candidates[name].id, mention.id)
            judged = answers.get(format_subject(pair))
            if judged is None and proposals is not None:
                judged = proposals.answer(mention, _find_chain(name, chains), format_subject(pair))
            transition = None
            if judged is not None:
                state, transition = apply_answer(state, WorkerAnswer(judged.answer, judged.worker), rules)
            if judged is None or transition is None:
                return LinkingResult(tuple(map(tuple, chains)), pair, transitions | {mention.id: tuple(taken)})
            taken.append((judged.number, transition))
        transitions[mention.id] = tuple(taken)
        if state.chain is None:
            chains.append([mention])
        else:
            _find_chain(state.chain, chains).append(mention)
    return LinkingResult(tuple(map(tuple, chains)), None, transitions)


def _find_chain(name: str, chains: Sequence[list[CaptionMention]]) -> list[CaptionMention]:
    """Chains are named by the id of their first mention."""
    return next(chain for chain in chains if chain[0].id == name)


def _candidate_chains(
    mention: CaptionMention, chains: Sequence[Sequence[CaptionMention]], proposals: LinkProposals | None = None
) -> dict[str, CaptionMention]:
    """Map the chains that may hold a mention to the mention to compare it with, most probable chain first."""
    found = []
    for chain in chains:
        same_type = [other for other in chain if set(other.types) & set(mention.types)]
        if same_type and all(other.caption != mention.caption for other in chain):
            probability = proposals.probability(mention, chain) if proposals else None
            other_head = mention.head not in {other.head for other in chain}
            found.append(((-probability if probability is not None else 0.0, other_head), chain[0].id, same_type[0]))
    return {chain: shown for _, chain, shown in sorted(found, key=lambda each: each[0])}


GROUP_TRANSITION = next(row for row in WORKFLOW if row.stage is Task.GROUP)

Partition = Sequence[Sequence[str]]
"""Groups of mention ids."""


def is_groupable(mentions: Sequence[CaptionMention]) -> bool:
    """Return whether two of the mentions are of different captions and share a type."""
    return any(
        one.caption != other.caption and set(one.types) & set(other.types) for one, other in combinations(mentions, 2)
    )


def ask_for_groups(mentions: Sequence[CaptionMention]) -> LinkingResult:
    """Return the state before a group question is answered: every mention alone."""
    names = tuple(mention.id for mention in mentions)
    return LinkingResult(tuple((mention,) for mention in mentions), None, dict.fromkeys(names, ()), names)


def find_grouping(mentions: Sequence[CaptionMention], judgements: Iterable[Judged]) -> Judged | None:
    """Find the first judgement about all of these mentions, and perhaps others that were dropped since."""
    wanted = {mention.id for mention in mentions}
    return next((judged for judged in judgements if wanted <= set(judged.subject.split())), None)


def apply_grouping(mentions: Sequence[CaptionMention], judged: Judged) -> LinkingResult:
    """Make the chains of a judgement from the mentions that are still there."""
    by_id = {mention.id: mention for mention in mentions}
    chains = [tuple(by_id[name] for name in group if name in by_id) for group in judged.groups]
    ordered = [tuple(sorted(chain, key=mention_order)) for chain in chains if chain]
    ordered.sort(key=lambda chain: mention_order(chain[0]))
    taken = ((judged.number, GROUP_TRANSITION),)
    return LinkingResult(tuple(ordered), None, dict.fromkeys(by_id, taken))


def find_grouping_problem(mentions: Sequence[str], groups: Partition) -> str | None:
    """Say what is wrong with an answer; None if each mention is in one group and no caption twice."""
    listed = [name for group in groups for name in group]
    if sorted(listed) != sorted(mentions) or not all(groups):
        return "each phrase must be in exactly one group"
    for group in groups:
        captions = [name.partition(":")[0] for name in group]
        if len(set(captions)) < len(captions):
            return "two phrases of one caption cannot be in the same group"
    return None


def rand_index(one: Partition, other: Partition) -> float:
    """Share of pairs, of mentions of two captions, that two partitions of the same mentions agree on.

    Examples
    --------
    >>> rand_index([["0:0-5", "1:0-5"], ["2:0-5"]], [["0:0-5"], ["1:0-5"], ["2:0-5"]])
    0.6666666666666666
    """
    places = [{name: number for number, group in enumerate(groups) for name in group} for groups in (one, other)]
    pairs = [(a, b) for a, b in combinations(sorted(places[0]), 2) if a.partition(":")[0] != b.partition(":")[0]]
    same = sum((places[0][a] == places[0][b]) == (places[1][a] == places[1][b]) for a, b in pairs)
    return same / len(pairs) if pairs else 1.0


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


def box_json(box: DrawnBox) -> dict[str, Any]:
    """Describe a box that existed before a correction."""
    plain: dict[str, Any] = {"xyxy": list(box.xyxy), "id": box.id, "worker": box.worker}
    if box.proposed:
        plain |= {"model": box.proposed.model, "probability": box.proposed.probability}
    return plain


def correct_chains(
    chains: Iterable[ChainState], corrections: Sequence[Corrected], start: StartWorkflow
) -> list[ChainState]:
    found = list(chains)
    for event in corrections:
        for number, wanted in enumerate(event.chains):
            found = _correct_chain(found, event, number, wanted, start)
    return found


def _correct_chain(
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
        workflow = _end_chain(mentions, boxes, ending, event, start)
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


def _end_chain(
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
