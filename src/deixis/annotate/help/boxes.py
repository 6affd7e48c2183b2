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
from deixis.annotate.help.coreference import mention_features
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

MIN_SIDE = 2.0
"""Pixels; smaller boxes are not proposed."""

_MIN_SUPPORT, _MAX_SUPPORT = 0.001, 0.999


@dataclass(frozen=True)
class GroundedBox:
    """A box of a mention, and the model's probability mass around it."""

    mention: str
    types: tuple[str, ...]
    xyxy: XYXY
    support: float
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
        known = [self.by_type[name] for name in box.types if name in self.by_type]
        intercept = max(known, default=self.by_type.get("other", 0))
        return float(logistic(self.slope * box.log_odds + intercept))


def ground_mentions(grounder: RegionPipeline, proposals: PhotoProposals, material: Material) -> list[GroundedBox]:
    """Find one box for each thing that a mention names; none where only one of several things was found."""
    scale = np.tile([material.width, material.height], 2) / np.tile(proposals.features.size, 2)
    kept = []
    for each in _ground_sets(grounder, proposals, material):
        x1, y1, x2, y2 = geometry.clip(np.array(each.xyxy) * scale, material.width, material.height).tolist()
        if min(x2 - x1, y2 - y1) >= MIN_SIDE:
            kept.append(replace(each, xyxy=(x1, y1, x2, y2)))
    return kept


def _ground_sets(grounder: RegionPipeline, proposals: PhotoProposals, material: Material) -> Iterator[GroundedBox]:
    features = dict(zip(material.mentions, mention_features(material), strict=True))
    for caption, group in groupby(features, key=lambda mention: mention.caption):
        sentence, here = Sentence(material.captions[caption]), list(group)
        phrases = [sentence.phrase(mention.start, mention.end, mention.types) for mention in here]
        found = grounder.score_phrases(proposals, sentence, phrases)
        for row, (mention, own) in enumerate(zip(here, found.sets or (), strict=False)):  # no sets without regions
            if own.probabilities is not None:
                for (x1, y1, x2, y2), probability in zip(own.boxes.tolist(), own.probabilities.tolist(), strict=True):
                    box = (x1, y1, x2, y2)
                    yield GroundedBox(mention.id, mention.types, box, probability, probability)
            elif features[mention].amount < 2:
                yield _best_box(mention, found.scores[row], found.boxes[row])


def _best_box(mention: CaptionMention, scores: Floats, boxes: Floats) -> GroundedBox:
    best = int(np.argmax(scores))
    support = softmax(scores)[geometry.iou([boxes[best]], boxes)[0] >= SAME_THING_IOU].sum()
    x1, y1, x2, y2 = boxes[best].tolist()
    return GroundedBox(mention.id, mention.types, (x1, y1, x2, y2), float(support))


def proposed_boxes(grounded: Iterable[GroundedBox], calibration: BoxCalibration) -> dict[str, list[list[float]]]:
    """Convert boxes to the form of `deixis.annotate.events.ProposedBoxes`."""
    found: dict[str, list[list[float]]] = {}
    for each in grounded:
        box = [*(round(side, 1) for side in each.xyxy), round(calibration.probability(each), 4)]
        found.setdefault(each.mention, []).append(box)
    return found
