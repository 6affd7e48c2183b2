"""What models proposed for a photo, as the fold asks for it: answers to link questions, and boxes of chains."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from deixis.annotate.events import Judged, ProposedBoxes, ProposedLinks
from deixis.annotate.material import Marked
from deixis.annotate.walks import XYXY, Answer, DrawnBox, Proposed, Task

SAME_BOX_IOU = 0.5
"""Boxes of two mentions of one chain that overlap so far are the same proposal."""

_SUREST = 1e-6


@dataclass(frozen=True)
class LinkHelp:
    """A model's word on links.

    Attributes
    ----------
    event
        What it said of every pair.
    withdrawn
        Mentions whose proposed links a person has refused: about these it only says "no", and people say "yes".
    """

    event: ProposedLinks
    withdrawn: frozenset[str] = frozenset()

    def without(self, mentions: Iterable[Marked]) -> LinkHelp:
        """The same once a person has refused what it made of these mentions."""
        return replace(self, withdrawn=self.withdrawn | {mention.id for mention in mentions})

    def probability(self, mention: Marked, chain: Sequence[Marked]) -> float | None:
        """How likely a mention belongs to a chain: the mean over its mentions of the logarithm of the odds.

        None where the model has seen none of the pairs, such as one with a phrase that was added later.
        """
        links = self.event.links
        found = [probability for other in chain if (probability := links.get(_pair(other, mention))) is not None]
        if not found:
            return None
        mean = sum(math.log(kept / (1 - kept)) for kept in map(_within, found)) / len(found)
        return 1 / (1 + math.exp(-mean))

    def answer(self, mention: Marked, chain: Sequence[Marked], subject: str) -> Judged | None:
        """Its answer to a link question; None where people are to be asked."""
        likely = self.probability(mention, chain)
        if likely is None or self.event.no_below <= likely < self.event.yes_from:
            return None
        answer = Answer.YES if likely >= self.event.yes_from else Answer.NO
        if answer is Answer.YES and mention.id in self.withdrawn:
            return None
        number, worker = self.event.number, self.event.worker
        return Judged(number=number, worker=worker, task=Task.LINK, subject=subject, answer=answer)


def _pair(one: Marked, other: Marked) -> str:
    """The subject of the question about two mentions, the earlier one first."""
    first, second = sorted((one, other), key=lambda mention: (mention.caption, mention.start))
    return f"{first.id} {second.id}"


def _within(probability: float) -> float:
    return min(max(probability, _SUREST), 1 - _SUREST)


def boxes_for(event: ProposedBoxes, mentions: Sequence[Marked]) -> tuple[DrawnBox, ...]:
    """The boxes that a model proposes for a chain, the surest first: those of its mentions, each thing once.

    How sure it is of a box is the mean, over the mentions of which it has a word, of how sure it is of theirs, where
    they are the same box.
    """
    speak = sum(mention.id in event.boxes for mention in mentions)
    listed = [
        (mention.id, place, (x1, y1, x2, y2), probability)
        for mention in mentions
        for place, (x1, y1, x2, y2, probability) in enumerate(event.boxes.get(mention.id, ()))
    ]
    rated = []
    for mention_id, place, box, probability in listed:
        best: dict[str, float] = {}
        for other_id, _, other, certain in listed:
            if _iou(box, other) >= SAME_BOX_IOU:
                best[other_id] = max(best.get(other_id, 0.0), certain)
        rated.append((sum(best.values()) / speak, probability, f"p{event.number}:{mention_id}:{place}", box))
    kept: list[DrawnBox] = []
    for mean, _, name, box in sorted(rated, key=lambda each: each[:2], reverse=True):
        if mean >= event.show_from and all(_iou(box, other.xyxy) < SAME_BOX_IOU for other in kept):
            kept.append(DrawnBox(name, box, event.worker, Proposed(event.model, round(mean, 3))))
    return tuple(kept)


def _iou(one: XYXY, other: XYXY) -> float:
    """Of two boxes; plain numbers, because the fold is run for every answer."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    if wide <= 0 or high <= 0:
        return 0.0
    areas = ((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return wide * high / (sum(areas) - wide * high)
