"""Interface of proposers: at least one box, distinct boxes inside the photo, best first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from PIL import Image

from deixis import geometry
from deixis.vision.feature_map import FeatureMap

CODE_VERSION = 1
"""Part of every fingerprint. Increment it when the code proposes other boxes with the same settings."""


@dataclass(frozen=True)
class Proposals:
    """Region proposals of one photo, most likely first.

    Attributes
    ----------
    boxes : array of float64, (n, 4)
        `x1, y1, x2, y2` in pixels of the photo.
    scores : array of float64, (n,)
        In descending order; comparable within a photo only.
    """

    boxes: NDArray[np.float64]
    scores: NDArray[np.float64]


class Proposer(Protocol):
    """Proposes boxes for a photo, from its pixels or from its feature map.

    Attributes
    ----------
    name
        Name for `open_proposer`.
    fingerprint
        Hash of everything that affects the boxes. Boxes of different fingerprints are never mixed.
    """

    name: str

    @property
    def fingerprint(self) -> str:
        """Hash of everything that affects the boxes."""
        ...

    def propose(self, photo: Image.Image, features: FeatureMap, top: int) -> Proposals:
        """Return at most `top` boxes."""
        ...


def compute_fingerprint(proposer: str, settings: Mapping[str, object]) -> str:
    """Return the fingerprint of a proposer.

    Parameters
    ----------
    proposer
        Name of the proposer.
    settings
        Everything that affects the boxes, as JSON values.

    Examples
    --------
    >>> compute_fingerprint("fixed", {"boxes": []}) == compute_fingerprint("fixed", {"boxes": [[0, 0, 1, 1]]})
    False
    """
    content = {"code": CODE_VERSION, "proposer": proposer, **settings}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def best_boxes(boxes: npt.ArrayLike, scores: npt.ArrayLike, size: tuple[int, int], top: int) -> Proposals:
    """Return the `top` boxes of highest score, clipped to the photo. Ties go to the earlier row.

    Boxes outside the photo and duplicates are dropped. If nothing is left, the whole photo is the only proposal, with a
    score of 0, so that there is always a box to choose.

    Parameters
    ----------
    boxes : array of shape (n, 4)
        `x1, y1, x2, y2` in pixels of the photo.
    scores : array of shape (n,)
        Higher is better.
    size : (width, height)
        Size of the photo.
    top
        Maximum number of boxes.

    Examples
    --------
    >>> found = best_boxes([[0, 0, 5, 5], [-3, 0, 90, 5], [0, 0, 5, 5]], [0.1, 0.7, 0.9], size=(80, 40), top=10)
    >>> found.boxes.tolist(), found.scores.tolist()
    ([[0.0, 0.0, 5.0, 5.0], [0.0, 0.0, 80.0, 5.0]], [0.9, 0.7])
    """
    width, height = size
    clipped = geometry.clip(np.asarray(boxes, dtype=np.float64).reshape(-1, 4), width, height)
    values = np.asarray(scores, dtype=np.float64)
    order = np.argsort(-values, kind="stable")
    order = order[geometry.area(clipped[order]) > 0]
    _, first = np.unique(clipped[order], axis=0, return_index=True)
    order = order[np.sort(first)]
    if not len(order):
        clipped, values, order = np.array([[0.0, 0.0, width, height]]), np.zeros(1), np.zeros(1, dtype=np.intp)
    return Proposals(clipped[order[:top]], values[order[:top]])
