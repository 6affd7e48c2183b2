"""Non-maximum suppression of the same boxes under many rankings: a photo's regions, ranked for every phrase.

Which boxes are close does not change from one ranking to the next, so it is worked out once, as bits. What is left for
each ranking is to go down it, best first, and to leave out what is close to a box that was kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis import geometry
from deixis.evaluation.ranked_boxes import IOU, Flags, Whole
from deixis.geometry import Boxes

_BITS = 64
_ROWS_AT_ONCE = 4096
_CELLS_AT_ONCE = 1 << 20

Scores = npt.NDArray[Any]


@dataclass(frozen=True)
class Neighbours:
    """Which boxes of the same photo are close to each other.

    Attributes
    ----------
    counts
        (photos,) how many boxes each photo has.
    bits
        (boxes, words) for each box, a bit for each box of its photo: whether they are close.
    """

    counts: Whole
    bits: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, boxes: Boxes, counts: Whole, threshold: float = IOU) -> Neighbours:
        """Compare the boxes of each photo; those of all photos stand end to end, `counts` of each.

        Examples
        --------
        >>> near = Neighbours.of(np.array([[0.0, 0, 10, 10], [0, 0, 10, 9], [20, 0, 30, 10]]), np.array([3]))
        >>> near.bits.ravel().tolist()  # the first two are close, to themselves too
        [3, 3, 4]
        """
        words = max(1, -(-int(counts.max(initial=0)) // _BITS))
        bits = np.zeros((len(boxes), words), dtype=np.uint64)
        begin = 0
        for count in counts.tolist():
            mine = boxes[begin : begin + count]
            close = np.zeros((count, words * _BITS), dtype=np.bool_)
            close[:, :count] = geometry.iou(mine, mine) >= threshold
            bits[begin : begin + count] = np.packbits(close, axis=1, bitorder="little").view("<u8")
            begin += count
        return cls(counts, bits)

    def kept(self, scores: Scores) -> Flags:
        """Which boxes greedy suppression keeps, as `geometry.nms` does, for every row of scores (rankings, boxes).

        Examples
        --------
        >>> near = Neighbours.of(np.array([[0.0, 0, 10, 10], [0, 0, 10, 9], [20, 0, 30, 10]]), np.array([3]))
        >>> near.kept(np.array([[0.9, 0.5, 0.1], [0.5, 0.9, 0.1]])).tolist()
        [[True, False, True], [False, True, True]]
        """
        kept = np.zeros(scores.shape, dtype=np.bool_)
        starts = np.cumsum(self.counts) - self.counts
        for photos in self._batches(len(scores)):
            column = np.arange(self.counts[photos].max())
            inside = column < self.counts[photos, None]
            place = starts[photos, None] + np.where(inside, column, 0)
            flags = self._go_down(_best_first(scores[:, place], inside), starts[photos])
            kept[:, place[inside]] = flags[:, inside]
        return kept

    def _batches(self, rankings: int) -> Iterator[Whole]:
        """Photos that are gone through together: alike in size, so that few places are left empty."""
        by_size = np.argsort(self.counts, kind="stable")
        by_size = by_size[self.counts[by_size] > 0]
        widest = int(self.counts.max(initial=1))
        photos = max(1, min(_ROWS_AT_ONCE, _CELLS_AT_ONCE // widest) // max(1, rankings))
        for begin in range(0, len(by_size), photos):
            yield by_size[begin : begin + photos]

    def _go_down(self, order: Whole, starts: Whole) -> Flags:
        """(rankings, photos, width) from the order of each ranking's boxes; all rankings take a step together."""
        rankings, photos, width = order.shape
        rows, words = rankings * photos, self.bits.shape[1]
        steps = np.ascontiguousarray(order.reshape(rows, width).T)
        word, bit = np.arange(rows) * words + steps // _BITS, (steps % _BITS).astype(np.uint64)
        box = np.minimum(steps + np.tile(starts, rankings), len(self.bits) - 1)
        alive = np.empty((width, rows), dtype=np.uint64)
        dropped = np.zeros((rows, words), dtype=np.uint64)
        for step in range(width):
            alive[step] = ~(dropped.take(word[step]) >> bit[step]) & np.uint64(1)
            dropped |= self.bits.take(box[step], axis=0) * alive[step][:, None]
        kept = np.empty((rows, width), dtype=np.bool_)
        np.put_along_axis(kept, steps.T, alive.T != 0, axis=1)
        return kept.reshape(order.shape)


def _best_first(scores: Scores, inside: Flags) -> Whole:
    """The order of the last axis, best first, of equal scores the first; places that are not inside come last."""
    if scores.dtype == np.float32:
        return _sorted_keys(scores, inside)
    worst_last = np.where(inside, -scores.astype(np.float64), np.inf)
    return np.argsort(worst_last, axis=-1, kind="stable")


def _sorted_keys(scores: npt.NDArray[np.float32], inside: Flags) -> Whole:
    """The order of float32 scores, from whole numbers that hold a score and, below it, its place.

    No two are the same, so that any sort will do, and that of whole numbers is ten times as quick as a stable argsort.
    """
    bits = (-scores + np.float32(0)).view(np.int32)  # adding 0 makes −0 the same as 0
    ascending = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))  # negative floats count downwards
    ascending[:, ~inside] = 0x7FFFFFFF  # above every number
    keys = (ascending.astype(np.int64) << 32) | np.arange(scores.shape[-1])
    keys.sort(axis=-1)
    return np.asarray(keys & 0xFFFFFFFF, dtype=np.intp)
