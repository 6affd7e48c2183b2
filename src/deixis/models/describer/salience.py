"""Selection of the regions to describe: one that the user gives, or the most salient ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis import geometry
from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.geometry import Boxes
from deixis.vision.proposals import Proposals


def select_diverse(
    relevance: ArrayLike,
    similarity: Callable[[int], Floats],
    count: int,
    *,
    weight: float = 0.5,
    max_similarity: float = np.inf,
) -> NDArray[np.intp]:
    """Select items greedily by maximal marginal relevance.

    After Carbonell and Goldstein, *The use of MMR* (SIGIR 1998): the next item maximizes ``(1 − weight) · relevance −
    weight · highest similarity to a selected item``. Of equal items the first is selected. `similarity` gives the
    similarity of an item to all, on the scale of the relevance. Items at least `max_similarity` similar to a selected
    one are never selected.

    Examples
    --------
    >>> alike = np.array([[1, 0.9, 0.1], [0.9, 1, 0.1], [0.1, 0.1, 1]])
    >>> select_diverse([0.9, 0.8, 0.5], lambda item: alike[item], 2).tolist()
    [0, 2]
    """
    values = np.asarray(relevance, dtype=np.float64)
    nearest = np.zeros(len(values))
    available = np.ones(len(values), dtype=bool)
    selected: list[int] = []
    while len(selected) < count and available.any():
        marginal = np.where(available, (1 - weight) * values - weight * nearest, -np.inf)
        best = int(marginal.argmax())
        selected.append(best)
        available[best] = False
        alike = np.asarray(similarity(best), dtype=np.float64)
        available &= alike < max_similarity
        nearest = np.maximum(nearest, alike) if len(selected) > 1 else alike
    return np.array(selected, dtype=np.intp)


Box = tuple[float, float, float, float]

_MAX_SIMILARITY = 0.6
"""Of two regions at least this similar only one is described."""

_OVERLAP_WEIGHT = 1.5
"""Weight of the overlap in the similarity: two regions with an IoU of 0.4 are the same, whatever they look like."""

_MIN_SALIENCE = 0.3
"""Regions below this fraction of the highest salience are not described."""


def parse_region(text: str) -> Box:
    """Parse a box that a user typed.

    Examples
    --------
    >>> parse_region("10, 20,110,70.5")
    (10.0, 20.0, 110.0, 70.5)
    """
    try:
        x1, y1, x2, y2 = (float(side) for side in text.split(","))
    except ValueError:
        raise DeixisError(f"region {text!r}: give four numbers with commas between them: x1,y1,x2,y2") from None
    return x1, y1, x2, y2


def clip_region(region: Sequence[float], size: tuple[int, int]) -> Box:
    """Clip a region to a photo of the given width and height; refuse it if nothing is left.

    Examples
    --------
    >>> clip_region((-5, 10, 40, 900), size=(100, 80))
    (0.0, 10.0, 40.0, 80.0)
    """
    try:
        sides = [float(side) for side in region]
    except (TypeError, ValueError):
        raise DeixisError(f"region {region!r}: give four numbers: x1, y1, x2, y2") from None
    name = "region " + ",".join(f"{side:g}" for side in sides)
    if len(sides) != 4 or not all(map(math.isfinite, sides)):
        raise DeixisError(f"{name}: give four numbers: x1, y1, x2, y2")
    if sides[0] >= sides[2] or sides[1] >= sides[3]:
        raise DeixisError(f"{name}: is empty; give x1, y1, x2, y2 with x1 < x2 and y1 < y2")
    x1, y1, x2, y2 = geometry.clip(sides, *size).tolist()
    if x1 >= x2 or y1 >= y2:
        raise DeixisError(f"{name}: lies outside the photo, which is {size[0]} × {size[1]} pixels")
    if min(x2 - x1, y2 - y1) < 1:
        raise DeixisError(f"{name}: is narrower than a pixel within the photo, which is {size[0]} × {size[1]} pixels")
    return x1, y1, x2, y2


def select_salient(
    boxes: Boxes, salience: Floats, vectors: Floats, best_phrases: NDArray[np.intp], count: int, diversity: float
) -> NDArray[np.intp]:
    """Select the most salient regions that differ from each other, the best first.

    Two regions are similar by their overlap (IoU); if one contains the other, also by their appearance; and if both
    have the same best phrase, also by the share of the smaller one that lies in the other. `vectors` are unit vectors
    of the appearance; `diversity` is the weight of `select_diverse`.

    Examples
    --------
    >>> boxes = np.array([[0, 0, 90, 90], [0, 0, 90, 80], [100, 0, 150, 40]], dtype=float)
    >>> select_salient(boxes, np.array([0.9, 0.8, 0.4]), np.eye(3), np.arange(3), 3, 0.4).tolist()
    [0, 2]
    """
    if not len(boxes):
        return np.empty(0, np.intp)
    good = np.flatnonzero(salience >= _MIN_SALIENCE * salience.max())
    boxes, vectors, best_phrases = boxes[good], vectors[good], best_phrases[good]

    def similarity(item: int) -> Floats:
        appearance = np.maximum(vectors @ vectors[item], 0) ** 2  # a part always resembles its whole a little
        same = np.where(best_phrases == best_phrases[item], _OVERLAP_WEIGHT, appearance)
        contained = same * _containment(boxes[item], boxes)
        return np.asarray(np.maximum(contained, _OVERLAP_WEIGHT * geometry.iou(boxes[item], boxes)[0]))

    selected = select_diverse(salience[good], similarity, count, weight=diversity, max_similarity=_MAX_SIMILARITY)
    return good[selected]


def estimate_objectness(boxes: Boxes, proposals: Proposals) -> NDArray[np.float64]:
    """The score of the proposal that overlaps each box most, times that overlap (IoU)."""
    if not len(proposals.boxes):
        return np.zeros(len(boxes))
    overlaps = geometry.iou(boxes, proposals.boxes)
    nearest = overlaps.argmax(axis=1)
    return np.asarray(overlaps[np.arange(len(boxes)), nearest] * proposals.scores[nearest])


def _containment(box: Boxes, boxes: Boxes) -> Floats:
    """The share of the smaller of two boxes that lies in the other."""
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    shared = np.maximum(sides, 0).prod(axis=1)
    return np.asarray(shared / np.maximum(np.minimum(geometry.area(box), geometry.area(boxes)), 1e-9))
