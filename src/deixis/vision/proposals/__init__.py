"""Region proposals: class-agnostic boxes, most likely first. `open_proposer` returns the proposer of a name.

To add a proposer, write one module with a class that has the members of `Proposer`, and add a line to `_OPENERS`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from PIL import Image

from deixis import geometry
from deixis.errors import DeixisError
from deixis.storage.artifacts import damaged
from deixis.storage.checksums import unseal
from deixis.vision.encoder import FeatureMap

CODE_VERSION = 1
"""Part of every fingerprint. Increment it when the code proposes other boxes with the same settings."""

_OPENERS = {
    "head": ("head", "open_head"),
    "edge-boxes": ("opencv", "EdgeBoxes"),
    "edge-boxes-dense": ("opencv", "DenseEdgeBoxes"),
}
PROPOSERS = (*_OPENERS, "fixed")


@dataclass(frozen=True)
class Proposals:
    """At least one box of a photo (n, 4), distinct and inside it, best first, and their scores in this photo (n,)."""

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
    if name not in PROPOSERS:
        raise DeixisError(f"no proposer {name}; choose one of {', '.join(PROPOSERS)}")
    if name == "head" and encoder is not None and encoder.partition("@")[0] not in _HEAD_ENCODERS:
        others = ", ".join(other for other in PROPOSERS if other != "head")
        raise DeixisError(f"the proposer head requires the encoder deixis, not {encoder}; use {others}")
    if name == FixedProposer.name:
        return shipped_boxes()
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


class FixedProposer:
    """The baseline that ignores the photo: boxes (n, 4) as fractions of its width and height, best first."""

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
    """Return the 200 boxes of the package, which `scripts/fixed_boxes.py` chose on the training photos of Flickr8k."""
    return FixedProposer.load(Path(__file__).with_name("fixed_boxes.json"))
