"""What every architecture's file gives and needs: the opened network, its pixels, its weights and their hash."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from deixis.errors import DeixisError
from deixis.files.hashes import hash_of_file
from deixis.vision.encoder import InputSize, Network

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class PixelScale:
    """How a network wants its pixels: (x - mean) / deviation for each colour, where x is from 0 to 1."""

    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]


IMAGENET = PixelScale((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True)
class Opened:
    """A network that is ready to run.

    Attributes
    ----------
    network
        Pixels to cells and whole vectors.
    input_size
        How large photos are made for it.
    scale
        What it does to the pixels first.
    weights
        A hash of its weights.
    """

    network: Network
    input_size: InputSize
    scale: PixelScale
    weights: str


def need_package(package: str, encoder: str, install: str) -> ModuleType:
    """Import a package that not everybody has."""
    try:
        return importlib.import_module(package)
    except (ImportError, OSError, RuntimeError) as error:  # torchvision for another torch raises the last
        there = importlib.util.find_spec(package.partition(".")[0]) is not None
        reason = f" ({package} cannot be imported: {error})" if there else ""
        raise DeixisError(f"the encoder {encoder} needs a package: {install}{reason}") from None


def weights_in_package(package: str, file: str, sha256: str, encoder: str, install: str) -> Path:
    """The weights that came inside a package, found without importing it, if they are the very ones that we know."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise DeixisError(f"the encoder {encoder} needs a package: {install}")
    path = Path(spec.origin).parent / file
    if not path.is_file():
        raise DeixisError(f"{path}: missing; reinstall with {install} --force-reinstall")
    if hash_of_file(path) != sha256:
        raise DeixisError(f"{path}: not the weights that deixis knows; reinstall with {install} --force-reinstall")
    return path


def hash_of_weights(weights: Mapping[str, Tensor]) -> str:
    """The SHA-256 of a network's weights, with their names and shapes, wherever they came from."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        # As bytes, because numpy has no bfloat16.
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def check_side(encoder: str, side: int, multiple: int) -> None:
    """Refuse a side that a network's patches do not fill."""
    if side % multiple:
        below = side // multiple * multiple
        raise DeixisError(
            f"encoder {encoder}: side={side} is not a multiple of {multiple}; try {below or multiple} or "
            f"{below + multiple}"
        )
