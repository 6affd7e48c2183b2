"""A torch module as a `Network`: bytes go to the device, are scaled there, and float32 arrays come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.vision.encoder import Pixels
from deixis.vision.encoders.opened import PixelScale

Maps = Callable[[Tensor], tuple[Tensor, Tensor | None]]
"""Scaled pixels (b, 3, height, width) to cells (b, channels, rows, columns), whole vectors (b, dimension) or None."""


def choose_device(device: str | None) -> torch.device:
    """The device asked for; without one, the GPU where there is one.

    Examples
    --------
    >>> choose_device("cpu")
    device(type='cpu')
    """
    try:
        chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError:
        raise DeixisError(f"no such device: {device}; try cpu or cuda") from None
    try:
        # Only a number that went there and came back tells: torch has names for devices that are not here.
        torch.zeros(1, device=chosen).cpu()
    except (RuntimeError, AssertionError, ImportError):
        raise DeixisError(f"no such device here: {chosen}; try cpu") from None
    return chosen


class TorchNetwork:
    """Runs a module without gradients.

    Parameters
    ----------
    module
        Moved to the device and set to evaluation.
    maps
        What to call, usually a method of the module.
    scale
        What the module wants its pixels to be.
    channels_last
        Lay numbers out colour by colour within a pixel, which makes convolutions faster on a CPU.
    """

    def __init__(
        self, module: nn.Module, maps: Maps, scale: PixelScale, device: str | None, channels_last: bool = False
    ) -> None:
        self.device = choose_device(device)
        self.layout = torch.channels_last if channels_last else torch.contiguous_format
        module.requires_grad_(False).eval()
        # torch's types do not say that `to` takes a layout on its own.
        cast("Callable[..., nn.Module]", module.to)(device=self.device, memory_format=self.layout)
        self.module = module
        self.maps = maps
        self.mean = torch.tensor(scale.mean, device=self.device).mul(255).reshape(3, 1, 1)
        self.deviation = torch.tensor(scale.deviation, device=self.device).mul(255).reshape(3, 1, 1)

    def __call__(self, pixels: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Encode one batch."""
        with torch.inference_mode():
            on_device = torch.from_numpy(np.ascontiguousarray(pixels)).to(self.device).permute(0, 3, 1, 2)
            scaled = (on_device.float() - self.mean) / self.deviation
            cells, whole = self.maps(scaled.contiguous(memory_format=self.layout))
            if whole is None:
                whole = cells.mean(dim=(2, 3))
            return _array(cells), _array(whole)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.float().contiguous().cpu().numpy()
    return array
