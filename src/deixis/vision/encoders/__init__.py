"""Registry of image encoders. `open_encoder` returns the encoder of a name.

To add an encoder, write one function `OpenNetwork` (`libraries` has short examples) and add a line to `ARCHITECTURES`.
`base` has the syntax of names.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from dataclasses import asdict, dataclass

import numpy as np

from deixis.errors import DeixisError
from deixis.runtime.devices import require_torch
from deixis.vision.encoder import ImageEncoder
from deixis.vision.encoders.base import (
    EncoderName,
    LoadedNetwork,
    OpenNetwork,
    Options,
    canonical_name,
    parse_name,
    parse_options,
)

CODE_VERSION = 1
"""Part of every fingerprint. Increment it when the code gives other results for the same weights and options."""


@dataclass(frozen=True)
class Architecture:
    """Module and function of this package, default options, and the placeholder of the argument after the colon."""

    opener: str
    defaults: Options
    argument: str = ""
    optional: bool = False
    needs_torch: bool = True


_OWN_SIZE = Options(side=0, aspect="squeeze")
ARCHITECTURES = {
    "deixis": Architecture("saved:open_network", _OWN_SIZE, "FOLDER", optional=True, needs_torch=False),
    "deixis-fast": Architecture("saved:open_network", _OWN_SIZE, needs_torch=False),
    "efficientnet-lite0": Architecture("efficientnet_lite:open_network", Options(side=224, aspect="squeeze")),
    "efficientnet-lite2": Architecture("efficientnet_lite:open_network", Options(side=260, aspect="squeeze")),
    "onnx": Architecture(
        "onnx_file:open_network", Options(side=0, aspect="squeeze", pixels="imagenet"), "FILE", needs_torch=False
    ),
    "open_clip": Architecture("open_clip_models:open_network", Options(), "NAME/PRETRAINED"),  # of a fixed input size
    "timm": Architecture("libraries:open_timm", _OWN_SIZE, "NAME"),
    "torchvision": Architecture("libraries:open_torchvision", Options(side=224, aspect="squeeze"), "NAME"),
}


def open_encoder(name: str, device: str | None = None) -> ImageEncoder:
    """Load an encoder by its name, such as ``deixis@side=280``."""
    parsed = parse_name(name)
    known = ARCHITECTURES.get(parsed.architecture)
    if known is None:
        raise DeixisError(f"no encoder {name}; choose one of {', '.join(map(_usage, ARCHITECTURES))}")
    if bool(parsed.argument) != bool(known.argument) and not (known.optional and not parsed.argument):
        raise DeixisError(f"no encoder {name}; use {_usage(parsed.architecture)}")
    if known.needs_torch:
        require_torch(f"encoder {parsed.architecture}")
    options = parse_options(parsed, known.defaults)
    module, _, function = known.opener.partition(":")
    opener: OpenNetwork = getattr(importlib.import_module(f"{__name__}.{module}"), function)
    loaded = opener(parsed, options, device)
    channels, dimension = loaded.channels, loaded.dimension
    if channels is None or dimension is None:  # encode a black photo to find the output sizes
        side = loaded.input_size.side
        cells, whole = loaded.network(np.zeros((1, side, side, 3), dtype=np.uint8))
        channels, dimension = cells.shape[1], whole.shape[1]
    return ImageEncoder(
        name=canonical_name(parsed, options, known.defaults),
        network=loaded.network,
        input_size=loaded.input_size,
        channels=channels,
        dimension=dimension,
        fingerprint=_fingerprint(parsed, options, loaded),
    )


def _usage(architecture: str) -> str:
    known = ARCHITECTURES[architecture]
    argument = f":{known.argument}" if known.argument else ""
    return architecture + (f"[{argument}]" if known.optional else argument)


def _fingerprint(name: EncoderName, options: Options, loaded: LoadedNetwork) -> str:
    """Hash everything that affects the results. The path of the weights does not."""
    content = {
        "code": CODE_VERSION,
        "architecture": name.architecture,
        "argument": "" if ARCHITECTURES[name.architecture].argument in ("FILE", "FOLDER") else name.argument,
        "blocks": None,  # an option of an earlier encoder; all fingerprints have it
        "input": asdict(loaded.input_size),
        "scale": asdict(loaded.scale),
        "weights": loaded.weights,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
