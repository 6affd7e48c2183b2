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
from deixis.vision.encoders.base import EncoderName, LoadedNetwork, OpenNetwork, parse_name

CODE_VERSION = 1
"""Part of every fingerprint. Increment it when the code gives other results for the same weights and options."""


@dataclass(frozen=True)
class Architecture:
    """Module and function of this package, the input size if it is fixed, and what follows the colon of a name."""

    opener: str
    side: int = 0
    argument: str = ""
    optional: bool = False
    needs_torch: bool = True


ARCHITECTURES = {
    "deixis": Architecture("saved:open_network", argument="FOLDER", optional=True, needs_torch=False),
    "deixis-fast": Architecture("saved:open_network", needs_torch=False),
    "efficientnet-lite2": Architecture("efficientnet_lite:open_network", 260),
    "timm": Architecture("libraries:open_timm", argument="NAME"),
    "torchvision": Architecture("libraries:open_torchvision", 224, "NAME"),
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
    module, _, function = known.opener.partition(":")
    opener: OpenNetwork = getattr(importlib.import_module(f"{__name__}.{module}"), function)
    loaded = opener(parsed, device)
    channels, dimension = loaded.channels, loaded.dimension
    if channels is None or dimension is None:  # encode a black photo to find the output sizes
        side = loaded.input_size.side
        cells, whole = loaded.network(np.zeros((1, side, side, 3), dtype=np.uint8))
        channels, dimension = cells.shape[1], whole.shape[1]
    return ImageEncoder(
        name=parsed.canonical(known.side),
        network=loaded.network,
        input_size=loaded.input_size,
        channels=channels,
        dimension=dimension,
        fingerprint=_fingerprint(parsed, loaded),
    )


def _usage(architecture: str) -> str:
    known = ARCHITECTURES[architecture]
    argument = f":{known.argument}" if known.argument else ""
    return architecture + (f"[{argument}]" if known.optional else argument)


def _fingerprint(name: EncoderName, loaded: LoadedNetwork) -> str:
    """Hash everything that affects the results. The path of the weights does not."""
    content = {
        "code": CODE_VERSION,
        "architecture": name.architecture,
        "argument": "" if ARCHITECTURES[name.architecture].argument == "FOLDER" else name.argument,
        "blocks": None,  # an option of an earlier encoder
        "input": asdict(loaded.input_size),
        "scale": asdict(loaded.scale),
        "weights": loaded.weights,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
