"""Many short rankings of boxes at once: which boxes are right, which survive suppression, average precision.

All predicted boxes stand in one flat array, ranking after ranking, each ranking with its best box first. Of
two boxes with the same score, the one that was given first is the better one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from deixis import geometry
from deixis.geometry import Boxes

Flags = npt.NDArray[np.bool_]
Whole = npt.NDArray[np.intp]

IOU = 0.5
"""A box is right when its IoU with a gold box is at least this, in both papers."""

ApRule = Literal["area", "11-point"]

NEVER = np.iinfo(np.intp).max
"""The rank of a first right box where no box is right."""

_CELLS_AT_ONCE = 50_000


@dataclass(frozen=True)
class RankedBoxes:
    """Boxes of several rankings, flat.

    Attributes
    ----------
    boxes, scores
        (n, 4) and (n,).
    owner
        (n,) the ranking that each box belongs to, never falling.
    sizes
        (rankings,) how many boxes each ranking has.
    """

    boxes: Boxes
    scores: npt.NDArray[np.float64]
    owner: Whole
    sizes: Whole

    @cached_property
    def starts(self) -> Whole:
        """(rankings,) where each ranking begins."""
        return np.cumsum(self.sizes) - self.sizes

    def slices(self) -> list[slice]:
        """Where each ranking lies."""
        begin = self.starts.tolist()
        return [slice(b, b + n) for b, n in zip(begin, self.sizes.tolist(), strict=True)]


def rank_boxes(rankings: Sequence[tuple[Boxes, npt.NDArray[np.float64]]]) -> RankedBoxes:
    """Sort each ranking's (boxes, scores), best first, and lay them end to end.

    Examples
    --------
    >>> pair = (np.array([[0.0, 0, 5, 5], [1, 1, 2, 2]]), np.array([0.1, 0.9]))
    >>> rank_boxes([pair, pair]).scores.tolist()
    [0.9, 0.1, 0.9, 0.1]
    """
    sizes = np.array([len(scores) for _, scores in rankings], dtype=np.intp)
    boxes = np.concatenate([np.empty((0, 4)), *(boxes for boxes, _ in rankings)])
    scores = np.concatenate([np.empty(0), *(scores for _, scores in rankings)])
    owner = np.repeat(np.arange(len(rankings)), sizes)
    order = np.lexsort((-scores, owner))
    return RankedBoxes(boxes[order], scores[order], owner, sizes)


def right_boxes(ranked: RankedBoxes, golds: Sequence[Boxes]) -> Flags:
    """(n,) whether each box has an IoU of at least 0.5 with one of its ranking's gold boxes.

    Examples
    --------
    >>> ranked = rank_boxes([(np.array([[0.0, 0, 10, 10], [0, 0, 10, 4]]), np.array([2.0, 1]))])
    >>> right_boxes(ranked, [np.array([[0.0, 0, 10, 9]])]).tolist()
    [True, False]
    """
    right = np.zeros(len(ranked.owner), dtype=np.bool_)
    for part, gold in zip(ranked.slices(), golds, strict=True):
        right[part] = (geometry.iou(ranked.boxes[part], gold) >= IOU).any(axis=1)
    return right


def first_right(ranked: RankedBoxes, right: Flags, kept: Flags | None = None) -> Whole:
    """(rankings,) how many boxes stand before the first right one, or `NEVER`.

    With `kept`, boxes that are not kept are passed over, as if they had not been given.

    Examples
    --------
    >>> ranked = rank_boxes([(np.zeros((3, 4)), np.array([3.0, 2, 1])), (np.zeros((1, 4)), np.ones(1))])
    >>> right = np.array([False, False, True, False])
    >>> [None if rank == NEVER else rank for rank in first_right(ranked, right).tolist()]
    [2, None]
    >>> int(first_right(ranked, right, kept=np.array([True, False, True, True]))[0])
    1
    """
    counted = np.ones_like(right) if kept is None else kept
    before: Whole = np.cumsum(counted) - counted
    rank = before - np.concatenate([before, [0]])[ranked.starts][ranked.owner]
    good = first_of_each(ranked, right & counted)
    first = np.full(len(ranked.sizes), NEVER)
    first[ranked.owner[good]] = rank[good]
    return first


def first_of_each(ranked: RankedBoxes, flags: Flags) -> Flags:
    """(n,) the flags without all but the first that is up in each ranking.

    Examples
    --------
    >>> ranked = rank_boxes([(np.zeros((3, 4)), np.array([3.0, 2, 1]))])
    >>> first_of_each(ranked, np.array([False, True, True])).tolist()
    [False, True, False]
    """
    up = np.flatnonzero(flags)
    firsts = np.zeros_like(flags)
    firsts[up[np.unique(ranked.owner[up], return_index=True)[1]]] = True
    return firsts


def kept_by_nms(ranked: RankedBoxes, threshold: float = IOU) -> Flags:
    """(n,) which boxes greedy non-maximum suppression keeps, each ranking for itself, as `geometry.nms` does.

    Examples
    --------
    >>> boxes = np.array([[0.0, 0, 10, 10], [0, 0, 10, 9], [20, 0, 30, 10]])
    >>> kept_by_nms(rank_boxes([(boxes, np.array([3.0, 2, 1]))])).tolist()
    [True, False, True]
    """
    kept = np.ones(len(ranked.owner), dtype=np.bool_)
    by_size = np.argsort(ranked.sizes, kind="stable")  # so that the rankings of a batch fill their rows
    at_once = max(1, _CELLS_AT_ONCE // max(1, int(ranked.sizes.max(initial=0))))
    starts = ranked.starts
    for begin in range(0, len(by_size), at_once):
        rows = by_size[begin : begin + at_once]
        width = int(ranked.sizes[rows].max())
        columns = np.arange(width)
        inside = columns < ranked.sizes[rows, None]
        place = np.where(inside, starts[rows, None] + columns, 0)
        kept[place[inside]] = _suppress(ranked.boxes[place], inside, threshold)[inside]
    return kept


def _suppress(boxes: Boxes, alive: Flags, threshold: float) -> Flags:
    """Greedy suppression of (rankings, width, 4) boxes, best first; all rankings take a step together."""
    alive = alive.copy()
    sides = np.ascontiguousarray(np.moveaxis(boxes, 2, 0))
    for step in range(alive.shape[1] - 1):
        rows = np.flatnonzero(alive[:, step])
        overlap = geometry.iou_of_sides(sides[:, rows, step, None], sides[:, rows, step + 1 :])
        alive[rows, step + 1 :] &= overlap < threshold
    return alive


def average_precision(found: Flags, positives: int, rule: ApRule = "area") -> float:
    """Average precision of one ranking, between 0 and 1.

    Parameters
    ----------
    found
        (n,) for each place of the ranking, best first, whether it finds a positive that none before it found.
    positives
        How many there are to find.
    rule
        `area`: the area under the interpolated curve of precision over recall, where the precision at a
        recall is the best one at that recall or a higher one (PASCAL VOC since 2010). `11-point`: the mean of
        the interpolated precision at recalls 0, 0.1 … 1 (PASCAL VOC 2007, and the code released with
        Entities).

    Examples
    --------
    >>> average_precision(np.array([True, False, True]), positives=2)  # (1 + 2/3) / 2
    0.8333333333333333
    >>> average_precision(np.array([False, True]), positives=2, rule="11-point")  # 6 of 11 recalls at 1/2
    0.2727272727272727
    """
    hits = np.cumsum(found)
    precision = hits / np.arange(1, len(found) + 1)
    interpolated = np.maximum.accumulate(precision[::-1])[::-1]
    if rule == "area":
        return float(interpolated[found].sum() / positives)
    # recall >= tenth / 10, in whole numbers: 3 of 10 must reach a recall of 0.3
    reached = np.searchsorted(10 * hits, np.arange(11) * positives)
    return float(np.append(interpolated, 0.0)[reached].sum() / 11)
