"""The encoder that was trained here: a vision transformer in one safetensors file, in half precision.

The file says everything about itself: under `config` in its metadata is a JSON document with the network's shape, the
side of its photos and the scale of its pixels.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from deixis.errors import DeixisError
from deixis.files.atomic import new_file
from deixis.vision.encoder import InputSize
from deixis.vision.encoders.names import EncoderName, Options
from deixis.vision.encoders.opened import Opened, PixelScale, check_side, hash_of_file
from deixis.vision.encoders.torch_network import TorchNetwork
from deixis.vision.encoders.vit import VisionTransformer, ViTShape

SHIPPED = Path(__file__).parent.parent / "models" / "encoder.safetensors"
_CONFIG = "config"


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
    from safetensors.torch import save_file

    config = {"shape": asdict(network.shape), "side": side, **asdict(scale)}
    metadata = {key: json.dumps(value) for key, value in {**(about or {}), _CONFIG: config}.items()}
    weights = {name: tensor.detach().half().cpu().contiguous() for name, tensor in network.state_dict().items()}
    with new_file(path) as unfinished:
        save_file(weights, unfinished, metadata)


def load_network(path: Path) -> tuple[VisionTransformer, int, PixelScale]:
    """The network in single precision, the side of its photos and the scale of its pixels."""
    from safetensors import safe_open

    if not path.is_file():
        raise DeixisError(f"{path}: no encoder there" if path != SHIPPED else f"{path}: missing; reinstall deixis")
    with _damaged(path), safe_open(path, framework="pt") as file:
        config = json.loads((file.metadata() or {})[_CONFIG])
        shape = ViTShape(**{key: int(value) for key, value in config["shape"].items()})
        scale = PixelScale(_three(config["mean"]), _three(config["deviation"]))
        stated, held = _shapes(shape), {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        if stated != held:
            wrong = sorted(name for name in stated.keys() | held.keys() if stated.get(name) != held.get(name))
            raise ValueError(f"{wrong[0]} is not as the shape asks for")
        network = VisionTransformer(shape)
        network.load_state_dict({name: file.get_tensor(name).float() for name in stated})
        return network.eval(), int(config["side"]), scale


def _shapes(shape: ViTShape) -> dict[str, tuple[int, ...]]:
    """What the weights must be, learned without room for them: a hostile file may state any size."""
    with torch.device("meta"):
        return {name: tuple(tensor.shape) for name, tensor in VisionTransformer(shape).state_dict().items()}


def _three(numbers: Any) -> tuple[float, float, float]:
    red, green, blue = (float(number) for number in numbers)
    return red, green, blue


@contextmanager
def _damaged(path: Path) -> Iterator[None]:
    from safetensors import SafetensorError

    try:
        yield
    except (SafetensorError, AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DeixisError(f"{path}: damaged, or no encoder of deixis ({type(error).__name__}: {reason})") from error
