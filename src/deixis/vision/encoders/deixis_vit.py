"""A vision transformer with the architecture of DINOv2 small. The names of layers are those in the weights files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from deixis.runtime.modules import attention
from deixis.vision.encoders.torch_network import EncoderNetwork, drop_path


@dataclass(frozen=True)
class ViTShape:
    """Shape of a vision transformer. The defaults are ViT-S/14."""

    width: int = 384
    heads: int = 6
    blocks: int = 12
    patch: int = 14
    grid: int = 16
    """Side of the grid of learned position embeddings, which are interpolated for other sizes."""


class VisionTransformer(EncoderNetwork):
    """Maps normalized pixels (b, 3, height, width) to cells (b, width, height / patch, width / patch).

    `drop_path` is the maximum drop path rate; it grows linearly from 0 at the first block.
    """

    ARCHITECTURE = "vit"

    def __init__(self, shape: ViTShape, drop_path: float = 0.0) -> None:
        super().__init__()
        self.shape: ViTShape = shape
        self.channels, self.multiple = shape.width, shape.patch
        self.patches = nn.Conv2d(3, shape.width, shape.patch, shape.patch)
        self.first_token = nn.Parameter(torch.zeros(1, 1, shape.width))
        self.positions = nn.Parameter(torch.zeros(1, shape.width, shape.grid, shape.grid))
        rates = [drop_path * index / shape.blocks for index in range(shape.blocks)]
        self.blocks = nn.ModuleList(Block(shape.width, shape.heads, rate) for rate in rates)
        self.norm = nn.LayerNorm(shape.width, eps=1e-6)

    @classmethod
    def from_shape(cls, shape: Mapping[str, Any], arrays: int) -> Self:
        sizes = ViTShape(**{name: int(size) for name, size in shape.items()})
        if sizes.blocks > arrays:
            raise ValueError(f"{sizes.blocks} blocks, but only {arrays} arrays")
        return cls(sizes)

    def forward(self, pixels: Tensor) -> Tensor:
        embedded = self.patches(pixels)
        rows, columns = embedded.shape[2:]
        embedded = embedded + self._positions_for(rows, columns)
        first = self.first_token.expand(pixels.shape[0], -1, -1)
        tokens = torch.cat([first, embedded.flatten(2).transpose(1, 2)], dim=1)
        for block in self.blocks:
            tokens = block(tokens)
        cells: Tensor = self.norm(tokens[:, 1:]).transpose(1, 2).unflatten(2, (rows, columns))
        return cells

    def _positions_for(self, rows: int, columns: int) -> Tensor:
        if not torch.onnx.is_in_onnx_export() and (rows, columns) == (self.shape.grid, self.shape.grid):
            return self.positions
        return functional.interpolate(self.positions, (rows, columns), mode="bicubic", align_corners=False)


class Block(nn.Module):
    """Pre-norm attention and MLP, each with layer scale."""

    def __init__(self, width: int, heads: int, drop_path: float) -> None:
        super().__init__()
        self.width = width
        self.heads = heads
        self.drop_path = drop_path
        self.norm_1 = nn.LayerNorm(width, eps=1e-6)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.scale_1 = nn.Parameter(torch.ones(width))
        self.norm_2 = nn.LayerNorm(width, eps=1e-6)
        self.wider = nn.Linear(width, 4 * width)
        self.narrower = nn.Linear(4 * width, width)
        self.scale_2 = nn.Parameter(torch.ones(width))

    def forward(self, tokens: Tensor) -> Tensor:
        attended = self.scale_1 * self._attention(self.norm_1(tokens))
        tokens = tokens + drop_path(attended, self.drop_path, self.training)
        inner = self.scale_2 * self.narrower(functional.gelu(self.wider(self.norm_2(tokens))))
        return tokens + drop_path(inner, self.drop_path, self.training)

    def _attention(self, tokens: Tensor) -> Tensor:
        query, key, value = self.query_key_value(tokens).split(self.width, dim=2)
        attended: Tensor = self.attended(attention(query, key, value, self.heads))
        return attended
