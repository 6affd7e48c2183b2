"""Blind baselines for phrase localization: the best fixed box, and the best fixed box of each type.

A fixed box is relative to the size of the photo; (0, 0, 1, 1) is the whole photo. It is chosen on training items. IoU
does not change when a photo and its boxes are scaled together, so all boxes here are on the unit square.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from deixis import geometry
from deixis.arrays import FloatArray, IntArray
from deixis.errors import DeixisError
from deixis.evaluation.items import Item, Protocol, indices_by_type
from deixis.evaluation.predictions import Prediction
from deixis.evaluation.ranked_boxes import IOU
from deixis.geometry import XYXY, Boxes

FixedBox = XYXY

_COARSE = 10
_FINE = (20, 40, 80, 160)
_CELLS_PER_BATCH = 60_000


@dataclass(frozen=True)
class FixedBoxes:
    """The best box for all mentions and the best box for each type, as fractions of width and height."""

    single: FixedBox
    by_type: Mapping[str, FixedBox]

    def predict(self, items: Sequence[Item], *, single: bool = False) -> list[Prediction]:
        """Predict for every item the box of its (first) type, or the single box."""
        found = []
        for item in items:
            first = item.types[0] if item.types and not single else None
            relative = self.single if first is None else self.by_type.get(first, self.single)
            box = np.array([relative]) * np.tile(_size(item), 2)
            found.append(Prediction(item.photo, item.caption, item.span, box, np.zeros(1)))
        return found


def best_fixed_box(items: Sequence[Item], *, protocol: Protocol = "union") -> FixedBox:
    """Find the fixed box that is correct for the most items, by a greedy search.

    All boxes with corners on a grid of tenths are tried first; then the corners of the best one are moved in steps of
    1/20, 1/40, 1/80 and 1/160 while that increases the number of correct items. Ties go to the first box.
    """
    if not items:
        raise DeixisError("a fixed box needs at least one item")
    golds = _Golds.from_items(items, protocol)
    grid = _grid()
    counts = golds.count_correct(grid)
    box, best = grid[counts.argmax()], counts.max()
    for parts in _FINE:
        moves = np.array(list(product((0, -1, 1), repeat=4))) / parts
        better = True
        while better:
            near = np.clip(box + moves, 0, 1)
            near = near[(near[:, 2:] > near[:, :2]).all(axis=1)]
            counts = golds.count_correct(near)
            better = bool(counts.max() > best)
            if better:
                box, best = near[counts.argmax()], counts.max()
    x1, y1, x2, y2 = box.tolist()
    return x1, y1, x2, y2


def best_fixed_boxes(items: Sequence[Item], *, protocol: Protocol = "union") -> FixedBoxes:
    """Find the best fixed box of all items and of each type; a mention with several types counts in each.

    Examples
    --------
    >>> item = Item("7", 0, (0, 5), "A dog", ("animals",), ((0, 0, 50, 80),), size=(100, 80))
    >>> list(best_fixed_boxes([item]).by_type)
    ['animals']
    """
    by_type = {
        kind: best_fixed_box([items[index] for index in indices], protocol=protocol)
        for kind, indices in indices_by_type(items).items()
    }
    return FixedBoxes(best_fixed_box(items, protocol=protocol), by_type)


@dataclass(frozen=True)
class _Golds:
    """The distinct gold boxes, as (4, n), each with its number of items."""

    sides: Boxes
    starts: IntArray
    items: FloatArray

    @classmethod
    def from_items(cls, items: Sequence[Item], protocol: Protocol) -> _Golds:
        mentions = Counter((item.photo, item.boxes) for item in items)
        item_of = {(item.photo, item.boxes): item for item in items}
        shares = [item_of[key].gold(protocol) / np.tile(_size(item_of[key]), 2) for key in mentions]
        lengths = np.array([len(share) for share in shares])
        return cls(
            np.concatenate(shares).T.copy(),
            np.cumsum(lengths) - lengths,
            np.array(list(mentions.values()), dtype=np.float64),
        )

    def count_correct(self, candidates: Boxes) -> FloatArray:
        """(candidates,) the number of items that each candidate is correct for."""
        batch_size = max(1, _CELLS_PER_BATCH // self.sides.shape[1])
        parts = np.split(candidates, range(batch_size, len(candidates), batch_size))
        correct = (geometry.iou_of_sides(part.T[..., None], self.sides[:, None]) >= IOU for part in parts)
        return np.concatenate([np.logical_or.reduceat(r, self.starts, axis=1) @ self.items for r in correct])


def _grid() -> Boxes:
    sides = list(combinations(np.arange(_COARSE + 1) / _COARSE, 2))
    return np.array([(x1, y1, x2, y2) for (x1, x2), (y1, y2) in product(sides, sides)])


def _size(item: Item) -> tuple[int, int]:
    if item.size is None:
        raise DeixisError(f"photo {item.photo}: its size is unknown, and fixed boxes are relative to it")
    return item.size
