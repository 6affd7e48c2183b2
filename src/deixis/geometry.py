"""Bounding boxes: float arrays of shape (..., 4), ``x1, y1, x2, y2`` in pixels, 0-based, end exclusive.

Conversions to and from other conventions are here too: Flickr30k Entities counts pixels from 1 and includes the last.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Boxes = npt.NDArray[np.float64]
XYXY = tuple[float, float, float, float]
"""One box as plain numbers."""

_FIRST_PIXEL = np.array([1.0, 1.0, 0.0, 0.0])


def from_entities(boxes: npt.ArrayLike) -> Boxes:
    """Convert 1-based inclusive ``xmin, ymin, xmax, ymax`` of Flickr30k Entities to boxes."""
    return np.asarray(np.asarray(boxes, dtype=np.float64) - _FIRST_PIXEL)


def to_entities(boxes: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Convert boxes to the 1-based inclusive whole pixels of Flickr30k Entities."""
    return np.asarray(np.rint(np.asarray(boxes, dtype=np.float64) + _FIRST_PIXEL), dtype=np.int64)


def from_xywh(boxes: npt.ArrayLike) -> Boxes:
    """Convert COCO ``x, y, width, height`` to boxes."""
    xywh = np.asarray(boxes, dtype=np.float64)
    return np.concatenate([xywh[..., :2], xywh[..., :2] + xywh[..., 2:]], axis=-1)


def to_xywh(boxes: npt.ArrayLike) -> Boxes:
    """Convert boxes to COCO ``x, y, width, height``."""
    xyxy = np.asarray(boxes, dtype=np.float64)
    return np.concatenate([xyxy[..., :2], xyxy[..., 2:] - xyxy[..., :2]], axis=-1)


def rescale(boxes: npt.ArrayLike, size: tuple[int, int], to: tuple[int, int]) -> Boxes:
    """Rescale boxes from a photo of one (width, height) to a copy of another."""
    factor = np.array([to[0] / size[0], to[1] / size[1]] * 2)
    return np.asarray(np.asarray(boxes, dtype=np.float64) * factor)


def area(boxes: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the area of each box in pixels; 0 for an inverted box."""
    return _area(*np.moveaxis(np.asarray(boxes, dtype=np.float64), -1, 0))


def _area(x1: Boxes, y1: Boxes, x2: Boxes, y2: Boxes) -> npt.NDArray[np.float64]:
    return np.asarray(np.maximum(x2 - x1, 0) * np.maximum(y2 - y1, 0))


def iou(a: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Intersection over union of every box of `a` (n, 4) with every box of `b` (m, 4), as (n, m).

    The IoU of two empty boxes is 0.
    """
    a_sides = np.asarray(a, dtype=np.float64).reshape(-1, 4).T
    b_sides = np.asarray(b, dtype=np.float64).reshape(-1, 4).T
    return iou_of_sides(a_sides[:, :, None], b_sides[:, None, :])


def overlap_areas(a: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Area of the intersection of every box of `a` (n, 4) with every box of `b` (m, 4), as (n, m)."""
    first, second = (np.asarray(boxes, dtype=np.float64).reshape(-1, 4) for boxes in (a, b))
    begin = np.maximum(first[:, None, :2], second[:, :2])
    return area(np.concatenate([begin, np.minimum(first[:, None, 2:], second[:, 2:])], axis=-1))


def iou_of_sides(a: Boxes, b: Boxes) -> npt.NDArray[np.float64]:
    """IoU of boxes given as four planes ``x1, y1, x2, y2`` along the first axis; the other axes broadcast.

    Several times faster than `iou` for loops that keep boxes in this layout.
    """
    shared = _area(np.maximum(a[0], b[0]), np.maximum(a[1], b[1]), np.minimum(a[2], b[2]), np.minimum(a[3], b[3]))
    total = _area(*a) + _area(*b) - shared
    return np.asarray(np.divide(shared, total, out=np.zeros_like(shared), where=total > 0))


def union(boxes: npt.ArrayLike) -> Boxes:
    """Return the smallest box (4,) that contains all `boxes` (n, 4), n ≥ 1."""
    xyxy = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    return np.concatenate([xyxy[:, :2].min(axis=0), xyxy[:, 2:].max(axis=0)])


def clip(boxes: npt.ArrayLike, width: float, height: float) -> Boxes:
    """Clip boxes to the border of a photo."""
    limit = np.array([width, height, width, height], dtype=np.float64)
    return np.asarray(np.clip(np.asarray(boxes, dtype=np.float64), 0, limit))


# Boxes compared at once: the IoU matrix of one block fits in the CPU cache.
_BLOCK = 256


def nms(
    boxes: npt.ArrayLike, scores: npt.ArrayLike, threshold: float = 0.5, max_boxes: int | None = None
) -> npt.NDArray[np.intp]:
    """Greedy non-maximum suppression: return the kept rows, best score first.

    A box is dropped if its IoU with a better box is at least `threshold`. Ties go to the earlier row. At most
    `max_boxes` rows are returned.
    """
    xyxy = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    order = np.argsort(-np.asarray(scores, dtype=np.float64), kind="stable")
    kept = np.empty(0, dtype=np.intp)
    for begin in range(0, len(order), _BLOCK):
        if max_boxes is not None and len(kept) >= max_boxes:
            break
        rows = order[begin : begin + _BLOCK]
        rows = rows[(iou(xyxy[rows], xyxy[kept]) < threshold).all(axis=1)]
        kept = np.concatenate([kept, rows[_suppress(iou(xyxy[rows], xyxy[rows]) >= threshold)]])
    return kept[:max_boxes]


def _suppress(close: npt.NDArray[np.bool_]) -> list[int]:
    """Keep the rows that are not close to an earlier kept row."""
    dropped = np.zeros(len(close), dtype=bool)
    best = []
    for row in range(len(close)):
        if not dropped[row]:
            best.append(row)
            dropped |= close[row]
    return best
