"""A vision transformer that gives a map: the network of DINOv2's small model, read top to bottom."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class ViTShape:
    """The sizes of a vision transformer; the defaults are ViT-S/14."""

    width: int = 384
    heads: int = 6
    blocks: int = 12
    patch: int = 14
    grid: int = 16
    """Cells along each side of the learned positions; other sizes are interpolated."""


class VisionTransformer(nn.Module):
    """Pixels (b, 3, height, width), normalised, to one token a patch: (b, width, height / patch, width / patch).

    `drop_path` is the chance, growing from 0 at the first block, that a block is skipped for a photo while training.

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
        chances = [drop_path * index / shape.blocks for index in range(shape.blocks)]
        self.blocks = nn.ModuleList(Block(shape.width, shape.heads, chance) for chance in chances)
        self.norm = nn.LayerNorm(shape.width, eps=1e-6)

    def forward(self, pixels: Tensor) -> Tensor:
        """The map of the last block, normalised."""
        last = self.maps(pixels, [self.shape.blocks])[0]
        normalised: Tensor = self.norm(last.movedim(1, 3)).movedim(3, 1)
        return normalised

    def maps(self, pixels: Tensor, blocks: list[int]) -> list[Tensor]:
        """The maps after the given blocks, counted from 1, as the blocks leave them."""
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
    """Attention, then a perceptron, each with a norm before it and a learned scale per channel behind it."""

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
        """0 for the photos that skip this block, and a little more than 1 for the others."""
        if not self.training or self.drop_path == 0:
            return 1.0
        keep = 1 - self.drop_path
        return (torch.rand(len(tokens), 1, 1, device=tokens.device) < keep).to(tokens.dtype) / keep
