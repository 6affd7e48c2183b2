"""What encoder modules share: pixel scaling, optional packages, and weights in packages. Without torch."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from deixis.errors import DeixisError
from deixis.storage.files import hash_file
from deixis.vision.encoder import InputSize, Network


@dataclass(frozen=True)
class PixelScale:
    """Normalization of pixels: (x - mean) / deviation for each channel, with x from 0 to 1."""

    mean: tuple[float, float, float]
    deviation: tuple[float, float, float]


IMAGENET = PixelScale((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True)
class LoadedNetwork:
    """A loaded network with its input format and the hash of its weights.

    `channels` and `dimension` are the sizes of cells and of global vectors, if they are known without a run.
    """

    network: Network
    input_size: InputSize
    scale: PixelScale
    weights: str
    channels: int | None = None
    dimension: int | None = None


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


def check_side(encoder: str, side: int, multiple: int) -> None:
    """Refuse an input size that is not a multiple of the patch size."""
    if side % multiple:
        below = side // multiple * multiple
        raise DeixisError(
            f"encoder {encoder}: side={side} is not a multiple of {multiple}; try {below or multiple} or "
            f"{below + multiple}"
        )
