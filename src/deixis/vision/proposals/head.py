"""Proposals from the encoder's own map: a small class-agnostic head, one pass for all boxes of a photo.

At every cell of the map stand a few anchors, boxes of fixed shapes. For each the head says how well the box it makes of
the anchor will cover something (the IoU to expect), and how to move and stretch the anchor to get there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from deixis import geometry
from deixis.errors import DeixisError
from deixis.files.hashes import hash_of_file
from deixis.vision.features import FeatureMap
from deixis.vision.proposals.proposer import Proposals, fingerprint_of
from deixis.vision.proposals.ranking import best_boxes
from deixis.vision.weights import load_weights, save_weights

SHIPPED = Path(__file__).parents[1] / "models" / "proposals.safetensors"
# Boxes that overlap more than this stand for one; chosen on dev (benchmarks/proposals.py).
_SAME = 0.55
# Stretching is learned as a logarithm; beyond e² an anchor of another shape is nearer anyway.
_MOST_STRETCH = 2.0


@dataclass(frozen=True)
class HeadShape:
    """Sizes of the head.

    Attributes
    ----------
    channels
        Of the encoder's map.
    width
        Of the hidden layer.
    anchors
        Width and height of each anchor as fractions of the photo's.
    """

    channels: int
    width: int
    anchors: tuple[tuple[float, float], ...]


class ProposalHead(nn.Module):
    """Maps (b, channels, rows, columns) to logits (b, n) and boxes (b, n, 4) as fractions of the photo.

    Examples
    --------
    >>> head = ProposalHead(HeadShape(channels=8, width=16, anchors=((0.5, 0.5), (0.2, 0.4))))
    >>> logits, boxes = head(torch.zeros(1, 8, 4, 4))
    >>> boxes.shape
    torch.Size([1, 32, 4])
    """

    def __init__(self, shape: HeadShape) -> None:
        super().__init__()
        self.shape = shape
        self.seen = nn.Conv2d(shape.channels, shape.width, 3, padding=1)
        self.mixed = nn.Conv2d(shape.width, shape.width, 1)
        self.said = nn.Conv2d(shape.width, 5 * len(shape.anchors), 1)
        nn.init.zeros_(self.said.weight)
        # Most anchors hold nothing: begin near there, or the first steps teach only that.
        start = torch.zeros(len(shape.anchors), 5)
        start[:, 0] = -3.0
        self.said.bias = nn.Parameter(start.flatten())

    def forward(self, cells: Tensor) -> tuple[Tensor, Tensor]:
        rows, columns = cells.shape[2:]
        hidden = functional.gelu(self.mixed(functional.gelu(self.seen(cells))))
        said = self.said(hidden).unflatten(1, (-1, 5)).permute(0, 3, 4, 1, 2).flatten(1, 3).float()
        return said[..., 0], moved(anchor_boxes(self.shape, rows, columns).to(said.device), said[..., 1:])


def anchor_boxes(shape: HeadShape, rows: int, columns: int) -> Tensor:
    """Every anchor of a map as centre and size (rows · columns · anchors, 4), fractions of the photo."""
    y, x = torch.meshgrid((torch.arange(rows) + 0.5) / rows, (torch.arange(columns) + 0.5) / columns, indexing="ij")
    centres = torch.stack([x, y], dim=-1)[:, :, None, :].expand(-1, -1, len(shape.anchors), -1)
    sizes = torch.tensor(shape.anchors).expand(rows, columns, -1, -1)
    return torch.cat([centres, sizes], dim=-1).flatten(0, 2)


def moved(anchors: Tensor, said: Tensor) -> Tensor:
    """Anchors (n, 4), moved and stretched as the head says (…, n, 4), as corners within the photo."""
    centres = anchors[:, :2] + said[..., :2] * anchors[:, 2:]
    halves = anchors[:, 2:] * said[..., 2:].clamp(-_MOST_STRETCH, _MOST_STRETCH).exp() / 2
    return torch.cat([centres - halves, centres + halves], dim=-1).clamp(0, 1)


class HeadProposer:
    """The head as a proposer: it reads the map, never the pixels, so it costs next to nothing beyond the encoder."""

    name = "head"

    def __init__(self, network: ProposalHead, weights: str) -> None:
        """Take a head and a hash of its weights."""
        self.network = network.eval()
        self.fingerprint = fingerprint_of(self.name, {"weights": weights, "same": _SAME})

    def propose(self, photo: Image.Image, features: FeatureMap, top: int) -> Proposals:
        """The boxes with the highest expected IoU, those that say the same left out."""
        wanted, got = self.network.shape.channels, len(features.cells)
        if got != wanted:
            raise DeixisError(
                f"the proposals of head read the maps of the encoder deixis ({wanted} channels); these have {got}"
            )
        with torch.inference_mode():
            logits, fractions = self.network(torch.from_numpy(features.cells)[None])
        width, height = features.size
        boxes = fractions[0].double().numpy() * np.array([width, height, width, height])
        scores = logits[0].sigmoid().double().numpy()
        kept = geometry.nms(boxes, scores, _SAME, most=top)
        return best_boxes(boxes[kept], scores[kept], features.size, top)


def save_head(path: str | PathLike[str], network: ProposalHead, about: Mapping[str, object] | None = None) -> None:
    """Write a head for `open_head`; what else should stand in the file is told as to `save_weights`."""
    save_weights(path, network, asdict(network.shape), about)


def open_head(path: Path = SHIPPED) -> HeadProposer:
    """Read a head that was trained for an encoder's map; without a path, the one that comes with deixis.

    Examples
    --------
    >>> import tempfile
    >>> network = ProposalHead(HeadShape(channels=8, width=16, anchors=((0.5, 0.5),)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_head(f"{folder}/a.safetensors", network)
    ...     open_head(Path(folder) / "a.safetensors").network.shape.anchors
    ((0.5, 0.5),)
    """
    if not path.is_file():
        raise DeixisError(f"{path}: no such file" if path != SHIPPED else f"{path}: missing; reinstall deixis")
    network, _ = load_weights(path, "proposal head", lambda config: ProposalHead(_shape(config)))
    return HeadProposer(network, hash_of_file(path))


def _shape(stated: dict[str, Any]) -> HeadShape:
    anchors = tuple((float(width), float(height)) for width, height in stated["anchors"])
    return HeadShape(int(stated["channels"]), int(stated["width"]), anchors)
