"""Edge Boxes, with OpenCV (optional package)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from deixis import geometry
from deixis.errors import DeixisError
from deixis.vision.encoder import FeatureMap, InputSize, resize_photo
from deixis.vision.proposals import Proposals, best_boxes, compute_fingerprint

Plane = NDArray[np.float32]

# The gradient of this percentile of the pixels is a contour of strength 1.
_FULL_CONTOUR_PERCENTILE = 99.0
# Lower limit of that gradient, for plain photos with noise: one grey level of 255 must stay below a tenth of a full
# contour, which is the threshold of OpenCV.
_LEAST_FULL = 0.02


def import_opencv(proposer: str) -> Any:
    """Import `cv2` with its contributed modules on use: it is slow, and must be loaded after Pillow."""
    try:
        import cv2

        cv2.ximgproc  # noqa: B018  the plain package lacks it
    except (ImportError, AttributeError):
        raise DeixisError(
            f"proposer {proposer} needs OpenCV with its contributed modules: pip install 'deixis[proposals]'"
        ) from None
    return cv2


@dataclass(frozen=True)
class EdgeBoxesSettings:
    """Settings of Edge Boxes, chosen on training photos."""

    side: int = 245  # photos are resized to about as many pixels as a square of this side
    blur: float = 2.0  # standard deviation in pixels of the Gaussian blur before the gradient
    step: float = 0.65  # IoU of neighbouring windows (alpha of the paper)
    overlap: float = 0.55  # IoU threshold of non-maximum suppression (beta)
    size_bias: float = 1.3  # exponent of the perimeter (kappa); higher values prefer small boxes
    smallest: float = 0.004  # minimum area of a box as a fraction of the photo
    longest: float = 3.0  # maximum aspect ratio of a box


class EdgeBoxes:
    """Edge Boxes (Zitnick and Dollár 2014): boxes that enclose contours."""

    name = "edge-boxes"

    def __init__(self, settings: EdgeBoxesSettings | None = None) -> None:
        self.settings = settings or EdgeBoxesSettings()

    @property
    def fingerprint(self) -> str:
        about = {"settings": asdict(self.settings), "opencv": import_opencv(self.name).__version__}
        return compute_fingerprint(self.name, about)

    def propose(self, photo: Image.Image, features: FeatureMap | None, top: int) -> Proposals:
        settings = self.settings
        pixels = resize_photo(photo, InputSize(settings.side, keep_aspect=True).target_size(*photo.size))
        height, width = pixels.shape[:2]
        cv2 = import_opencv(self.name)
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
        xywh, scores = search.getBoundingBoxes(thin_contours(cv2, strength, normal), normal)
        # Without boxes, the scores are None.
        boxes = geometry.rescale(geometry.from_xywh(np.reshape(xywh, (-1, 4))), size=(width, height), to=photo.size)
        return best_boxes(boxes, [] if scores is None else np.ravel(scores), photo.size, top)


class DenseEdgeBoxes(EdgeBoxes):
    """Edge Boxes that overlap more, for training: more proposals lie on an object, and fewer objects have one."""

    name = "edge-boxes-dense"

    def __init__(self) -> None:
        super().__init__(EdgeBoxesSettings(overlap=0.9))


def contours(cv2: Any, pixels: NDArray[np.uint8], blur: float) -> tuple[Plane, Plane]:
    """Return the strength of the contour at each pixel, 0 to 1, and the angle of its normal, 0 to π.

    Combines the gradients of lightness and both colour channels (Di Zenzo 1986), so that a red object on a green one of
    equal lightness has a contour.
    """
    lab = cv2.cvtColor(pixels.astype(np.float32) / 255, cv2.COLOR_RGB2LAB) / 100
    smooth = cv2.GaussianBlur(lab, (0, 0), blur)
    # The Sobel kernel sums to 8 times the difference of neighbouring pixels. Scaling by the blur makes the strength of
    # a step independent of the blur.
    dx, dy = (cv2.Sobel(smooth, -1, *axes) * (blur / 8) for axes in ((1, 0), (0, 1)))
    xx, yy, xy = (dx * dx).sum(axis=2), (dy * dy).sum(axis=2), (dx * dy).sum(axis=2)
    strongest = np.sqrt((xx + yy + np.hypot(xx - yy, 2 * xy)) / 2)
    full = max(float(np.percentile(strongest, _FULL_CONTOUR_PERCENTILE)), _LEAST_FULL)
    across = np.mod(np.arctan2(2 * xy, xx - yy) / 2, np.pi)
    return np.minimum(strongest / full, 1).astype(np.float32), across.astype(np.float32)


def thin_contours(cv2: Any, strength: Plane, normal: Plane) -> Plane:
    """Non-maximum suppression of contours along their normal. The border of the photo is no contour."""
    rows, columns = np.indices(strength.shape, dtype=np.float32)
    step_x, step_y = np.cos(normal), np.sin(normal)
    lines = strength.copy()
    for sign in (-1, 1):
        beside = cv2.remap(
            strength, columns + sign * step_x, rows + sign * step_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
        lines[strength < beside] = 0
    lines[[0, -1], :] = 0
    lines[:, [0, -1]] = 0
    return lines
