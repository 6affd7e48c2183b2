"""Vision transformer with feature maps: the architecture of DINOv2 small.

The names of layers are those in the weights files.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class ViTShape:
    """Shape of a vision transformer. The defaults are ViT-S/14."""

    width: int = 384
    heads: int = 6
    blocks: int = 12
    patch: int = 14
    grid: int = 16
    """Side of the grid of learned position embeddings, which are interpolated for other sizes."""


class VisionTransformer(nn.Module):
    """Maps normalized pixels (b, 3, height, width) to tokens (b, width, height / patch, width / patch).

    `drop_path` is the maximum drop path rate; it grows linearly from 0 at the first block.

    Examples
    --------
    >>> network = VisionTransformer(ViTShape(width=32, heads=2, blocks=2, grid=4)).eval()
    >>> network(torch.zeros(1, 3, 28, 56)).shape
    torch.Size([1, 32, 2, 4])
    """

    def __init__(self, shape: ViTShape, drop_path: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        self.patches = nn.Conv2d(3, shape.width, shape.patch, shape.patch)
        self.first_token = nn.Parameter(torch.zeros(1, 1, shape.width))
        self.positions = nn.Parameter(torch.zeros(1, shape.width, shape.grid, shape.grid))
        rates = [drop_path * index / shape.blocks for index in range(shape.blocks)]
        self.blocks = nn.ModuleList(Block(shape.width, shape.heads, rate) for rate in rates)
        self.norm = nn.LayerNorm(shape.width, eps=1e-6)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the normalized map of the last block."""
        last = self.maps(pixels, [self.shape.blocks])[0]
        normalized: Tensor = self.norm(last.movedim(1, 3)).movedim(3, 1)
        return normalized

    def maps(self, pixels: Tensor, blocks: list[int]) -> list[Tensor]:
        """Return the maps after the given blocks, from 1, without normalization."""
        embedded = self.patches(pixels)
        rows, columns = embedded.shape[2:]
        embedded = embedded + self._positions_for(rows, columns)
        tokens = torch.cat([self.first_token.expand(len(pixels), -1, -1), embedded.flatten(2).transpose(1, 2)], dim=1)
        found = {}
        for number, block in enumerate(self.blocks, start=1):
            tokens = block(tokens)
            if number in blocks:
                found[number] = tokens[:, 1:].transpose(1, 2).unflatten(2, (rows, columns))
            if number == max(blocks):
                break
        return [found[number] for number in blocks]

    def _positions_for(self, rows: int, columns: int) -> Tensor:
        if (rows, columns) == (self.shape.grid, self.shape.grid):
            return self.positions
        return functional.interpolate(self.positions, (rows, columns), mode="bicubic", align_corners=False)


class Block(nn.Module):
    """Pre-norm attention and MLP, each with layer scale."""

    def __init__(self, width: int, heads: int, drop_path: float) -> None:
        super().__init__()
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
        tokens = tokens + self._kept(tokens) * self.scale_1 * self._attention(self.norm_1(tokens))
        inner = functional.gelu(self.wider(self.norm_2(tokens)))
        outer: Tensor = self.narrower(inner)
        return tokens + self._kept(tokens) * self.scale_2 * outer

    def _attention(self, tokens: Tensor) -> Tensor:
        projected = self.query_key_value(tokens).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = projected.unbind(0)
        joined = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        attended: Tensor = self.attended(joined)
        return attended

    def _kept(self, tokens: Tensor) -> Tensor | float:
        """Return the drop path factor: 0 for photos that skip the block, else 1 / (1 - rate)."""
        if not self.training or self.drop_path == 0:
            return 1.0
        keep = 1 - self.drop_path
        return (torch.rand(len(tokens), 1, 1, device=tokens.device) < keep).to(tokens.dtype) / keep
