"""Bounding boxes: float arrays of shape (..., 4), ``x1, y1, x2, y2`` in pixels, 0-based, end exclusive.

Conversions to and from other conventions are here too: Flickr30k Entities counts pixels from 1 and includes the last.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Boxes = npt.NDArray[np.float64]

_FIRST_PIXEL = np.array([1.0, 1.0, 0.0, 0.0])


def from_entities(boxes: npt.ArrayLike) -> Boxes:
    """Convert 1-based inclusive ``xmin, ymin, xmax, ymax`` of Flickr30k Entities to boxes.

    Examples
    --------
    >>> from_entities([1, 1, 10, 20]).tolist()
    [0.0, 0.0, 10.0, 20.0]
    """
    return np.asarray(np.asarray(boxes, dtype=np.float64) - _FIRST_PIXEL)


def to_entities(boxes: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Convert boxes to the 1-based inclusive whole pixels of Flickr30k Entities.

    Examples
    --------
    >>> to_entities([0, 0, 10, 20]).tolist()
    [1, 1, 10, 20]
    """
    return np.asarray(np.rint(np.asarray(boxes, dtype=np.float64) + _FIRST_PIXEL), dtype=np.int64)


def from_xywh(boxes: npt.ArrayLike) -> Boxes:
    """Convert COCO ``x, y, width, height`` to boxes.

    Examples
    --------
    >>> from_xywh([2, 3, 10, 20]).tolist()
    [2.0, 3.0, 12.0, 23.0]
    """
    xywh = np.asarray(boxes, dtype=np.float64)
    return np.concatenate([xywh[..., :2], xywh[..., :2] + xywh[..., 2:]], axis=-1)


def to_xywh(boxes: npt.ArrayLike) -> Boxes:
    """Convert boxes to COCO ``x, y, width, height``.

    Examples
    --------
    >>> to_xywh([2, 3, 12, 23]).tolist()
    [2.0, 3.0, 10.0, 20.0]
    """
    xyxy = np.asarray(boxes, dtype=np.float64)
    return np.concatenate([xyxy[..., :2], xyxy[..., 2:] - xyxy[..., :2]], axis=-1)


def rescale(boxes: npt.ArrayLike, size: tuple[int, int], to: tuple[int, int]) -> Boxes:
    """Rescale boxes from a photo of one (width, height) to a copy of another.

    Examples
    --------
    >>> rescale([0, 0, 100, 50], size=(200, 100), to=(100, 100)).tolist()
    [0.0, 0.0, 50.0, 50.0]
    """
    factor = np.array([to[0] / size[0], to[1] / size[1]] * 2)
    return np.asarray(np.asarray(boxes, dtype=np.float64) * factor)


def area(boxes: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the area of each box in pixels; 0 for an inverted box.

    Examples
    --------
    >>> area([[0, 0, 10, 20], [5, 5, 4, 9]]).tolist()
    [200.0, 0.0]
    """
    x1, y1, x2, y2 = np.moveaxis(np.asarray(boxes, dtype=np.float64), -1, 0)
    return _area(x1, y1, x2, y2)


def _area(x1: Boxes, y1: Boxes, x2: Boxes, y2: Boxes) -> npt.NDArray[np.float64]:
    return np.asarray(np.maximum(x2 - x1, 0) * np.maximum(y2 - y1, 0))


def iou(a: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Intersection over union of every box of `a` (n, 4) with every box of `b` (m, 4), as (n, m).

    The IoU of two empty boxes is 0.

    Examples
    --------
    >>> iou([[0, 0, 10, 10]], [[0, 0, 10, 5], [20, 20, 30, 30]]).tolist()
    [[0.5, 0.0]]
    """
    a_sides = np.asarray(a, dtype=np.float64).reshape(-1, 4).T
    b_sides = np.asarray(b, dtype=np.float64).reshape(-1, 4).T
    return iou_of_sides(a_sides[:, :, None], b_sides[:, None, :])


def iou_of_sides(a: Boxes, b: Boxes) -> npt.NDArray[np.float64]:
    """IoU of boxes given as four planes ``x1, y1, x2, y2`` along the first axis; the other axes broadcast.

    Several times faster than `iou` for loops that keep boxes in this layout.

    Examples
    --------
    >>> iou_of_sides(np.array([0.0, 0, 10, 10]), np.array([0.0, 0, 10, 5])).item()
    0.5
    """
    shared = _area(np.maximum(a[0], b[0]), np.maximum(a[1], b[1]), np.minimum(a[2], b[2]), np.minimum(a[3], b[3]))
    total = _area(*a) + _area(*b) - shared
    return np.asarray(np.divide(shared, total, out=np.zeros_like(shared), where=total > 0))


def union(boxes: npt.ArrayLike) -> Boxes:
    """Return the smallest box (4,) that contains all `boxes` (n, 4), n ≥ 1.

    Examples
    --------
    >>> union([[0, 0, 10, 10], [5, 5, 20, 8]]).tolist()
    [0.0, 0.0, 20.0, 10.0]
    """
    xyxy = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    return np.concatenate([xyxy[:, :2].min(axis=0), xyxy[:, 2:].max(axis=0)])


def clip(boxes: npt.ArrayLike, width: float, height: float) -> Boxes:
    """Clip boxes to the border of a photo.

    Examples
    --------
    >>> clip([-5, 2, 300, 40], width=200, height=100).tolist()
    [0.0, 2.0, 200.0, 40.0]
    """
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

    Examples
    --------
    >>> nms([[0, 0, 10, 10], [0, 0, 10, 9], [20, 0, 30, 10]], [0.5, 0.9, 0.1]).tolist()
    [1, 2]
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
