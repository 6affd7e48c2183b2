"""How many of the regions that phrases were found to name are right, where the data has gold boxes to say so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis import geometry
from deixis.data.dataset import Photos
from deixis.data.pairs import Numbers
from deixis.evaluation.fixed_boxes import best_fixed_boxes
from deixis.evaluation.localization_items import Item, localization_items, types_in_order
from deixis.language.sentence import Sentence
from deixis.models.correspondence import Correspondences
from deixis.tasks.scores.localising import RIGHT
from deixis.training.hm_lstm import ParsedPhotos

_CHOOSE_FIXED_ON = 3000
"""About so many mentions decide which fixed boxes are the best: all of Flickr8k would take longer than all else."""


@dataclass(frozen=True)
class CorrespondenceScores:
    """Of the gold mentions that are noun phrases of their tree: how many got a right region. All in percent.

    Attributes
    ----------
    phrases
        How many such mentions there are; their gold box is the union of their chain's.
    right
        How many were found to name a region whose IoU with the gold box is at least 0.5.
    random, whole, fixed
        What a random candidate, the whole photo, and the best fixed box of the phrase's type would give. The fixed
        boxes are chosen on some of the very mentions that they are scored on.
    bound
        How many have a right region among the candidates.
    by_type
        `right` of each entity type.
    mean_confidence
        Of the regions found, right or wrong.
    """

    phrases: int
    right: float
    random: float
    whole: float
    fixed: float
    bound: float
    by_type: Mapping[str, float]
    mean_confidence: float

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def in_words(self) -> str:
        """One line for people."""
        return (
            f"{self.right:.1f} % of {self.phrases:,} phrases with a gold box (a random candidate {self.random:.1f} %, "
            f"the whole photo {self.whole:.1f} %, the best fixed box of the type {self.fixed:.1f} %, any of the "
            f"candidates {self.bound:.1f} %)"
        )


@dataclass(frozen=True)
class GoldPhrases:
    """The mentions with a gold box that are a node of their tree: gathered once, to judge every round by.

    Attributes
    ----------
    items
        The mentions.
    sentence, node
        Of each its sentence, among all, and its node there.
    boxes
        Its gold box: the union of its chain's.
    among
        For each the share of the candidates of its photo that are right.
    whole, fixed
        For each whether the whole photo, and the best fixed box of its type, are right.
    data
        The trees and regions.
    """

    items: Sequence[Item]
    sentence: Numbers
    node: Numbers
    boxes: NDArray[np.float64]
    among: NDArray[np.float64]
    whole: NDArray[np.bool_]
    fixed: NDArray[np.bool_]
    data: ParsedPhotos

    @classmethod
    def of(cls, photos: Photos, data: ParsedPhotos) -> GoldPhrases:
        """Gather them.

        Parameters
        ----------
        photos
            Those of `data`, in the same order.
        data
            Their trees and regions.
        """
        items, sentence, node = [], [], []
        for item, number, own in _nodes(photos, data):
            if own is not None:
                items.append(item)
                sentence.append(number)
                node.append(own)
        wanted = np.array([geometry.union(np.array(item.boxes)) for item in items]).reshape(-1, 4)
        place = data.photo[np.array(sentence, dtype=np.int64)]
        right = [
            geometry.iou(data.regions.boxes[begin : begin + count], box[None])[:, 0] >= RIGHT
            for begin, count, box in zip(
                data.regions.starts[place], data.regions.candidates[place], wanted, strict=True
            )
        ]
        return cls(
            items,
            np.array(sentence, dtype=np.int64),
            np.array(node, dtype=np.int64),
            wanted,
            np.array([each.mean() for each in right]),
            np.array([each[0] for each in right], dtype=bool),
            _overlaps(_fixed_boxes(items), wanted) >= RIGHT,
            data,
        )

    def judge(self, found: Correspondences) -> CorrespondenceScores | None:
        """How many of those that were found are right; None where nothing was found for any of these mentions."""
        owners = found.of_sentence.owners.tolist()
        number_of = {pair: number for number, pair in enumerate(zip(owners, found.node.tolist(), strict=True))}
        pairs = zip(self.sentence.tolist(), self.node.tolist(), strict=True)
        number = np.array([number_of.get(pair, -1) for pair in pairs], dtype=np.int64)
        there = np.flatnonzero(number >= 0)
        if not len(there):
            return None
        boxes = self.data.regions.boxes[found.region[number[there]]]
        right = _overlaps(boxes, self.boxes[there]) >= RIGHT
        items = [self.items[place] for place in there.tolist()]
        kinds = {kind: [kind in item.types for item in items] for kind in types_in_order(items)}
        return CorrespondenceScores(
            len(there),
            _percent(right),
            _percent(self.among[there]),
            _percent(self.whole[there]),
            _percent(self.fixed[there]),
            _percent(self.among[there] > 0),
            {kind: _percent(right[own]) for kind, own in kinds.items()},
            float(found.confidence.mean()),
        )


def _nodes(photos: Photos, data: ParsedPhotos) -> Iterator[tuple[Item, int, int | None]]:
    """Every mention with a gold box, its sentence among all, and its node where it is one."""
    sentence = 0
    for photo in photos:
        of_caption: dict[int, list[Item]] = {}
        for item in localization_items([photo]):
            of_caption.setdefault(item.caption, []).append(item)
        for place, caption in enumerate(photo.captions):
            if not caption.related or caption.region_phrase:
                continue
            words = Sentence.of_caption(caption)
            for item in of_caption.get(place, []):
                phrase = words.phrase(*item.span)
                yield item, sentence, data.forest.spanning(sentence, phrase.start, phrase.end)
            sentence += 1


def _fixed_boxes(items: Sequence[Item]) -> NDArray[np.float64]:
    """The best fixed box of each mention's type, in pixels of its photo."""
    if not items:
        return np.zeros((0, 4))
    some = items[:: 1 + len(items) // _CHOOSE_FIXED_ON]
    return np.array([each.boxes[0] for each in best_fixed_boxes(some).predict(items)])


def _overlaps(boxes: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """The IoU of each box with the other in the same place."""
    return geometry.iou_of_sides(boxes.T, others.T)


def _percent(right: Any) -> float:
    return round(100 * float(np.mean(right)), 2)
