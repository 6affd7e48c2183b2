"""Edge Boxes: a box is likely to hold something when many contours lie wholly inside it.

Zitnick and Dollár, "Edge Boxes: Locating Object Proposals from Edges", ECCV 2014; the search is OpenCV's. The paper
finds its contours with a learned detector whose weights are not ours to ship; here they are the gradients of the photo
in a perceptual colour space, blurred until texture is mostly gone and thinned to lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from deixis import geometry
from deixis.vision.encoder import InputSize
from deixis.vision.features import FeatureMap
from deixis.vision.proposals.opencv import fingerprint_with_opencv, opencv, pixels_at
from deixis.vision.proposals.proposer import Proposals
from deixis.vision.proposals.ranking import best_boxes

Plane = NDArray[np.float32]

# A gradient as strong as the strongest hundredth of a photo's pixels is a full contour.
_FULL_CONTOUR_PERCENTILE = 99.0
# But in a plain photo that may be noise: a step of one grey level in 255 must stay below a tenth of a full contour,
# where OpenCV begins to look.
_LEAST_FULL = 0.02


@dataclass(frozen=True)
class EdgeBoxesSettings:
    """How Edge Boxes searches; chosen on training photos (see the docs).

    Attributes
    ----------
    side
        Photos are brought to about as many pixels as a square of this side has.
    blur
        Standard deviation, in these pixels, of the Gaussian before the gradient.
    step
        The IoU of neighbouring windows in the first search (the paper's alpha).
    overlap
        Of two boxes with a larger IoU only the better one stays (beta).
    size_bias
        The exponent by which a box pays for its perimeter (kappa): higher prefers small boxes.
    smallest
        Share of the photo below which a box is not looked at.
    longest
        The largest ratio of a box's sides.
    """

    side: int = 245
    blur: float = 2.0
    step: float = 0.65
    overlap: float = 0.55
    size_bias: float = 1.3
    smallest: float = 0.004
    longest: float = 3.0


class EdgeBoxes:
    """Boxes that contours fit into.

    Examples
    --------
    >>> from PIL import ImageDraw
    >>> photo = Image.new("RGB", (300, 200), "white")
    >>> ImageDraw.Draw(photo).rectangle((100, 50, 199, 149), fill="red")
    >>> found = EdgeBoxes().propose(photo, None, top=20)
    >>> bool(geometry.iou(found.boxes, [[100, 50, 200, 150]]).max() > 0.8)
    True
    """

    name = "edge-boxes"

    def __init__(self, settings: EdgeBoxesSettings | None = None) -> None:
        self.settings = settings or EdgeBoxesSettings()

    @property
    def fingerprint(self) -> str:
        """Of the settings and the version of OpenCV."""
        return fingerprint_with_opencv(self.name, self.settings)

    def propose(self, photo: Image.Image, features: FeatureMap | None, top: int) -> Proposals:
        """At most `top` boxes; only the pixels are looked at."""
        settings = self.settings
        pixels = pixels_at(photo, InputSize(settings.side, keep_aspect=True))
        height, width = pixels.shape[:2]
        cv2 = opencv(self.name)
        strength, normal = contours(cv2, pixels, settings.blur)
        search = cv2.ximgproc.createEdgeBoxes(
            alpha=settings.step,
            beta=settings.overlap,
            minScore=0.0,
            maxBoxes=top,
            maxAspectRatio=settings.longest,
            minBoxArea=settings.smallest * width * height,
            kappa=settings.size_bias,
        )
        xywh, scores = search.getBoundingBoxes(thinned(cv2, strength, normal), normal)
        # Where there is no box, there are no scores either, not even an empty list of them.
        boxes = geometry.rescale(geometry.from_xywh(np.reshape(xywh, (-1, 4))), size=(width, height), to=photo.size)
        return best_boxes(boxes, [] if scores is None else np.ravel(scores), photo.size, top)


def contours(cv2: Any, pixels: NDArray[np.uint8], blur: float) -> tuple[Plane, Plane]:
    """How strong a contour is at each pixel, from 0 to 1, and the angle across it, from 0 to π.

    The gradients of lightness and both colours are joined as Di Zenzo does (1986): the direction in which all three
    together change most, so that a red thing on a green one of equal lightness has a contour.
    """
    lab = cv2.cvtColor(pixels.astype(np.float32) / 255, cv2.COLOR_RGB2LAB) / 100
    smooth = cv2.GaussianBlur(lab, (0, 0), blur)
    # The Sobel kernel sums to 8 times the change from one pixel to the next; scaled by the blur, a step of lightness
    # weighs the same however much it was blurred.
    dx, dy = (cv2.Sobel(smooth, -1, *axes) * (blur / 8) for axes in ((1, 0), (0, 1)))
    xx, yy, xy = (dx * dx).sum(axis=2), (dy * dy).sum(axis=2), (dx * dy).sum(axis=2)
    strongest = np.sqrt((xx + yy + np.hypot(xx - yy, 2 * xy)) / 2)
    full = max(float(np.percentile(strongest, _FULL_CONTOUR_PERCENTILE)), _LEAST_FULL)
    across = np.mod(np.arctan2(2 * xy, xx - yy) / 2, np.pi)
    return np.minimum(strongest / full, 1).astype(np.float32), across.astype(np.float32)


def thinned(cv2: Any, strength: Plane, normal: Plane) -> Plane:
    """Keep a contour only where it is strongest among its neighbours across it; the photo's border is none."""
    rows, columns = np.indices(strength.shape, dtype=np.float32)
    step_x, step_y = np.cos(normal), np.sin(normal)
    lines = strength.copy()
    for sign in (-1, 1):
        beside = cv2.remap(
            strength,
            columns + sign * step_x,
            rows + sign * step_y,
            cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_REPLICATE,
        )
        lines[strength < beside] = 0
    lines[[0, -1], :] = 0
    lines[:, [0, -1]] = 0
    return lines
