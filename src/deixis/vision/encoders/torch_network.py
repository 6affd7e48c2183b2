"""Torch modules as encoders: those of libraries as a `Network`, and the base of those that deixis saves."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from deixis.runtime import Array, Function
from deixis.runtime.devices import choose_device
from deixis.vision.encoder import Pixels
from deixis.vision.encoders.base import IMAGENET, PixelScale


def hash_weights(weights: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of weights with their names and shapes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        # Via uint8, because numpy has no bfloat16.
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


Maps = Callable[[Tensor], tuple[Tensor, Tensor | None]]
"""Maps normalized pixels (b, 3, height, width) to cells (b, channels, rows, columns) and global vectors or None."""


def normalize_pixels(pixels: Tensor, scale: PixelScale) -> Tensor:
    """Normalize pixels (b, height, width, 3), from 0 to 255: (b, 3, height, width)."""
    mean, deviation = (
        torch.tensor(each, device=pixels.device).mul(255).reshape(3, 1, 1) for each in (scale.mean, scale.deviation)
    )
    return (pixels.permute(0, 3, 1, 2).float() - mean) / deviation


class EncoderNetwork(nn.Module, ABC):
    """Base of encoders that are saved as artifacts (`deixis.vision.encoders.saved`).

    `forward` maps normalized pixels (b, 3, height, width) to cells (b, channels, rows, columns). The global vector of
    a photo is the mean of its cells.
    """

    ARCHITECTURE: ClassVar[str]
    """Name in the settings of the artifact."""

    shape: Any
    """Constructor argument: a dataclass that can be written as JSON."""

    channels: int
    """Size of the vector of a cell."""

    multiple: int
    """The sides of a photo must be multiples of this number of pixels."""

    scale: PixelScale = IMAGENET
    """Normalization of pixels."""

    @classmethod
    @abstractmethod
    def from_shape(cls, shape: Mapping[str, Any], arrays: int) -> Self:
        """Make a network from its shape as JSON.

        Raises `ValueError` if it has more layers than the artifact has arrays: a hostile file may state billions.
        """

    def encode(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Map pixels (b, height, width, 3), from 0 to 255, to cells and global vectors."""
        cells: Tensor = self(normalize_pixels(pixels, self.scale))
        return cells, cells.mean(dim=(2, 3))

    def functions(self) -> list[Function]:
        """Inference functions."""
        cells, whole = Array("photos", self.channels, "rows", "columns"), Array("photos", self.channels)
        pixels = Array("photos", "height", "width", 3, dtype="uint8")
        sizes = {"photos": 2, "height": 9 * self.multiple, "width": 8 * self.multiple}
        return [Function("encode", {"pixels": pixels}, {"cells": cells, "whole": whole}, sizes)]


def drop_path(change: Tensor, rate: float, training: bool) -> Tensor:
    """Return the change of a block, left out for some photos during training."""
    if not training or rate == 0:
        return change
    kept = torch.rand(len(change), *([1] * (change.dim() - 1)), device=change.device) < 1 - rate
    return change * kept.to(change.dtype) / (1 - rate)


class TorchNetwork:
    """A torch module as a `Network`, without gradients.

    The module is moved to the device and set to evaluation mode; `maps` calls it. The channels-last memory layout makes
    convolutions faster on a CPU.
    """

    def __init__(
        self, module: nn.Module, maps: Maps, scale: PixelScale, device: str | None, channels_last: bool = False
    ) -> None:
        self.device = torch.device(choose_device(device))
        layout = torch.channels_last if channels_last else torch.contiguous_format
        module.requires_grad_(False).eval()
        # The type stubs of torch lack this overload of `to`.
        cast("Callable[..., nn.Module]", module.to)(device=self.device, memory_format=layout)
        self.module = module
        self.maps = maps
        self.scale = scale
        self.layout = layout

    def __call__(self, pixels: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        with torch.inference_mode():
            on_device = torch.from_numpy(np.ascontiguousarray(pixels)).to(self.device)
            cells, whole = self.maps(normalize_pixels(on_device, self.scale).contiguous(memory_format=self.layout))
            return _array(cells), _array(cells.mean(dim=(2, 3)) if whole is None else whole)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.float().contiguous().cpu().numpy()
    return array
