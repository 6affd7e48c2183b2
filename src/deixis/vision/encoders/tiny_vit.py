"""TinyViT-5M (Wu et al., ECCV 2022) as an image encoder, with a map in the space of another encoder.

Batch norms are folded into the convolutions. The names of layers are those in the saved weights.
"""

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
class TinyViTShape:
    """Shape of a TinyViT; the defaults are TinyViT-5M. `output` are the channels of the map."""

    widths: tuple[int, ...] = (64, 128, 160, 320)
    depths: tuple[int, ...] = (2, 2, 6, 2)
    heads: tuple[int, ...] = (0, 4, 5, 10)
    windows: tuple[int, ...] = (0, 7, 14, 7)
    output: int = 384


class TinyViT(EncoderNetwork):
    """Maps normalized pixels (b, 3, height, width) to cells (b, output, height / 16, width / 16).

    Sides are multiples of 224, so that the windows of attention fit.
    """

    ARCHITECTURE = "tiny-vit"
    multiple = 224

    def __init__(self, shape: TinyViTShape, drop_path: float = 0.0) -> None:
        super().__init__()
        self.shape: TinyViTShape = shape
        self.channels = shape.output
        widths = shape.widths
        self.first = nn.Conv2d(3, widths[0] // 2, 3, 2, 1)
        self.second = nn.Conv2d(widths[0] // 2, widths[0], 3, 2, 1)
        total, done = sum(shape.depths), shape.depths[0]
        self.convolutions = nn.ModuleList(
            InvertedBottleneck(widths[0], drop_path * index / total) for index in range(shape.depths[0])
        )
        self.stages = nn.ModuleList()
        for stage in (1, 2, 3):
            width, heads, window = widths[stage], shape.heads[stage], shape.windows[stage]
            rates = [drop_path * (done + index) / total for index in range(shape.depths[stage])]
            blocks = nn.ModuleList(Block(width, heads, window, rate) for rate in rates)
            self.stages.append(nn.ModuleDict({"merge": Merge(widths[stage - 1], width), "blocks": blocks}))
            done += shape.depths[stage]
        self.fine_norm = nn.LayerNorm(widths[2], eps=1e-5)
        self.coarse_norm = nn.LayerNorm(widths[3], eps=1e-5)
        self.fine = nn.Conv2d(widths[2], shape.output, 1)
        self.coarse = nn.Conv2d(widths[3], shape.output, 1)
        self.mixed = nn.Conv2d(shape.output, shape.output, 3, padding=1, groups=shape.output)
        self.last = nn.Conv2d(shape.output, shape.output, 1)

    @classmethod
    def from_shape(cls, shape: Mapping[str, Any], arrays: int) -> Self:
        lists = {name: tuple(map(int, sizes)) for name, sizes in shape.items() if name != "output"}
        sizes = TinyViTShape(**lists, output=int(shape["output"]))
        if sum(sizes.depths) > arrays:
            raise ValueError(f"{sum(sizes.depths)} blocks, but only {arrays} arrays")
        return cls(sizes)

    def forward(self, pixels: Tensor) -> Tensor:
        _, fine, coarse = self.maps(pixels)
        fine = self.fine(self.fine_norm(fine.movedim(1, 3)).movedim(3, 1))
        coarse = self.coarse(self.coarse_norm(coarse.movedim(1, 3)).movedim(3, 1))
        joined = fine + functional.interpolate(coarse, scale_factor=2.0, mode="bilinear", align_corners=False)
        cells: Tensor = joined + self.last(functional.gelu(self.mixed(joined)))
        return cells

    def maps(self, pixels: Tensor) -> list[Tensor]:
        """Return the maps of the three stages with attention."""
        cells = self.second(functional.gelu(self.first(pixels)))
        for block in self.convolutions:
            cells = block(cells)
        found = []
        for stage in self.stages:
            cells = stage["merge"](cells)  # type: ignore[index]
            for block in stage["blocks"]:  # type: ignore[index]
                cells = block(cells)
            found.append(cells)
        return found


class InvertedBottleneck(nn.Module):
    """A wide depthwise convolution between two pointwise ones, with a shortcut."""

    def __init__(self, width: int, drop_path: float) -> None:
        super().__init__()
        self.drop_path = drop_path
        self.wider = nn.Conv2d(width, 4 * width, 1)
        self.depthwise = nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width)
        self.narrower = nn.Conv2d(4 * width, width, 1)

    def forward(self, cells: Tensor) -> Tensor:
        inner = functional.gelu(self.depthwise(functional.gelu(self.wider(cells))))
        return functional.gelu(cells + drop_path(self.narrower(inner), self.drop_path, self.training))


class Merge(nn.Module):
    """Halves the resolution."""

    def __init__(self, width: int, output: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, output, 1)
        self.depthwise = nn.Conv2d(output, output, 3, 2, 1, groups=output)
        self.second = nn.Conv2d(output, output, 1)

    def forward(self, cells: Tensor) -> Tensor:
        merged: Tensor = self.second(functional.gelu(self.depthwise(functional.gelu(self.first(cells)))))
        return merged


class Block(nn.Module):
    """Attention in windows, a depthwise convolution, and an MLP."""

    def __init__(self, width: int, heads: int, window: int, drop_path: float) -> None:
        super().__init__()
        self.width, self.heads, self.window, self.drop_path = width, heads, window, drop_path
        self.norm_1 = nn.LayerNorm(width, eps=1e-5)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.biases = nn.Parameter(torch.zeros(heads, window * window))
        self.local = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm_2 = nn.LayerNorm(width, eps=1e-5)
        self.wider = nn.Linear(width, 4 * width)
        self.narrower = nn.Linear(4 * width, width)

    def forward(self, cells: Tensor) -> Tensor:
        rows, columns = cells.shape[2] // self.window, cells.shape[3] // self.window
        windows = torch.unflatten(torch.unflatten(cells, 2, (rows, self.window)), 4, (columns, self.window))
        windows = windows.permute(0, 2, 4, 3, 5, 1).flatten(3, 4).flatten(0, 2)
        seen = self._attention(self.norm_1(windows))
        seen = torch.unflatten(torch.unflatten(seen, 0, (-1, rows, columns)), 3, (self.window, self.window))
        cells = cells + drop_path(
            seen.permute(0, 5, 1, 3, 2, 4).flatten(2, 3).flatten(3, 4), self.drop_path, self.training
        )
        cells = self.local(cells)
        tokens = cells.movedim(1, 3)
        inner = functional.gelu(self.wider(self.norm_2(tokens)))
        return cells + drop_path(self.narrower(inner).movedim(3, 1), self.drop_path, self.training)

    def _attention(self, tokens: Tensor) -> Tensor:
        query, key, value = self.query_key_value(tokens).split(self.width, dim=2)
        bias = self.biases[:, offsets(self.window).to(self.biases.device)][None]
        attended: Tensor = self.attended(attention(query, key, value, self.heads, bias.to(query.dtype)))
        return attended


def offsets(window: int) -> Tensor:
    """Return the index of the bias for each pair of cells of a window: by their absolute distances."""
    places = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"), -1).flatten(0, 1)
    distance = (places[:, None] - places[None]).abs()
    return distance[..., 0] * window + distance[..., 1]
