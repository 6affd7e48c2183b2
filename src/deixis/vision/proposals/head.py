"""Proposals from the encoder's own map: a small class-agnostic head, one pass for all boxes of a photo.

At every cell of the map stand a few anchors, boxes of fixed shapes. For each the head says how well the box it makes of
the anchor will cover something (the IoU to expect), and how to move and stretch the anchor to get there.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn import functional

from deixis import geometry
from deixis.errors import DeixisError
from deixis.vision.features import FeatureMap
from deixis.vision.proposals.proposer import Proposals
from deixis.vision.proposals.ranking import best_boxes

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

    def __init__(self, network: ProposalHead, fingerprint: str) -> None:
        self.network = network.eval()
        self.fingerprint = fingerprint

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


def open_head(path: Path = SHIPPED) -> HeadProposer:
    """Read a head that was trained for an encoder's map."""
    try:
        with safe_open(path, framework="pt") as file:
            config = json.loads(file.metadata()["config"])
            weights = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118, not a dictionary
        shape = HeadShape(config["channels"], config["width"], tuple((w, h) for w, h in config["anchors"]))
        network = ProposalHead(shape)
        network.load_state_dict(weights)
    except FileNotFoundError:
        raise DeixisError(f"{path}: no such file") from None
    except (OSError, SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise DeixisError(f"{path}: not the weights of a proposal head ({error})") from error
    return HeadProposer(network, hashlib.sha256(path.read_bytes()).hexdigest()[:16])
