"""Which regions of a photo to speak of: one that somebody names, or a few that stand out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from deixis import geometry
from deixis.errors import DeixisError
from deixis.geometry import Boxes
from deixis.language.features.base import Floats
from deixis.tasks.describe.diverse import diverse
from deixis.vision.proposals.proposer import Proposals

Box = tuple[float, float, float, float]

_SAME = 0.6
"""Of two regions as alike as this only one is spoken of."""

_OVERLAP = 1.5
"""How much overlap counts: with an IoU of 0.4 two regions are the same, whatever they look like."""

_LEAST = 0.3
"""Of the worth of the best region: what is worth less does not stand out."""


def parsed_region(text: str) -> Box:
    """A box as people type it.

    Examples
    --------
    >>> parsed_region("10, 20,110,70.5")
    (10.0, 20.0, 110.0, 70.5)
    """
    try:
        x1, y1, x2, y2 = (float(side) for side in text.split(","))
    except ValueError:
        raise DeixisError(f"region {text!r}: give four numbers with commas between them: x1,y1,x2,y2") from None
    return x1, y1, x2, y2


def region_within(region: Sequence[float], size: tuple[int, int]) -> Box:
    """The part of a region that lies within a photo of some width and height; there must be one.

    Examples
    --------
    >>> region_within((-5, 10, 40, 900), size=(100, 80))
    (0.0, 10.0, 40.0, 80.0)
    """
    try:
        sides = [float(side) for side in region]
    except (TypeError, ValueError):
        raise DeixisError(f"region {region!r}: give four numbers: x1, y1, x2, y2") from None
    said = "region " + ",".join(f"{side:g}" for side in sides)
    if len(sides) != 4 or not all(map(math.isfinite, sides)):
        raise DeixisError(f"{said}: give four numbers: x1, y1, x2, y2")
    if sides[0] >= sides[2] or sides[1] >= sides[3]:
        raise DeixisError(f"{said}: ends before it begins; give x1, y1, x2, y2 with x1 < x2 and y1 < y2")
    x1, y1, x2, y2 = geometry.clip(sides, *size).tolist()
    if x1 >= x2 or y1 >= y2:
        raise DeixisError(f"{said}: lies outside the photo, which is {size[0]} × {size[1]} pixels")
    if min(x2 - x1, y2 - y1) < 1:
        raise DeixisError(f"{said}: is narrower than a pixel within the photo, which is {size[0]} × {size[1]} pixels")
    return x1, y1, x2, y2


def standing_out(
    boxes: Boxes, worth: Floats, vectors: Floats, kinds: NDArray[np.intp], most: int, diversity: float
) -> NDArray[np.intp]:
    """The places of the regions that are worth most, none much like another, the best first.

    Two regions are alike as far as they overlap (IoU); where one lies within the other, as far as both look alike; and
    where both are of one kind, as far as one lies within the other. Regions worth much less than the best are passed
    over.

    Parameters
    ----------
    boxes
        (n, 4) in pixels.
    worth
        (n,) of each, between 0 and 1.
    vectors
        (n, d) of unit length: what each looks like.
    kinds
        (n,) what is said of each.
    most
        At most so many.
    diversity
        Weight of likeness, as of `diverse`.

    Examples
    --------
    >>> boxes = np.array([[0, 0, 90, 90], [0, 0, 90, 80], [100, 0, 150, 40]], dtype=float)
    >>> standing_out(boxes, np.array([0.9, 0.8, 0.4]), np.eye(3), np.arange(3), 3, 0.4).tolist()
    [0, 2]
    """
    if not len(boxes):
        return np.empty(0, np.intp)
    good = np.flatnonzero(worth >= _LEAST * worth.max())
    boxes, vectors, kinds = boxes[good], vectors[good], kinds[good]

    def likeness(place: int) -> Floats:
        looks = np.maximum(vectors @ vectors[place], 0) ** 2  # a part is always a little like its whole
        alike = np.where(kinds == kinds[place], _OVERLAP, looks) * _inside(boxes[place], boxes)
        return np.asarray(np.maximum(alike, _OVERLAP * geometry.iou(boxes[place], boxes)[0]))

    return good[diverse(worth[good], likeness, most, weight=diversity, too_similar=_SAME)]


def objectness(boxes: Boxes, proposals: Proposals) -> NDArray[np.float64]:
    """Of any boxes: the score of the proposal that overlaps each most, times that overlap."""
    if not len(proposals.boxes):
        return np.zeros(len(boxes))
    overlaps = geometry.iou(boxes, proposals.boxes)
    nearest = overlaps.argmax(axis=1)
    return np.asarray(overlaps[np.arange(len(boxes)), nearest] * proposals.scores[nearest])


def _inside(box: Boxes, boxes: Boxes) -> Floats:
    """Which share of the smaller one of two boxes the other one holds."""
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    shared = np.maximum(sides, 0).prod(axis=1)
    return np.asarray(shared / np.maximum(np.minimum(geometry.area(box), geometry.area(boxes)), 1e-9))
