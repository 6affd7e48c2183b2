"""Fixed boxes: proposals that ignore the photo, as a baseline. `scripts/fixed_boxes.py` chose them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from deixis import geometry
from deixis.storage.artifacts import damaged
from deixis.storage.checksums import unseal
from deixis.vision.feature_map import FeatureMap
from deixis.vision.proposals import Proposals, best_boxes, compute_fingerprint


class FixedProposer:
    """Proposes the same boxes (n, 4) for every photo, as fractions of its width and height, best first."""

    name = "fixed"

    def __init__(self, boxes: npt.ArrayLike) -> None:
        self.boxes = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)

    @property
    def fingerprint(self) -> str:
        return compute_fingerprint(self.name, {"boxes": self.boxes.tolist()})

    def propose(self, photo: Image.Image, features: FeatureMap | None, top: int) -> Proposals:
        boxes = geometry.rescale(self.boxes, size=(1, 1), to=photo.size)
        return best_boxes(boxes, -np.arange(len(boxes), dtype=np.float64), photo.size, top)

    @classmethod
    def load(cls, path: Path) -> FixedProposer:
        with damaged(path):
            boxes = np.array(unseal(path.read_bytes())["boxes"], dtype=np.float64)
            inside = boxes.ndim == 2 and boxes.shape[1] == 4 and ((boxes >= 0) & (boxes <= 1)).all()
            if not inside or (geometry.area(boxes) <= 0).any():
                raise ValueError("a box is not four fractions from 0 to 1")
        return cls(boxes)


@cache
def shipped_boxes() -> FixedProposer:
    """Return the 200 boxes of the package, chosen on the training photos of Flickr8k."""
    return FixedProposer.load(Path(__file__).with_name("fixed_boxes.json"))
