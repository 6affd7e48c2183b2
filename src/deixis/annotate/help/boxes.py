"""Boxes that the grounder proposes for mentions, with the probability that workers accept them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from deixis import geometry
from deixis.annotate.help.coreference import MentionFeatures, mention_features
from deixis.annotate.material import CaptionMention, Material
from deixis.annotate.workflow import XYXY
from deixis.arrays import Floats, logistic, softmax
from deixis.errors import DeixisError
from deixis.language.sentence import Sentence
from deixis.storage.checksums import unseal

if TYPE_CHECKING:
    from deixis.models.grounding import PhotoProposals, RegionPipeline

SHIPPED = Path(__file__).parent / "shipped" / "boxes.json"

SAME_THING_IOU = 0.5
"""Regions with at least this IoU with the best one show the same thing."""

MOSTLY_INSIDE = 0.7
"""A box with at least this share of its area inside another one is a part of it."""

COUNTED_TYPES = frozenset({"people", "animals"})
"""Entity types of which the grounder can find two or three one by one."""

MIN_SIDE = 2.0
"""Pixels; smaller boxes are not proposed."""

_MIN_SUPPORT, _MAX_SUPPORT = 0.001, 0.999


@dataclass(frozen=True)
class GroundedBox:
    """A box of a mention, the model's probability mass around it, and the number of things that the mention names."""

    mention: str
    types: tuple[str, ...]
    xyxy: XYXY
    support: float
    amount: int = 1
    probability: float | None = None  # that workers accept it, if the grounder estimates it

    @property
    def log_odds(self) -> float:
        support = min(max(self.support, _MIN_SUPPORT), _MAX_SUPPORT)
        return math.log(support / (1 - support))


@dataclass(frozen=True)
class BoxCalibration:
    """Logistic regression: the probability that workers accept a box, from its support and its types."""

    slope: float  # of the log odds of the support
    by_type: Mapping[str, float]  # intercepts
    several: float  # probability for boxes of mentions that name two or three things
    good_iou: float  # lowest IoU with a gold box at which a box counted as good in training
    about: str  # where it was trained

    @classmethod
    @cache
    def shipped(cls) -> BoxCalibration:
        """The calibration of the package, loaded once."""
        return cls.load(SHIPPED)

    @classmethod
    def load(cls, file: Path) -> BoxCalibration:
        try:
            return cls(**unseal(file.read_bytes()))
        except (OSError, ValueError, TypeError) as error:
            raise DeixisError(f"{file}: cannot be read ({error}); reinstall deixis") from None

    def probability(self, box: GroundedBox) -> float:
        if box.probability is not None:
            return box.probability
        if box.amount > 1:
            return self.several
        known = [self.by_type[name] for name in box.types if name in self.by_type]
        intercept = max(known, default=self.by_type.get("other", 0))
        return float(logistic(self.slope * box.log_odds + intercept))


def ground_mentions(grounder: RegionPipeline, proposals: PhotoProposals, material: Material) -> list[GroundedBox]:
    """Find the best box of each mention that names one thing, and one box for each thing of other mentions.

    Workers draw one box around each thing. A grounder that was trained without sets of boxes puts one box around all
    things of a phrase. With such a grounder the query for "two dogs" is "a dog", and boxes around several others are
    removed; phrases that name more than three things, or an unknown number, get no proposals.
    """
    scale = np.tile([material.width, material.height], 2) / np.tile(proposals.features.size, 2)
    features = dict(zip(material.mentions, mention_features(material), strict=True))
    if grounder.separates_boxes:
        found = list(_ground_sets(grounder, proposals, material, features))
    else:
        single = [mention for mention, each in features.items() if not each.plural and each.amount < 2]
        several = _ground_several(grounder, proposals, features)
        found = [*_ground_single(grounder, proposals, material, single), *several]
    kept = []
    for each in found:
        x1, y1, x2, y2 = geometry.clip(np.array(each.xyxy) * scale, material.width, material.height).tolist()
        if min(x2 - x1, y2 - y1) >= MIN_SIDE:
            kept.append(replace(each, xyxy=(x1, y1, x2, y2)))
    return kept


def _ground_single(
    grounder: RegionPipeline, proposals: PhotoProposals, material: Material, mentions: Iterable[CaptionMention]
) -> Iterator[GroundedBox]:
    for caption, group in groupby(mentions, key=lambda mention: mention.caption):
        sentence, here = Sentence(material.captions[caption]), list(group)
        phrases = [sentence.phrase(mention.start, mention.end, mention.types) for mention in here]
        found = grounder.score_phrases(proposals, sentence, phrases)
        for mention, row, candidates in zip(here, found.scores, found.boxes, strict=True):
            if len(row):
                yield _make_box(mention, row, candidates, int(np.argmax(row)), 1)


def _ground_sets(
    grounder: RegionPipeline,
    proposals: PhotoProposals,
    material: Material,
    features: Mapping[CaptionMention, MentionFeatures],
) -> Iterator[GroundedBox]:
    """The sets of boxes of mentions; none for a mention of several things of which only one box was found."""
    for caption, group in groupby(features, key=lambda mention: mention.caption):
        sentence, here = Sentence(material.captions[caption]), list(group)
        phrases = [sentence.phrase(mention.start, mention.end, mention.types) for mention in here]
        found = grounder.score_phrases(proposals, sentence, phrases)
        for row, (mention, own) in enumerate(zip(here, found.sets or (), strict=False)):  # no sets without regions
            if own.probabilities is not None:
                for (x1, y1, x2, y2), probability in zip(own.boxes.tolist(), own.probabilities.tolist(), strict=True):
                    box = (x1, y1, x2, y2)
                    yield GroundedBox(mention.id, mention.types, box, probability, len(own.boxes), probability)
            elif features[mention].amount < 2:
                scores = found.scores[row]
                yield _make_box(mention, scores, found.boxes[row], int(np.argmax(scores)), 1)


def _ground_several(
    grounder: RegionPipeline, proposals: PhotoProposals, features: Mapping[CaptionMention, MentionFeatures]
) -> Iterator[GroundedBox]:
    for mention, each in features.items():
        if each.plural and each.amount in (2, 3) and COUNTED_TYPES.intersection(mention.types):
            sentence = Sentence(f"A {each.lemma}.")
            found = grounder.score_phrases(proposals, sentence, [sentence.phrase(0, len(sentence.text) - 1)])
            scores, boxes = found.scores, found.boxes
            if scores.size:
                for index in _separate_boxes(boxes[0], scores[0], each.amount):
                    yield _make_box(mention, scores[0], boxes[0], index, each.amount)


def _separate_boxes(boxes: Floats, scores: Floats, count: int) -> list[int]:
    """Return the indices of the best boxes that show different things, without those that hold two or more others."""
    best = geometry.nms(boxes, scores, SAME_THING_IOU)[: count + 1]
    inside = _share_inside(boxes[best]) >= MOSTLY_INSIDE
    return [int(index) for index, holds in zip(best, inside.sum(axis=0), strict=True) if holds < 2][:count]


def _share_inside(boxes: Floats) -> Floats:
    """Return the share of each box inside each other box, with a zero diagonal: (n, n)."""
    start, end = boxes[:, None, :2], boxes[:, None, 2:]
    common = np.minimum(end, boxes[None, :, 2:]) - np.maximum(start, boxes[None, :, :2])
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)[:, None]
    share = np.prod(np.maximum(common, 0), axis=2) / np.maximum(areas, 1e-9)
    np.fill_diagonal(share, 0)
    return np.asarray(share)


def _make_box(mention: CaptionMention, scores: Floats, boxes: Floats, index: int, amount: int) -> GroundedBox:
    support = softmax(scores)[geometry.iou([boxes[index]], boxes)[0] >= SAME_THING_IOU].sum()
    x1, y1, x2, y2 = boxes[index].tolist()
    return GroundedBox(mention.id, mention.types, (x1, y1, x2, y2), float(support), amount)


def proposed_boxes(grounded: Iterable[GroundedBox], calibration: BoxCalibration) -> dict[str, list[list[float]]]:
    """Convert boxes to the form of `deixis.annotate.events.ProposedBoxes`."""
    found: dict[str, list[list[float]]] = {}
    for each in grounded:
        box = [*(round(side, 1) for side in each.xyxy), round(calibration.probability(each), 4)]
        found.setdefault(each.mention, []).append(box)
    return found
