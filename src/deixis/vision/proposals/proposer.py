"""The one interface of everything that proposes boxes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from deixis.vision.features import FeatureMap

CODE_VERSION = 1
"""Part of every fingerprint: raised when the code starts to propose other boxes with the same settings."""


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
    """Boxes for a photo, from its pixels or from its map: each method uses what it needs.

    Attributes
    ----------
    name
        What users type.
    fingerprint
        Of everything that changes the boxes: those with different ones do not mix.
    """

    name: str

    @property
    def fingerprint(self) -> str:
        """See above."""
        ...

    def propose(self, photo: Image.Image, features: FeatureMap, top: int) -> Proposals:
        """At most `top` boxes."""
        ...


def fingerprint_of(proposer: str, settings: Mapping[str, object]) -> str:
    """What tells a proposer's boxes from others'.

    Parameters
    ----------
    proposer
        Its name.
    settings
        All that its boxes depend on, as JSON can write it.

    Examples
    --------
    >>> fingerprint_of("fixed", {"boxes": []}) == fingerprint_of("fixed", {"boxes": [[0, 0, 1, 1]]})
    False
    """
    what = {"code": CODE_VERSION, "proposer": proposer, **settings}
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]
