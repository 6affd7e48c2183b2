"""Proposals from the feature map of the encoder: a small class-agnostic head with anchors.

Each cell of the map has anchors of several shapes. For each anchor, the head predicts the offset and scale of a box and
its expected IoU with an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from deixis import geometry
from deixis.arrays import logistic
from deixis.errors import DeixisError
from deixis.runtime import Functions
from deixis.storage.artifacts import damaged, read_artifact, write_artifact
from deixis.vision.encoder import FeatureMap
from deixis.vision.proposals import Proposals, best_boxes, compute_fingerprint

if TYPE_CHECKING:
    from deixis.vision.proposals.head_network import ProposalHead

SHIPPED = Path(__file__).parents[1] / "models" / "head"
KIND = "proposal-head"

# IoU threshold of non-maximum suppression; chosen on dev (benchmarks/proposals.py).
_NMS_IOU = 0.55


@dataclass(frozen=True)
class HeadShape:
    """Channels of the feature map, hidden size, and width and height of each anchor as fractions of the photo."""

    channels: int
    width: int
    anchors: tuple[tuple[float, float], ...]


class HeadProposer:
    """Proposes boxes from the feature map alone, so it adds little time to the encoder."""

    name = "head"

    def __init__(self, functions: Functions, shape: HeadShape, weights: str) -> None:
        self.functions = functions
        self.shape = shape
        self.fingerprint = compute_fingerprint(self.name, {"weights": weights, "same": _NMS_IOU})

    def propose(self, photo: Image.Image, features: FeatureMap, top: int) -> Proposals:
        expected, found = self.shape.channels, len(features.cells)
        if found != expected:
            raise DeixisError(
                f"the proposer head requires maps of the encoder deixis ({expected} channels), not of {found} channels"
            )
        logits, fractions = self.functions("propose", features.cells[None])
        width, height = features.size
        boxes = fractions[0].astype(np.float64) * np.array([width, height, width, height])
        scores = logistic(logits[0].astype(np.float64))
        kept = geometry.nms(boxes, scores, _NMS_IOU, max_boxes=top)
        return best_boxes(boxes[kept], scores[kept], features.size, top)


def save_head(
    folder: str | PathLike[str], network: ProposalHead, provenance: Mapping[str, object] | None = None
) -> None:
    """Write a head in half precision for `open_head`, with optional training data and scores as JSON."""
    artifact = Functions(network).to_artifact(KIND, asdict(network.shape))
    write_artifact(folder, replace(artifact, provenance=dict(provenance or {})), half=True)


def open_head(folder: Path = SHIPPED) -> HeadProposer:
    """Load a proposal head; by default that of the package."""
    artifact = read_artifact(folder, KIND, mapped=True, keep_half=True)
    with damaged(folder):
        settings = artifact.settings
        anchors = tuple((float(width), float(height)) for width, height in settings["anchors"])
        shape = HeadShape(int(settings["channels"]), int(settings["width"]), anchors)
        functions = Functions(artifact=artifact, make_module=lambda: _make_network(shape))
        return HeadProposer(functions, shape, artifact.weights_hash)


def _make_network(shape: HeadShape) -> ProposalHead:
    from deixis.vision.proposals.head_network import ProposalHead

    return ProposalHead(shape)
