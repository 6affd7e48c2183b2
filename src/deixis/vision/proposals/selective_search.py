"""Selective search: the photo is cut into small even pieces, and the most alike neighbours are joined again and again.

Uijlings, van de Sande, Gevers and Smeulders, "Selective Search for Object Recognition", IJCV 2013; the search is
OpenCV's. The box around every piece that ever existed is a proposal. The order is our own: OpenCV's is partly drawn by
lot, a different one at each call, and puts the smallest pieces first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from deixis import geometry
from deixis.vision.encoder import InputSize
from deixis.vision.features import FeatureMap
from deixis.vision.proposals.opencv import fingerprint_with_opencv, opencv, pixels_at
from deixis.vision.proposals.proposer import Proposals
from deixis.vision.proposals.ranking import best_boxes


@dataclass(frozen=True)
class SelectiveSearchSettings:
    """How selective search looks; chosen on training photos (see the docs).

    Attributes
    ----------
    side
        Photos are brought to about as many pixels as a square of this side has.
    mode
        `fast`, or `quality`: more colour spaces and more ways of joining, for several times the time.
    overlap
        Of two boxes with at least this IoU only the better one stays.
    """

    side: int = 245
    mode: Literal["fast", "quality"] = "fast"
    overlap: float = 0.6


class SelectiveSearch:
    """Boxes around pieces of the photo that are alike.

    Examples
    --------
    >>> from PIL import ImageDraw
    >>> photo = Image.new("RGB", (300, 200), "white")
    >>> ImageDraw.Draw(photo).rectangle((100, 50, 199, 149), fill="red")
    >>> found = SelectiveSearch().propose(photo, None, top=20)
    >>> bool(geometry.iou(found.boxes, [[100, 50, 200, 150]]).max() > 0.8)
    True
    """

    name = "selective-search"

    def __init__(self, settings: SelectiveSearchSettings | None = None) -> None:
        self.settings = settings or SelectiveSearchSettings()

    @property
    def fingerprint(self) -> str:
        """Of the settings and the version of OpenCV."""
        return fingerprint_with_opencv(self.name, self.settings)

    def propose(self, photo: Image.Image, features: FeatureMap | None, top: int) -> Proposals:
        """At most `top` boxes; only the pixels are looked at."""
        pixels = pixels_at(photo, InputSize(self.settings.side, keep_aspect=True))
        height, width = pixels.shape[:2]
        search = opencv(self.name).ximgproc.segmentation.createSelectiveSearchSegmentation()
        search.setBaseImage(np.ascontiguousarray(pixels[..., ::-1]))
        if self.settings.mode == "fast":
            search.switchToSelectiveSearchFast()
        else:
            search.switchToSelectiveSearchQuality()
        # Sorted, because the order in which they come is drawn by lot and decides between boxes of equal score.
        boxes = np.unique(geometry.from_xywh(np.reshape(search.process(), (-1, 4))), axis=0)
        boxes = geometry.rescale(boxes, size=(width, height), to=photo.size)
        scores = shorter_sides(boxes, photo.size)
        kept = geometry.nms(boxes, scores, self.settings.overlap)
        return best_boxes(boxes[kept], scores[kept], photo.size, top)


def shorter_sides(boxes: geometry.Boxes, size: tuple[int, int]) -> NDArray[np.float64]:
    """The shorter side of each box, as a share of the photo's: large pieces first, long thin ones late.

    Examples
    --------
    >>> shorter_sides(np.array([[0, 0, 100, 10], [0.0, 0, 50, 25]]), size=(100, 50)).tolist()
    [0.2, 0.5]
    """
    return np.asarray(((boxes[:, 2:] - boxes[:, :2]) / np.array(size)).min(axis=1))
