"""Interface of encoder modules: names with options, loaded networks, and optional packages. Without torch.

The syntax of names is ``NAME[:ARGUMENT][@OPTION=VALUE,…]``. A name contains all options that affect the features, so a
comparison of resolutions or aspect ratios is a list of names.
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
_ASPECTS = ("squeeze", "keep")
_OPTIONS = re.compile(r"@((?:[a-z]+=[^@,=]*)(?:,[a-z]+=[^@,=]*)*)$")


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
    aspect: str = "squeeze"  # into the square, or "keep": about as many pixels

    def input_size(self, own_side: int, multiple: int) -> InputSize:
        return InputSize(self.side or own_side, self.aspect == "keep", multiple)

    def check_side(self, size: InputSize) -> None:
        """Refuse an input size that is not a multiple of the patch size."""
        side, patch = size.side, size.multiple
        if side % patch:
            near = f"{side // patch * patch or patch} or {side // patch * patch + patch}"
            raise DeixisError(f"encoder {self.without_options}: side={side} is not a multiple of {patch}; try {near}")

    @property
    def without_options(self) -> str:
        return f"{self.architecture}:{self.argument}" if self.argument else self.architecture

    def canonical(self, own_side: int) -> str:
        """Return the name with options in a fixed order and without defaults."""
        side = [f"side={self.side}"] if self.side not in (0, own_side) else []
        options = side + (["aspect=keep"] if self.aspect == "keep" else [])
        return f"{self.without_options}@{','.join(options)}" if options else self.without_options


OpenNetwork = Callable[[EncoderName, str | None], LoadedNetwork]
"""Reads the weights of a network; the last argument is the name of a device."""


def parse_name(name: str) -> EncoderName:
    found = _OPTIONS.search(name)
    plain = name[: found.start()] if found else name
    architecture, _, argument = plain.partition(":")
    options: dict[str, str] = {}
    for option in found[1].split(",") if found else ():
        key, _, value = option.partition("=")
        if key in options:
            raise DeixisError(f"encoder {name}: an option occurs twice")
        if key not in ("side", "aspect"):
            raise DeixisError(f"encoder {architecture}: no option {key!r}; it has only side, aspect")
        options[key] = value
    side, aspect = options.get("side"), options.get("aspect", "squeeze")
    # Check the length first: Python limits the digits of an integer.
    if side is not None and not (side.isdecimal() and len(side) <= _MAX_DIGITS and MIN_SIDE <= int(side) <= MAX_SIDE):
        shown = side if len(side) <= _MAX_SHOWN else f"{side[:_MAX_SHOWN]}…"
        raise DeixisError(f"encoder {architecture}: side={shown} is not a number from {MIN_SIDE} to {MAX_SIDE}")
    if aspect not in _ASPECTS:
        raise DeixisError(f"encoder {architecture}: aspect={aspect} is neither {' nor '.join(_ASPECTS)}")
    return EncoderName(architecture, argument, int(side or 0), aspect)


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
