"""Encoders that deixis trained: artifacts whose settings name the architecture of the network.

The settings are the architecture and the shape of the network, its input size and the normalization of pixels. The
graph ``encode`` takes pixels (photos, height, width, 3), from 0 to 255, and returns cells and global vectors. To add an
architecture, write a torch module with the members of `EncoderNetwork` and add a line to `ARCHITECTURES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DeixisError
from deixis.runtime import Functions
from deixis.runtime.devices import choose_device
from deixis.storage.artifacts import Artifact, damaged, read_artifact, write_artifact
from deixis.vision.encoder import Pixels
from deixis.vision.encoders.base import EncoderName, LoadedNetwork, PixelScale

if TYPE_CHECKING:
    from deixis.vision.encoders.torch_network import EncoderNetwork

_MODELS = Path(__file__).parent.parent / "models"
SHIPPED = {"deixis": _MODELS / "encoder", "deixis-fast": _MODELS / "fast"}
"""The encoders of the package by name. The fast one imitates the feature maps of the other."""
KIND = "encoder"

ARCHITECTURES = {
    "vit": "deixis.vision.encoders.deixis_vit:VisionTransformer",
    "tiny-vit": "deixis.vision.encoders.tiny_vit:TinyViT",
}
"""Torch modules by the name in the settings."""


def open_network(name: EncoderName, device: str | None) -> LoadedNetwork:
    folder = Path(name.argument) if name.argument else SHIPPED[name.architecture]
    artifact = read_artifact(folder, KIND, mapped=True, keep_half=True)
    device = choose_device(device)  # an error about a device does not name the folder
    with damaged(folder):
        settings = artifact.settings
        if (multiple := int(settings["multiple"])) < 1:
            raise ValueError(f"sides are multiples of {multiple}")
        size, scale = name.input_size(int(settings["side"]), multiple), _scale(settings)
        channels = int(settings["channels"])
        network = SavedNetwork(artifact, channels, device)
    name.check_side(size)
    return LoadedNetwork(network, size, scale, artifact.weights_hash, channels, channels)


class SavedNetwork:
    """The network of an artifact as a `Network`."""

    def __init__(self, artifact: Artifact, channels: int, device: str) -> None:
        self.folder = artifact.folder
        self.channels = channels
        self.functions = Functions(artifact=artifact, make_module=lambda: _make_network(artifact), device=device)

    def __call__(self, pixels: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        outputs = self.functions.in_parallel("encode", pixels)
        shapes = [array.shape[:2] for array in outputs]
        if shapes != [(len(pixels), self.channels)] * 2 or [array.ndim for array in outputs] != [4, 2]:
            raise DeixisError(f"{self.folder}: damaged, its network gives arrays of shape {shapes}")
        cells, whole = outputs
        return cells, whole


def save_network(
    folder: str | PathLike[str],
    network: EncoderNetwork,
    side: int,
    scale: PixelScale,
    provenance: Mapping[str, object] | None = None,
) -> None:
    """Write a network for an input of `side` pixels in half precision, for ``open_encoder("deixis:FOLDER")``."""
    network.scale = scale
    settings = {
        "architecture": network.ARCHITECTURE,
        "shape": asdict(network.shape),
        "side": side,
        "multiple": network.multiple,
        "channels": network.channels,
        **asdict(scale),
    }
    artifact = Functions(network).to_artifact(KIND, settings)
    write_artifact(folder, replace(artifact, provenance=dict(provenance or {})), half=True)


def _make_network(artifact: Artifact) -> EncoderNetwork:
    settings = artifact.settings
    module, _, name = ARCHITECTURES[settings["architecture"]].partition(":")
    network: EncoderNetwork = getattr(import_module(module), name).from_shape(settings["shape"], len(artifact.arrays))
    network.scale = _scale(settings)
    return network


def _scale(settings: Mapping[str, Any]) -> PixelScale:
    return PixelScale(_three(settings["mean"]), _three(settings["deviation"]))


def _three(numbers: Any) -> tuple[float, float, float]:
    red, green, blue = (float(number) for number in numbers)
    return red, green, blue
