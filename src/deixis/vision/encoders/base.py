"""Interface of encoder modules: names with options, loaded networks, and optional packages. Without torch.

The syntax of names is ``NAME[:ARGUMENT][@OPTION=VALUE,…]``. A name contains all options that affect the features, so a
comparison of resolutions or aspect ratios is a list of names.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

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


def check_side(encoder: str, side: int, multiple: int) -> None:
    """Refuse an input size that is not a multiple of the patch size."""
    if side % multiple:
        below = side // multiple * multiple
        raise DeixisError(
            f"encoder {encoder}: side={side} is not a multiple of {multiple}; try {below or multiple} or "
            f"{below + multiple}"
        )


@dataclass(frozen=True)
class Options:
    """Options after the ``@``. None if an encoder does not have the option."""

    side: int | None = None
    """Side in pixels of the square that photos are resized to; 0 for the input size of the network itself."""
    aspect: str | None = None
    """``squeeze`` into the square, or ``keep`` the aspect ratio with about as many pixels."""
    pixels: str | None = None
    """Normalization: ``imagenet``, ``unit`` (0 to 1), ``signed`` (-1 to 1) or ``bytes`` (0 to 255)."""

    def input_size(self, own_side: int = 0, multiple: int = 1) -> InputSize:
        """Return the input size; `own_side` is that of the network itself."""
        return InputSize(self.side or own_side, self.aspect == "keep", multiple)


@dataclass(frozen=True)
class EncoderName:
    """Parsed name of one encoder; the options are not yet checked."""

    architecture: str  # a name in the registry
    argument: str  # after the colon: a network of a library, or a path
    options: tuple[tuple[str, str], ...]


OpenNetwork = Callable[[EncoderName, Options, str | None], LoadedNetwork]
"""Reads the weights of a network; the last argument is the name of a device."""


def parse_name(name: str) -> EncoderName:
    found = _OPTIONS.search(name)
    plain = name[: found.start()] if found else name
    written = [option.partition("=")[::2] for option in found[1].split(",")] if found else []
    if len({key for key, _ in written}) < len(written):
        raise DeixisError(f"encoder {name}: an option occurs twice")
    architecture, _, argument = plain.partition(":")
    return EncoderName(architecture, argument, tuple(written))


def parse_options(name: EncoderName, defaults: Options) -> Options:
    """Return the options of an encoder: its defaults, changed by its name."""
    allowed = [field.name for field in fields(Options) if getattr(defaults, field.name) is not None]
    options: dict[str, Any] = {}
    for key, value in name.options:
        if key not in allowed:
            has = f"has only {', '.join(allowed)}" if allowed else "has none"
            raise DeixisError(f"encoder {name.architecture}: no option {key!r}; it {has}")
        options[key] = _read_option(name.architecture, key, value)
    return replace(defaults, **options)


def canonical_name(name: EncoderName, options: Options, defaults: Options) -> str:
    """Return the name with options in a fixed order and without defaults."""
    plain = f"{name.architecture}:{name.argument}" if name.argument else name.architecture
    written = []
    for key in (field.name for field in fields(Options)):
        value = getattr(options, key)
        if value != getattr(defaults, key):
            written.append(f"{key}={value}")
    return f"{plain}@{','.join(written)}" if written else plain


def _read_option(encoder: str, key: str, value: str) -> int | str:
    match key:
        case "side":
            # Check the length first: Python limits the digits of an integer.
            if not value.isdecimal() or len(value) > _MAX_DIGITS or not MIN_SIDE <= int(value) <= MAX_SIDE:
                shown = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"
                raise DeixisError(f"encoder {encoder}: side={shown} is not a number from {MIN_SIDE} to {MAX_SIDE}")
            return int(value)
        case "aspect":
            if value not in _ASPECTS:
                raise DeixisError(f"encoder {encoder}: aspect={value} is neither {' nor '.join(_ASPECTS)}")
            return value
        case _:
            return value
