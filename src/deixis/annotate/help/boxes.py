"""Boxes that the grounder proposes for mentions, each with how likely people find it good."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from deixis import geometry
from deixis.annotate.help.mention_facts import MentionFacts, facts_of
from deixis.annotate.material import Marked, Material
from deixis.annotate.walks import XYXY
from deixis.data.records import ENTITY_TYPES
from deixis.errors import DeixisError
from deixis.language.features.base import Floats
from deixis.language.sentence import Sentence

if TYPE_CHECKING:
    from deixis.tasks.grounding import Look, Pointer
    from deixis.vision.store import FeatureStore

SHIPPED = Path(__file__).parent / "shipped" / "boxes.json"

SAME_THING_IOU = 0.5
"""Regions that overlap the best one so far speak for it."""

MOSTLY_INSIDE = 0.7
"""Of a box of which so much lies inside another, that one shows more than it."""

COUNTED_TYPES = frozenset({"people", "animals"})
"""Types of which the grounder finds two or three one by one."""

SMALLEST_SIDE = 2.0
"""Pixels; a smaller box is no proposal."""

_LEAST, _MOST = 0.001, 0.999


@dataclass(frozen=True)
class BoxCertainty:
    """How likely a box of the grounder is good, from how much of its belief lies there and from the type.

    Attributes
    ----------
    slope
        Of the logarithm of the odds of the share of the belief.
    by_type
        What is added for each type of `deixis.data.records.ENTITY_TYPES`.
    several
        How likely a box of a phrase that names two or three things is good, whatever the rest.
    good_iou
        What counted as good where this was learned: so much overlap with a gold box.
    about
        Where it was learned.
    """

    slope: float
    by_type: Mapping[str, float]
    several: float
    good_iou: float
    about: str

    @classmethod
    def shipped(cls) -> BoxCertainty:
        """What comes with the package."""
        return _shipped()

    def __call__(self, pointed: Pointed) -> float:
        """The probability.

        Examples
        --------
        >>> even = BoxCertainty(1.0, {"animals": 0.0}, 0.4, 0.6, "")
        >>> even(Pointed("0:0-5", ("animals",), (0, 0, 9, 9), 0.5))
        0.5
        """
        if pointed.of > 1:
            return self.several
        kept, types = min(max(pointed.support, _LEAST), _MOST), pointed.types
        added = max(
            (self.by_type[name] for name in types if name in self.by_type), default=self.by_type.get("other", 0)
        )
        return 1 / (1 + math.exp(-(self.slope * math.log(kept / (1 - kept)) + added)))


@cache
def _shipped() -> BoxCertainty:
    try:
        return BoxCertainty(**json.loads(SHIPPED.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise DeixisError(f"{SHIPPED}: cannot be read; install deixis again ({error})") from None


@dataclass(frozen=True)
class Pointed:
    """A box for a mention, the share of the model's belief that lies there, and how many things the mention names."""

    mention: str
    types: tuple[str, ...]
    xyxy: XYXY
    support: float
    of: int = 1


def point_at_mentions(pointer: Pointer, look: Look, material: Material) -> list[Pointed]:
    """The best box of each mention that names one thing; two or three of those that name so many people or animals.

    The grounder puts one box around several things of one phrase, but people draw one around each. So for "two dogs" it
    is asked for "a dog", and the boxes around several of the others are left out. Phrases of more things, or of an
    unknown number, are left to people.
    """
    scale = np.tile([material.width, material.height], 2) / np.tile(look.seen.size, 2)
    facts = dict(zip(material.mentions, facts_of(material), strict=True))
    single = [mention for mention, each in facts.items() if not each.plural and each.amount < 2]
    found = [*_single(pointer, look, material, single), *_several(pointer, look, facts)]
    kept = []
    for each in found:
        x1, y1, x2, y2 = geometry.clip(np.array(each.xyxy) * scale, material.width, material.height).tolist()
        if min(x2 - x1, y2 - y1) >= SMALLEST_SIDE:
            kept.append(replace(each, xyxy=(x1, y1, x2, y2)))
    return kept


def _single(pointer: Pointer, look: Look, material: Material, mentions: Iterable[Marked]) -> Iterator[Pointed]:
    for caption, of_caption in groupby(mentions, key=lambda mention: mention.caption):
        sentence, here = Sentence(material.captions[caption]), list(of_caption)
        phrases = [sentence.phrase(mention.start, mention.end, mention.types) for mention in here]
        scores, boxes = pointer.regions_for(look, sentence, phrases)
        for mention, row, own in zip(here, scores, boxes, strict=True):
            if len(row):
                yield _pointed(mention, row, own, int(np.argmax(row)), 1)


def _several(pointer: Pointer, look: Look, facts: Mapping[Marked, MentionFacts]) -> Iterator[Pointed]:
    for mention, each in facts.items():
        if each.plural and each.amount in (2, 3) and COUNTED_TYPES.intersection(mention.types):
            sentence = Sentence(f"A {each.lemma}.")
            scores, boxes = pointer.regions_for(look, sentence, [sentence.phrase(0, len(sentence.text) - 1)])
            if scores.size:
                for place in _apart(boxes[0], scores[0], each.amount):
                    yield _pointed(mention, scores[0], boxes[0], place, each.amount)


def _apart(boxes: Floats, scores: Floats, count: int) -> list[int]:
    """The best boxes that show different things, less those that hold two or more of the others."""
    best = geometry.nms(boxes, scores, SAME_THING_IOU)[: count + 1]
    inside = _share_inside(boxes[best]) >= MOSTLY_INSIDE
    return [int(place) for place, holds in zip(best, inside.sum(axis=0), strict=True) if holds < 2][:count]


def _share_inside(boxes: Floats) -> Floats:
    """(n, n) how much of each box lies inside each other one, and nothing of it in itself."""
    begin, end = boxes[:, None, :2], boxes[:, None, 2:]
    common = np.minimum(end, boxes[None, :, 2:]) - np.maximum(begin, boxes[None, :, :2])
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)[:, None]
    share = np.prod(np.maximum(common, 0), axis=2) / np.maximum(areas, 1e-9)
    np.fill_diagonal(share, 0)
    return np.asarray(share)


def _pointed(mention: Marked, scores: Floats, boxes: Floats, place: int, of: int) -> Pointed:
    belief = np.exp(scores - scores.max())
    support = belief[geometry.iou([boxes[place]], boxes)[0] >= SAME_THING_IOU].sum() / belief.sum()
    x1, y1, x2, y2 = boxes[place].tolist()
    return Pointed(mention.id, mention.types, (x1, y1, x2, y2), float(support), of)


def stored_look(store: FeatureStore, photo: str, top: int) -> Look:
    """A photo as the grounder sees it, from features that are there already."""
    from deixis.tasks.grounding import Look
    from deixis.vision.proposals.proposer import Proposals

    proposals = store.proposals(photo)
    return Look(store.map(photo), Proposals(proposals.boxes[:top], proposals.scores[:top]))


def proposed_boxes(pointed: Iterable[Pointed], certainty: BoxCertainty) -> dict[str, list[list[float]]]:
    """What `deixis.annotate.events.ProposedBoxes` holds."""
    found: dict[str, list[list[float]]] = {}
    for each in pointed:
        box = [*(round(side, 1) for side in each.xyxy), round(certainty(each), 4)]
        found.setdefault(each.mention, []).append(box)
    return found


def fit_certainty(examples: Iterable[tuple[Pointed, bool]], *, good_iou: float, about: str) -> BoxCertainty:
    """Learn from boxes that are known to be good or not, on photos that the grounder has not learned from.

    A logistic regression; the types are held together by a penalty of 1 on the square of what each adds. For phrases of
    several things, the share of good boxes.
    """
    given = list(examples)
    listed = [(each, right) for each, right in given if each.of == 1]
    if not listed:
        raise DeixisError("there is no box to learn from")
    of_several = [right for each, right in given if each.of > 1]
    several = (sum(of_several) + 1) / (len(of_several) + 2)
    rows = np.zeros((len(listed), 2 + len(ENTITY_TYPES)))
    good = np.array([right for _, right in listed], float)
    for row, (each, _) in zip(rows, listed, strict=True):
        kept = min(max(each.support, _LEAST), _MOST)
        row[0], row[1] = math.log(kept / (1 - kept)), 1
        row[2 + ENTITY_TYPES.index(each.types[0] if each.types[0] in ENTITY_TYPES else "other")] = 1
    penalty = np.diag([0.0, 0.0, *[1.0] * len(ENTITY_TYPES)]) + 1e-6 * np.eye(rows.shape[1])
    weights = np.zeros(rows.shape[1])
    for _ in range(50):  # Newton's steps; it is there long before
        likely = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (likely - good) + penalty @ weights
        curve = (rows * (likely * (1 - likely))[:, None]).T @ rows + penalty
        weights -= np.linalg.solve(curve, slope)
    by_type = {name: round(float(weights[1] + weights[2 + at]), 4) for at, name in enumerate(ENTITY_TYPES)}
    return BoxCertainty(round(float(weights[0]), 4), by_type, round(several, 4), good_iou, about)
