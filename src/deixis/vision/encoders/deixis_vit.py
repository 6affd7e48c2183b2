"""The encoder of deixis: a vision transformer, saved as an artifact in half precision.

The settings of the artifact are the shape of the network, its input size and the normalization of pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from deixis.storage.artifacts import WEIGHTS, Artifact, damaged, read_artifact, write_artifact
from deixis.storage.files import hash_file
from deixis.storage.networks import set_weights, weights_of, without_weights
from deixis.vision.encoder import InputSize
from deixis.vision.encoders.base import LoadedNetwork, PixelScale, TorchNetwork, check_side
from deixis.vision.encoders.names import EncoderName, Options
from deixis.vision.encoders.vit import VisionTransformer, ViTShape

SHIPPED = Path(__file__).parent.parent / "models" / "encoder"
KIND = "encoder"


def defaults(architecture: str) -> Options:
    return Options(side=0, aspect="squeeze")


def open_network(name: EncoderName, options: Options, device: str | None) -> LoadedNetwork:
    folder = Path(name.argument) if name.argument else SHIPPED
    module, own_side, scale = load_network(folder)
    side, patch = options.side or own_side, module.shape.patch
    check_side(name.architecture, side, patch)
    network = TorchNetwork(module, lambda pixels: (module(pixels), None), scale, device)
    return LoadedNetwork(network, InputSize(side, options.keep_aspect, patch), scale, hash_file(folder / WEIGHTS))


def save_network(
    folder: str | PathLike[str],
    network: VisionTransformer,
    side: int,
    scale: PixelScale,
    provenance: Mapping[str, object] | None = None,
) -> None:
    """Write a network in half precision for ``open_encoder("deixis:FOLDER")``.

    Parameters
    ----------
    folder
        The directory to write.
    network
        The network.
    side
        Input size in pixels.
    scale
        Normalization of pixels.
    provenance
        Training data, settings and scores, as JSON.

    Examples
    --------
    >>> import tempfile
    >>> from deixis.vision.encoders.base import IMAGENET
    >>> network = VisionTransformer(ViTShape(width=32, heads=2, blocks=2, grid=4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_network(f"{folder}/encoder", network, 56, IMAGENET)
    ...     load_network(Path(folder) / "encoder")[1:]
    (56, PixelScale(mean=(0.485, 0.456, 0.406), deviation=(0.229, 0.224, 0.225)))
    """
    settings = {"shape": asdict(network.shape), "side": side, **asdict(scale)}
    write_artifact(folder, Artifact(KIND, settings, weights_of(network), provenance=dict(provenance or {})), half=True)


def load_network(folder: Path) -> tuple[VisionTransformer, int, PixelScale]:
    """Return the network in single precision, its input size and the normalization of pixels."""
    artifact = read_artifact(folder, KIND, mapped=True, keep_half=True)
    with damaged(folder):
        settings = artifact.settings
        shape = _shape(settings["shape"])
        if shape.blocks > len(artifact.arrays):  # a hostile file may state billions, and each takes time to build
            raise ValueError(f"{shape.blocks} blocks, but only {len(artifact.arrays)} arrays")
        with without_weights():
            network = VisionTransformer(shape)
        set_weights(network, artifact.arrays)
        return network, int(settings["side"]), PixelScale(_three(settings["mean"]), _three(settings["deviation"]))


def _shape(stated: dict[str, Any]) -> ViTShape:
    return ViTShape(**{key: int(value) for key, value in stated.items()})


def _three(numbers: Any) -> tuple[float, float, float]:
    red, green, blue = (float(number) for number in numbers)
    return red, green, blue
