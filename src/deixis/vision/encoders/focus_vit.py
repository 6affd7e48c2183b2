"""The transformer of `focus` as an encoder: the maps of inner blocks carry the meaning, the last one does not."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from deixis.errors import DeixisError
from deixis.vision.encoder import InputSize
from deixis.vision.encoders import focus
from deixis.vision.encoders.names import EncoderName, Options
from deixis.vision.encoders.opened import IMAGENET, Opened, check_side
from deixis.vision.encoders.torch_network import TorchNetwork
from deixis.vision.encoders.vit import VisionTransformer, ViTShape


def defaults(architecture: str) -> Options:
    """Block 10: of 10 and 12, the better one for retrieval and for regions (docs/decisions.md)."""
    return Options(side=224, aspect="squeeze", blocks=(10,))


def open_network(name: EncoderName, options: Options, device: str | None) -> Opened:
    """Read the weights out of their package."""
    shape = ViTShape()
    side, blocks = options.side or 224, list(options.blocks or (10,))
    check_side(name.architecture, side, shape.patch)
    if not all(1 <= block <= shape.blocks for block in blocks):
        raise DeixisError(f"encoder {name.architecture}: it has blocks 1 to {shape.blocks}")
    module = focus.load_focus(shape)
    network = TorchNetwork(module, lambda pixels: (normalised_maps(module, pixels, blocks), None), IMAGENET, device)
    return Opened(network, InputSize(side, options.keep_aspect, shape.patch), IMAGENET, focus.SHA256)


def normalised_maps(module: VisionTransformer, pixels: Tensor, blocks: list[int]) -> Tensor:
    """The maps after the given blocks, each cell brought to mean 0 and variance 1, one behind the other."""
    maps = (each.movedim(1, 3) for each in module.maps(pixels, blocks))
    return torch.cat([functional.layer_norm(each, each.shape[3:], eps=1e-6).movedim(3, 1) for each in maps], dim=1)
