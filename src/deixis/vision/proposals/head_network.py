"""The network of the proposal head."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from deixis.runtime import Array, Function
from deixis.vision.proposals.head import HeadShape

# Maximum log scale; beyond it, an anchor of another shape fits better.
_MAX_LOG_SCALE = 2.0


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

    def propose(self, cells: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits and boxes of all anchors."""
        logits, boxes = self(cells)
        return logits, boxes

    def functions(self) -> list[Function]:
        """Inference functions."""
        cells = Array("photos", self.shape.channels, "rows", "columns")
        outputs = {"logits": Array("photos", "anchors"), "boxes": Array("photos", "anchors", 4)}
        return [Function("propose", {"cells": cells}, outputs, {"rows": 5, "columns": 7})]


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
