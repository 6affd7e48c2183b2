"""The encoder of deixis: a vision transformer with the architecture of DINOv2 small, saved in half precision.

The settings of the artifact are the shape of the network, its input size and the normalization of pixels. The names of
layers are those in the weights files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from deixis.storage.artifacts import WEIGHTS, Artifact, damaged, read_artifact, write_artifact
from deixis.storage.files import hash_file
from deixis.storage.networks import set_weights, weights_of, without_weights
from deixis.vision.encoder import InputSize
from deixis.vision.encoders.base import LoadedNetwork, PixelScale, TorchNetwork, check_side
from deixis.vision.encoders.names import EncoderName, Options

SHIPPED = Path(__file__).parent.parent / "models" / "encoder"
KIND = "encoder"


def defaults(architecture: str) -> Options:
    return Options(side=0, aspect="squeeze")


def open_network(name: EncoderName, options: Options, device: str | None) -> LoadedNetwork:
    folder = Path(name.argument) if name.argument else SHIPPED
    module, own_side, scale = load_network(folder)
    side, patch = options.side or own_side, module.shape.patch
    check_side(name.architecture, side, patch)
    network = TorchNetwork(module, lambda pixels: (module(pixels), None), scale, device)
    return LoadedNetwork(network, InputSize(side, options.keep_aspect, patch), scale, hash_file(folder / WEIGHTS))


def save_network(
    folder: str | PathLike[str],
    network: VisionTransformer,
    side: int,
    scale: PixelScale,
    provenance: Mapping[str, object] | None = None,
) -> None:
    """Write a network in half precision for ``open_encoder("deixis:FOLDER")``.

    `side` is the input size in pixels; the provenance is training data, settings and scores, as JSON.
    """
    settings = {"shape": asdict(network.shape), "side": side, **asdict(scale)}
    write_artifact(folder, Artifact(KIND, settings, weights_of(network), provenance=dict(provenance or {})), half=True)


def load_network(folder: Path) -> tuple[VisionTransformer, int, PixelScale]:
    """Return the network in single precision, its input size and the normalization of pixels."""
    artifact = read_artifact(folder, KIND, mapped=True, keep_half=True)
    with damaged(folder):
        settings = artifact.settings
        shape = ViTShape(**{key: int(value) for key, value in settings["shape"].items()})
        if shape.blocks > len(artifact.arrays):  # a hostile file may state billions, and each takes time to build
            raise ValueError(f"{shape.blocks} blocks, but only {len(artifact.arrays)} arrays")
        with without_weights():
            network = VisionTransformer(shape)
        set_weights(network, artifact.arrays)
        return network, int(settings["side"]), PixelScale(_three(settings["mean"]), _three(settings["deviation"]))


def _three(numbers: Any) -> tuple[float, float, float]:
    red, green, blue = (float(number) for number in numbers)
    return red, green, blue


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
