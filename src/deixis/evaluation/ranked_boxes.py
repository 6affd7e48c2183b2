"""Many short rankings of boxes at once: which boxes are correct, and which survive non-maximum suppression (NMS).

All predicted boxes are in one flat array, ranking by ranking, best box first. Of two boxes with the same score, the
first one in the input is the better one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from deixis import geometry
from deixis.arrays import AnyArray, BoolArray, FloatArray, IntArray
from deixis.geometry import Boxes

IOU = 0.5
"""Minimum IoU of a correct box with a gold box, in both papers."""

NEVER = np.iinfo(np.intp).max
"""The rank of the first correct box if no box is correct."""


@dataclass(frozen=True)
class RankedBoxes:
    """Boxes of several rankings, flat."""

    # (n, 4) and (n,)
    boxes: Boxes
    scores: FloatArray
    owner: IntArray  # (n,) index of the ranking of each box, ascending
    sizes: IntArray  # (rankings,) number of boxes of each ranking

    @cached_property
    def starts(self) -> IntArray:
        """(rankings,) first box of each ranking."""
        return np.cumsum(self.sizes) - self.sizes

    def slices(self) -> list[slice]:
        """The slice of each ranking."""
        begin = self.starts.tolist()
        return [slice(b, b + n) for b, n in zip(begin, self.sizes.tolist(), strict=True)]


def rank_boxes(rankings: Sequence[tuple[Boxes, FloatArray]]) -> RankedBoxes:
    """Sort the (boxes, scores) of each ranking, best first, and concatenate the rankings."""
    sizes = np.array([len(scores) for _, scores in rankings], dtype=np.intp)
    boxes = np.concatenate([np.empty((0, 4)), *(boxes for boxes, _ in rankings)])
    scores = np.concatenate([np.empty(0), *(scores for _, scores in rankings)])
    owner = np.repeat(np.arange(len(rankings)), sizes)
    order = np.lexsort((-scores, owner))
    return RankedBoxes(boxes[order], scores[order], owner, sizes)


def correct_boxes(ranked: RankedBoxes, golds: Sequence[Boxes]) -> BoolArray:
    """Return (n,) whether each box has an IoU of at least 0.5 with one of the gold boxes of its ranking."""
    correct = np.zeros(len(ranked.owner), dtype=np.bool_)
    for part, gold in zip(ranked.slices(), golds, strict=True):
        correct[part] = (geometry.iou(ranked.boxes[part], gold) >= IOU).any(axis=1)
    return correct


def first_correct(ranked: RankedBoxes, correct: BoolArray, kept: BoolArray | None = None) -> IntArray:
    """Return (rankings,) the number of boxes before the first correct one, or `NEVER`.

    With `kept`, the other boxes are ignored.
    """
    counted = np.ones_like(correct) if kept is None else kept
    before: IntArray = np.cumsum(counted) - counted
    rank = before - np.concatenate([before, [0]])[ranked.starts][ranked.owner]
    good = first_of_each(ranked, correct & counted)
    first = np.full(len(ranked.sizes), NEVER)
    first[ranked.owner[good]] = rank[good]
    return first


def first_of_each(ranked: RankedBoxes, flags: BoolArray) -> BoolArray:
    """Return (n,) flags with only the first set flag of each ranking."""
    up = np.flatnonzero(flags)
    firsts = np.zeros_like(flags)
    firsts[up[np.unique(ranked.owner[up], return_index=True)[1]]] = True
    return firsts


def kept_by_nms(ranked: RankedBoxes) -> BoolArray:
    """Return (n,) which boxes greedy NMS keeps in each ranking, as `geometry.nms` does."""
    falling = -np.arange(len(ranked.owner), dtype=np.float64)
    return Overlaps.from_boxes(ranked.boxes, ranked.sizes).kept(falling[None])[0]


_BITS = 64
_ROWS_PER_BATCH = 4096
_CELLS_PER_BATCH = 1 << 20


@dataclass(frozen=True)
class Overlaps:
    """Pairs of boxes of a photo that overlap enough to suppress each other, for NMS under many score rankings."""

    counts: IntArray  # (photos,) number of boxes of each photo
    bits: npt.NDArray[np.uint64]  # (boxes, words) for each box, one bit per box of its photo: whether the two overlap

    @classmethod
    def from_boxes(cls, boxes: Boxes, counts: IntArray) -> Overlaps:
        """Compare the boxes of each photo. `boxes` concatenates those of all photos."""
        words = max(1, -(-int(counts.max(initial=0)) // _BITS))
        bits = np.zeros((len(boxes), words), dtype=np.uint64)
        begin = 0
        for count in counts.tolist():
            mine = boxes[begin : begin + count]
            close = np.zeros((count, words * _BITS), dtype=np.bool_)
            close[:, :count] = geometry.iou(mine, mine) >= IOU
            bits[begin : begin + count] = np.packbits(close, axis=1, bitorder="little").view("<u8")
            begin += count
        return cls(counts, bits)

    def kept(self, scores: AnyArray) -> BoolArray:
        """Return which boxes greedy NMS keeps for every row of scores (rankings, boxes), as `geometry.nms` does."""
        kept = np.zeros(scores.shape, dtype=np.bool_)
        starts = np.cumsum(self.counts) - self.counts
        for photos in self._batches(len(scores)):
            column = np.arange(self.counts[photos].max())
            inside = column < self.counts[photos, None]
            box = starts[photos, None] + np.where(inside, column, 0)
            flags = self._suppress(_best_first(scores[:, box], inside), starts[photos])
            kept[:, box[inside]] = flags[:, inside]
        return kept

    def _batches(self, rankings: int) -> Iterator[IntArray]:
        """Photos to process together, of similar size to limit padding."""
        by_size = np.argsort(self.counts, kind="stable")
        by_size = by_size[self.counts[by_size] > 0]
        widest = int(self.counts.max(initial=1))
        photos = max(1, min(_ROWS_PER_BATCH, _CELLS_PER_BATCH // widest) // max(1, rankings))
        for begin in range(0, len(by_size), photos):
            yield by_size[begin : begin + photos]

    def _suppress(self, order: IntArray, starts: IntArray) -> BoolArray:
        """(rankings, photos, width) kept flags from the order of the boxes; all rankings advance together."""
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


def _best_first(scores: AnyArray, inside: BoolArray) -> IntArray:
    """The stable order of the last axis, best first; padding comes last."""
    if scores.dtype == np.float32:
        return _sorted_keys(scores, inside)
    worst_last = np.where(inside, -scores.astype(np.float64), np.inf)
    return np.argsort(worst_last, axis=-1, kind="stable")


def _sorted_keys(scores: npt.NDArray[np.float32], inside: BoolArray) -> IntArray:
    """The order of float32 scores, by sorting integers that combine a score and its position.

    All keys differ, so that no stable sort is needed; sorting integers is ten times as fast as a stable argsort.
    """
    bits = (-scores + np.float32(0)).view(np.int32)  # adding 0 turns −0 into 0
    ascending = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))  # negative floats are in descending order
    ascending[:, ~inside] = 0x7FFFFFFF  # above every number
    keys = (ascending.astype(np.int64) << 32) | np.arange(scores.shape[-1])
    keys.sort(axis=-1)
    return np.asarray(keys & 0xFFFFFFFF, dtype=np.intp)
