"""Coreference links (section 2.1 of the paper): which mention is compared with which chain, and the resulting chains.

Mentions are placed one after another. Each is compared with one mention of each chain that may hold it: at most |M|·|C|
questions instead of |M|². Two mentions of the same caption, or without a common type, are never compared. The most
probable chain, one with the same head noun, comes first, and the first "yes" ends the comparison. Mentions whose types
are not connected form separate groups, which are linked independently.

If a model has proposed links, the chain with the highest probability comes first, and no worker is asked where the
model is sure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from deixis.annotate.events import IMPORTED, Judged, ProposedBoxes, ProposedLinks
from deixis.annotate.material import CaptionMention
from deixis.annotate.workflow import (
    XYXY,
    Answer,
    DrawnBox,
    ProposalSource,
    Rules,
    Status,
    Task,
    Transition,
    WorkerAnswer,
    WorkflowState,
    apply_answer,
    apply_automatic,
    format_subject,
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
        return 1 / (1 + math.exp(-mean))

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
    next_group: tuple[str, ...] | None = None  # mentions to sort into groups: `deixis.annotate.grouping`

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
    """Place the mentions of one group as far as there are answers; workers' answers override the model's.

    `answers` are the judgements of workers by the subjects of their questions.
    """
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
