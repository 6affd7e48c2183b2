"""Boxes that files give as a corner and a size."""

from __future__ import annotations

import math
from collections.abc import Sequence

from deixis import geometry
from deixis.data.readers.values import Value

Corners = tuple[float, float, float, float]


def corners(boxes_xywh: Sequence[Sequence[float]], places: Sequence[Value]) -> list[Corners]:
    """Our corners of ``x, y, width, height`` boxes; `places` say where each stands, for complaints.

    Boxes without a pixel and boxes that leave the photo are kept: COCO and Visual Genome have some of each.

    Examples
    --------
    >>> corners([[2, 3, 10, 20]], [Value(None, "a.json")])
    [(2.0, 3.0, 12.0, 23.0)]
    """
    for (x, y, width, height), place in zip(boxes_xywh, places, strict=True):
        if width < 0 or height < 0:
            raise place.wrong(f"the box ends before it begins (width {width:g}, height {height:g})")
        if not (math.isfinite(x + width) and math.isfinite(y + height)):
            raise place.wrong("the box is larger than any photo")
    if not boxes_xywh:
        return []
    return [(x1, y1, x2, y2) for x1, y1, x2, y2 in geometry.from_xywh(boxes_xywh).tolist()]
