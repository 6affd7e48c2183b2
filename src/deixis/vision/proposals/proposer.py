"""The one interface of everything that proposes boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from deixis.vision.features import FeatureMap


@dataclass(frozen=True)
class Proposals:
    """Boxes of one photo that may hold something, the likeliest first.

    Attributes
    ----------
    boxes : array of float64, (n, 4)
        `x1, y1, x2, y2` in pixels of the photo.
    scores : array of float64, (n,)
        Never rising; comparable within a photo only.
    """

    boxes: NDArray[np.float64]
    scores: NDArray[np.float64]


class Proposer(Protocol):
    """Boxes for a photo, from its pixels or from its map: each method uses what it needs."""

    name: str

    def propose(self, photo: Image.Image, features: FeatureMap, top: int) -> Proposals:
        """At most `top` boxes."""
        ...
