"""Region proposals: class-agnostic boxes, most likely first. `open_proposer` returns the proposer of a name.

To add a proposer, write one module with a class that has the members of `Proposer`, and add a line to `_OPENERS`.
`fixed` is the baseline that ignores the photo.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from PIL import Image

from deixis import geometry
from deixis.errors import DeixisError
from deixis.vision.feature_map import FeatureMap

CODE_VERSION = 1
"""Part of every fingerprint. Increment it when the code proposes other boxes with the same settings."""

_OPENERS = {
    "head": ("head", "open_head"),
    "edge-boxes": ("opencv", "EdgeBoxes"),
    "selective-search": ("opencv", "SelectiveSearch"),
    "fixed": ("fixed", "shipped_boxes"),
}
PROPOSERS = tuple(_OPENERS)


@dataclass(frozen=True)
class Proposals:
    """At least one box of a photo (n, 4), distinct and inside it, with scores in descending order (n,).

    Scores are comparable within a photo only.
    """

    boxes: NDArray[np.float64]
    scores: NDArray[np.float64]


class Proposer(Protocol):
    """Proposes boxes for a photo, from its pixels or from its feature map."""

    name: str

    @property
    def fingerprint(self) -> str:
        """Hash of everything that affects the boxes. Boxes of different fingerprints are never mixed."""
        ...

    def propose(self, photo: Image.Image, features: FeatureMap, top: int) -> Proposals:
        """Return at most `top` boxes."""
        ...


_HEAD_ENCODERS = ("deixis", "deixis-fast")


def open_proposer(name: str, encoder: str | None = None) -> Proposer:
    """Return a proposer by name; ``head`` requires the encoder that it was trained with."""
    if name not in _OPENERS:
        raise DeixisError(f"no proposer {name}; choose one of {', '.join(PROPOSERS)}")
    if name == "head" and encoder is not None and encoder.partition("@")[0] not in _HEAD_ENCODERS:
        others = ", ".join(other for other in PROPOSERS if other != "head")
        raise DeixisError(f"the proposer head requires the encoder deixis, not {encoder}; use {others}")
    module, opener = _OPENERS[name]
    opened: Proposer = getattr(import_module(f"{__name__}.{module}"), opener)()
    return opened


def compute_fingerprint(proposer: str, settings: Mapping[str, object]) -> str:
    """Hash everything that affects the boxes, given as JSON values."""
    content = {"code": CODE_VERSION, "proposer": proposer, **settings}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def best_boxes(boxes: npt.ArrayLike, scores: npt.ArrayLike, size: tuple[int, int], top: int) -> Proposals:
    """Return the `top` boxes of highest score, clipped to the photo. Ties go to the earlier row.

    Boxes outside the photo and duplicates are dropped. If nothing is left, the whole photo is the only proposal, with a
    score of 0, so that there is always a box to choose.
    """
    width, height = size
    clipped = geometry.clip(np.asarray(boxes, dtype=np.float64).reshape(-1, 4), width, height)
    values = np.asarray(scores, dtype=np.float64)
    order = rank_boxes(clipped, values)
    if not len(order):
        clipped, values, order = np.array([[0.0, 0.0, width, height]]), np.zeros(1), np.zeros(1, dtype=np.intp)
    return Proposals(clipped[order[:top]], values[order[:top]])


def rank_boxes(boxes: geometry.Boxes, scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the indices of distinct boxes with an area, highest score first; ties go to the earlier row."""
    order = np.argsort(-scores, kind="stable")
    order = order[geometry.area(boxes[order]) > 0]
    return order[np.sort(np.unique(boxes[order], axis=0, return_index=True)[1])]
