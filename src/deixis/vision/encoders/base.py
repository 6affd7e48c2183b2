"""Interface of encoder modules: names with options, loaded networks, and optional packages. Without torch.

The syntax of names is ``NAME[:ARGUMENT][@side=N]``. A name contains all that affects the features.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from deixis.errors import DeixisError
from deixis.storage.files import hash_file
from deixis.vision.encoder import InputSize, Network

MIN_SIDE, MAX_SIDE = 32, 2048
_MAX_DIGITS = 9
_MAX_SHOWN = 40
_OPTION = re.compile(r"@([a-z]+)=([^@=]*)$")


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
    channels: int | None = None  # of cells, if known without a run
    dimension: int | None = None  # of global vectors, if known without a run


@dataclass(frozen=True)
class EncoderName:
    """A parsed name."""

    architecture: str  # a name in the registry
    argument: str = ""  # after the colon: a network of a library, or a path
    side: int = 0  # of the square that photos are resized to; 0 for the input size of the network itself

    @property
    def without_side(self) -> str:
        return f"{self.architecture}:{self.argument}" if self.argument else self.architecture

    def canonical(self, own_side: int) -> str:
        """Return the name without the side that the network has anyway."""
        return self.without_side if self.side in (0, own_side) else f"{self.without_side}@side={self.side}"

    def input_size(self, own_side: int, multiple: int) -> InputSize:
        return InputSize(self.side or own_side, multiple=multiple)

    def check_side(self, size: InputSize) -> None:
        """Refuse an input size that is not a multiple of the patch size."""
        side, patch = size.side, size.multiple
        if side % patch:
            near = f"{side // patch * patch or patch} or {side // patch * patch + patch}"
            raise DeixisError(f"encoder {self.without_side}: side={side} is not a multiple of {patch}; try {near}")


OpenNetwork = Callable[[EncoderName, str | None], LoadedNetwork]
"""Reads the weights of a network; the last argument is the name of a device."""


def parse_name(name: str) -> EncoderName:
    found = _OPTION.search(name)
    architecture, _, argument = (name[: found.start()] if found else name).partition(":")
    if found is None:
        return EncoderName(architecture, argument)
    option, side = found.groups()
    if option != "side":
        raise DeixisError(f"encoder {architecture}: no option {option!r}; it has only side")
    # Check the length first: Python limits the digits of an integer.
    if not (side.isdecimal() and len(side) <= _MAX_DIGITS and MIN_SIDE <= int(side) <= MAX_SIDE):
        shown = side if len(side) <= _MAX_SHOWN else f"{side[:_MAX_SHOWN]}…"
        raise DeixisError(f"encoder {architecture}: side={shown} is not a number from {MIN_SIDE} to {MAX_SIDE}")
    return EncoderName(architecture, argument, int(side))


def require_package(package: str, encoder: str, install: str) -> ModuleType:
    """Import an optional package; raise an error with the install command if it is missing."""
    try:
        return importlib.import_module(package)
    except (ImportError, OSError, RuntimeError) as error:  # torchvision built for another torch raises RuntimeError
        installed = importlib.util.find_spec(package.partition(".")[0]) is not None
        reason = f" ({package} cannot be imported: {error})" if installed else ""
        raise DeixisError(f"encoder {encoder} needs a package: {install}{reason}") from None


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
