"""The encoder that was trained here: a vision transformer in one safetensors file, in half precision.

The file says everything about itself: under `config` in its metadata is a JSON document with the network's shape, the
side of its photos and the scale of its pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from deixis.errors import DeixisError
from deixis.files.hashes import hash_of_file
from deixis.vision.encoder import InputSize
from deixis.vision.encoders.names import EncoderName, Options
from deixis.vision.encoders.opened import Opened, PixelScale, check_side
from deixis.vision.encoders.torch_network import TorchNetwork
from deixis.vision.encoders.vit import VisionTransformer, ViTShape
from deixis.vision.weights import damaged, load_weights, save_weights

SHIPPED = Path(__file__).parent.parent / "models" / "encoder.safetensors"


def defaults(architecture: str) -> Options:
    """The side that the file states."""
    return Options(side=0, aspect="squeeze")


def open_network(name: EncoderName, options: Options, device: str | None) -> Opened:
    """Read a file that `save_network` wrote; without an argument, the one that comes with deixis."""
    path = Path(name.argument) if name.argument else SHIPPED
    module, own_side, scale = load_network(path)
    side, patch = options.side or own_side, module.shape.patch
    check_side(name.architecture, side, patch)
    network = TorchNetwork(module, lambda pixels: (module(pixels), None), scale, device)
    return Opened(network, InputSize(side, options.keep_aspect, patch), scale, hash_of_file(path))


def save_network(
    path: str | PathLike[str],
    network: VisionTransformer,
    side: int,
    scale: PixelScale,
    about: Mapping[str, object] | None = None,
) -> None:
    """Write a network in half precision, whole or not at all, for `open_encoder("deixis:FILE")`.

    Parameters
    ----------
    path
        The file to write.
    network
        In any precision, on any device.
    side
        Of the photos that it was trained with, in pixels.
    scale
        Of their pixels.
    about
        Whatever else should stand in the file, as JSON: settings, scores.

    Examples
    --------
    >>> import tempfile
    >>> from deixis.vision.encoders.opened import IMAGENET
    >>> network = VisionTransformer(ViTShape(width=32, heads=2, blocks=2, grid=4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_network(f"{folder}/a.safetensors", network, 56, IMAGENET)
    ...     load_network(Path(folder) / "a.safetensors")[1:]
    (56, PixelScale(mean=(0.485, 0.456, 0.406), deviation=(0.229, 0.224, 0.225)))
    """
    save_weights(path, network, {"shape": asdict(network.shape), "side": side, **asdict(scale)}, about)


def load_network(path: Path) -> tuple[VisionTransformer, int, PixelScale]:
    """The network in single precision, the side of its photos and the scale of its pixels."""
    if not path.is_file():
        raise DeixisError(f"{path}: no encoder there" if path != SHIPPED else f"{path}: missing; reinstall deixis")
    network, config = load_weights(path, "encoder", lambda config: VisionTransformer(_shape(config["shape"])))
    with damaged(path, "encoder"):
        return network, int(config["side"]), PixelScale(_three(config["mean"]), _three(config["deviation"]))


def _shape(stated: dict[str, Any]) -> ViTShape:
    return ViTShape(**{key: int(value) for key, value in stated.items()})


def _three(numbers: Any) -> tuple[float, float, float]:
    red, green, blue = (float(number) for number in numbers)
    return red, green, blue
