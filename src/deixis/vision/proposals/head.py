"""Proposals from the feature map of the encoder: a small class-agnostic head with anchors.

Each cell of the map has anchors of several shapes. For each anchor, the head predicts the offset and scale of a box and
its expected IoU with an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from deixis import geometry
from deixis.errors import DeixisError
from deixis.storage.artifacts import WEIGHTS, Artifact, damaged, read_artifact, write_artifact
from deixis.storage.files import hash_file
from deixis.storage.networks import set_weights, weights_of, without_weights
from deixis.vision.feature_map import FeatureMap
from deixis.vision.proposals import Proposals, best_boxes, compute_fingerprint

SHIPPED = Path(__file__).parents[1] / "models" / "head"
KIND = "proposal-head"

# IoU threshold of non-maximum suppression; chosen on dev (benchmarks/proposals.py).
_NMS_IOU = 0.55
# Maximum log scale; beyond it, an anchor of another shape fits better.
_MAX_LOG_SCALE = 2.0


@dataclass(frozen=True)
class HeadShape:
    """Channels of the feature map, hidden size, and width and height of each anchor as fractions of the photo."""

    channels: int
    width: int
    anchors: tuple[tuple[float, float], ...]


class ProposalHead(nn.Module):
    """Maps features (b, channels, rows, columns) to logits (b, n) and boxes (b, n, 4) as fractions.

    The names of layers are those in the saved weights.
    """

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.shape = shape
        self.seen = nn.Conv2d(shape.channels, shape.width, 3, padding=1)
        self.mixed = nn.Conv2d(shape.width, shape.width, 1)
        self.said = nn.Conv2d(shape.width, 5 * len(shape.anchors), 1)
        nn.init.zeros_(self.said.weight)
        # Most anchors are negative: start with low logits.
        start = torch.zeros(len(shape.anchors), 5)
        start[:, 0] = -3.0
        self.said.bias = nn.Parameter(start.flatten())

    def forward(self, cells: Tensor) -> tuple[Tensor, Tensor]:
        rows, columns = cells.shape[2:]
        hidden = functional.gelu(self.mixed(functional.gelu(self.seen(cells))))
        outputs = self.said(hidden).unflatten(1, (-1, 5)).permute(0, 3, 4, 1, 2).flatten(1, 3).float()
        return outputs[..., 0], decode_boxes(
            anchor_boxes(self.shape, rows, columns).to(outputs.device), outputs[..., 1:]
        )


def anchor_boxes(shape: HeadShape, rows: int, columns: int) -> Tensor:
    """Return centre and size of all anchors of a map: (rows · columns · anchors, 4), as fractions."""
    y, x = torch.meshgrid((torch.arange(rows) + 0.5) / rows, (torch.arange(columns) + 0.5) / columns, indexing="ij")
    centres = torch.stack([x, y], dim=-1)[:, :, None, :].expand(-1, -1, len(shape.anchors), -1)
    sizes = torch.tensor(shape.anchors).expand(rows, columns, -1, -1)
    return torch.cat([centres, sizes], dim=-1).flatten(0, 2)


def decode_boxes(anchors: Tensor, deltas: Tensor) -> Tensor:
    """Apply offsets and log scales (…, n, 4) to anchors (n, 4); return corners inside the photo."""
    centres = anchors[:, :2] + deltas[..., :2] * anchors[:, 2:]
    halves = anchors[:, 2:] * deltas[..., 2:].clamp(-_MAX_LOG_SCALE, _MAX_LOG_SCALE).exp() / 2
    return torch.cat([centres - halves, centres + halves], dim=-1).clamp(0, 1)


class HeadProposer:
    """Proposes boxes from the feature map alone, so it adds little time to the encoder."""

    name = "head"

    def __init__(self, network: ProposalHead, weights: str) -> None:
        self.network = network.eval()
        self.fingerprint = compute_fingerprint(self.name, {"weights": weights, "same": _NMS_IOU})

    def propose(self, photo: Image.Image, features: FeatureMap, top: int) -> Proposals:
        expected, found = self.network.shape.channels, len(features.cells)
        if found != expected:
            raise DeixisError(
                f"the proposer head requires maps of the encoder deixis ({expected} channels), not of {found} channels"
            )
        with torch.inference_mode():
            logits, fractions = self.network(torch.from_numpy(features.cells)[None])
        width, height = features.size
        boxes = fractions[0].double().numpy() * np.array([width, height, width, height])
        scores = logits[0].sigmoid().double().numpy()
        kept = geometry.nms(boxes, scores, _NMS_IOU, max_boxes=top)
        return best_boxes(boxes[kept], scores[kept], features.size, top)


def save_head(
    folder: str | PathLike[str], network: ProposalHead, provenance: Mapping[str, object] | None = None
) -> None:
    """Write a head in half precision for `open_head`, with optional training data and scores as JSON."""
    artifact = Artifact(KIND, asdict(network.shape), weights_of(network), provenance=dict(provenance or {}))
    write_artifact(folder, artifact, half=True)


def open_head(folder: Path = SHIPPED) -> HeadProposer:
    """Load a proposal head; by default that of the package."""
    artifact = read_artifact(folder, KIND, mapped=True, keep_half=True)
    with damaged(folder):
        settings = artifact.settings
        anchors = tuple((float(width), float(height)) for width, height in settings["anchors"])
        with without_weights():
            network = ProposalHead(HeadShape(int(settings["channels"]), int(settings["width"]), anchors))
        set_weights(network, artifact.arrays)
        return HeadProposer(network, hash_file(folder / WEIGHTS))
