"""What encoder modules share: torch modules as a `Network`, pixel scaling, optional packages and weights hashes."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.storage.files import hash_file
from deixis.vision.encoder import InputSize, Network, Pixels


@dataclass(frozen=True)
class PixelScale:
    """Normalization of pixels: (x - mean) / deviation for each channel, with x from 0 to 1."""

    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]


IMAGENET = PixelScale((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True)
class LoadedNetwork:
    """A loaded network with its input format and the hash of its weights."""

    network: Network
    input_size: InputSize
    scale: PixelScale
    weights: str


def require_package(package: str, encoder: str, install: str) -> ModuleType:
    """Import an optional package; raise an error with the install command if it is missing."""
    try:
        return importlib.import_module(package)
    except (ImportError, OSError, RuntimeError) as error:  # torchvision built for another torch raises RuntimeError
        installed = importlib.util.find_spec(package.partition(".")[0]) is not None
        reason = f" ({package} cannot be imported: {error})" if installed else ""
        raise DeixisError(f"encoder {encoder} needs a package: {install}{reason}") from None


def short_reason(error: Exception) -> str:
    """Return the message of another library as one short line."""
    return " ".join(str(error).split())[:200]


def weights_in_package(package: str, file: str, sha256: str, encoder: str, install: str) -> Path:
    """Return the path of weights inside a package, without importing it. Their hash must match."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise DeixisError(f"encoder {encoder} needs a package: {install}")
    path = Path(spec.origin).parent / file
    if not path.is_file():
        raise DeixisError(f"{path}: missing; reinstall with {install} --force-reinstall")
    if hash_file(path) != sha256:
        raise DeixisError(f"{path}: its hash is not the expected one; reinstall with {install} --force-reinstall")
    return path


def hash_weights(weights: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of weights with their names and shapes."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        # Via uint8, because numpy has no bfloat16.
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def check_side(encoder: str, side: int, multiple: int) -> None:
    """Refuse an input size that is not a multiple of the patch size."""
    if side % multiple:
        below = side // multiple * multiple
        raise DeixisError(
            f"encoder {encoder}: side={side} is not a multiple of {multiple}; try {below or multiple} or "
            f"{below + multiple}"
        )


Maps = Callable[[Tensor], tuple[Tensor, Tensor | None]]
"""Maps normalized pixels (b, 3, height, width) to cells (b, channels, rows, columns) and global vectors or None."""


def choose_device(device: str | None) -> torch.device:
    """Return a torch device; by default the GPU if there is one."""
    try:
        chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except RuntimeError:
        raise DeixisError(f"no such device: {device}; try cpu or cuda") from None
    try:
        # torch accepts names of devices that are not available, so try one.
        torch.zeros(1, device=chosen).cpu()
    except (RuntimeError, AssertionError, ImportError):
        raise DeixisError(f"no such device here: {chosen}; try cpu") from None
    return chosen


class TorchNetwork:
    """A torch module as a `Network`, without gradients.

    The module is moved to the device and set to evaluation mode; `maps` calls it. The channels-last memory layout makes
    convolutions faster on a CPU.
    """

    def __init__(
        self, module: nn.Module, maps: Maps, scale: PixelScale, device: str | None, channels_last: bool = False
    ) -> None:
        self.device = choose_device(device)
        self.layout = torch.channels_last if channels_last else torch.contiguous_format
        module.requires_grad_(False).eval()
        # The type stubs of torch lack this overload of `to`.
        cast("Callable[..., nn.Module]", module.to)(device=self.device, memory_format=self.layout)
        self.module = module
        self.maps = maps
        self.mean = torch.tensor(scale.mean, device=self.device).mul(255).reshape(3, 1, 1)
        self.deviation = torch.tensor(scale.deviation, device=self.device).mul(255).reshape(3, 1, 1)

    def __call__(self, pixels: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
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
