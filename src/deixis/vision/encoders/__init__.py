"""Image encoders by name: one file for each architecture, one line for each in the registry below.

A name comes in, an `ImageEncoder` goes out. What names may say is in `names`; what comes with deixis and what needs
another package is in docs/vision/encoders.md.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from deixis.errors import DeixisError
from deixis.vision.encoder import ImageEncoder, JoinedEncoder
from deixis.vision.encoders.names import EncoderName, Options, parse_name, read_options, spelled, split_joined

if TYPE_CHECKING:
    from deixis.vision.encoders.opened import Opened

CODE_VERSION = 1
"""Part of every fingerprint: raised when the code starts to give other numbers from the same weights and options."""


@dataclass(frozen=True)
class Architecture:
    """A line of the registry.

    Attributes
    ----------
    file
        The module of this folder that opens it.
    argument
        What follows the colon, in a word; empty where nothing does.
    optional
        The argument may be left out.
    """

    file: str
    argument: str = ""
    optional: bool = False


ARCHITECTURES = {
    "deixis": Architecture("own", "FILE", optional=True),
    "efficientnet-lite0": Architecture("efficientnet_lite"),
    "efficientnet-lite2": Architecture("efficientnet_lite"),
    "focus-vit": Architecture("focus_vit"),
    "onnx": Architecture("onnx_file", "FILE"),
    "open_clip": Architecture("open_clip_models", "NAME/PRETRAINED"),
    "timm": Architecture("timm_models", "NAME"),
    "torchvision": Architecture("torchvision_models", "NAME"),
}


class ArchitectureFile(Protocol):
    """What each of those files holds."""

    def defaults(self, architecture: str) -> Options:
        """Its options where a name sets none; a side of 0 is the network's own, known only once it is open."""
        ...

    def open_network(self, name: EncoderName, options: Options, device: str | None) -> Opened:
        """Read the weights."""
        ...


def open_encoder(name: str, device: str | None = None) -> ImageEncoder:
    """Open an encoder, or several joined.

    Parameters
    ----------
    name
        Such as `efficientnet-lite2`, `focus-vit@blocks=8-9-10,side=336`, `efficientnet-lite2@aspect=keep+focus-vit` or
        `torchvision:vgg19`.
    device
        As torch calls it; without one, the GPU where there is one.

    Examples
    --------
    >>> open_encoder("focus-vit:9")
    Traceback (most recent call last):
    deixis.errors.DeixisError: no encoder focus-vit:9; write focus-vit
    """
    parts = [_open_one(part, device) for part in split_joined(name, ARCHITECTURES)]
    return parts[0] if len(parts) == 1 else JoinedEncoder(parts)


def _open_one(written: str, device: str | None) -> ImageEncoder:
    name = parse_name(written)
    known = ARCHITECTURES.get(name.architecture)
    if known is None:
        raise DeixisError(f"no encoder {written}; there are {', '.join(map(_shown, ARCHITECTURES))}")
    if bool(name.argument) != bool(known.argument) and not (known.optional and not name.argument):
        raise DeixisError(f"no encoder {written}; write {_shown(name.architecture)}")
    file = cast(ArchitectureFile, importlib.import_module(f"{__name__}.{known.file}"))
    defaults = file.defaults(name.architecture)
    options = read_options(name, defaults)
    opened = file.open_network(name, options, device)
    # One black photo tells how many numbers come out.
    side = opened.input_size.side
    cells, whole = opened.network(np.zeros((1, side, side, 3), dtype=np.uint8))
    return ImageEncoder(
        name=spelled(name, options, defaults),
        network=opened.network,
        input_size=opened.input_size,
        channels=cells.shape[1],
        dimension=whole.shape[1],
        fingerprint=_fingerprint(name, options, opened),
    )


def _shown(architecture: str) -> str:
    known = ARCHITECTURES[architecture]
    argument = f":{known.argument}" if known.argument else ""
    return architecture + (f"[{argument}]" if known.optional else argument)


def _fingerprint(name: EncoderName, options: Options, opened: Opened) -> str:
    """Where a file lies changes no number, so its path does not count; its weights do."""
    what = {
        "code": CODE_VERSION,
        "architecture": name.architecture,
        "argument": "" if ARCHITECTURES[name.architecture].argument == "FILE" else name.argument,
        "blocks": options.blocks,
        "input": asdict(opened.input_size),
        "scale": asdict(opened.scale),
        "weights": opened.weights,
    }
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]
