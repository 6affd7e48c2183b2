"""Image towers of OpenCLIP. Requires the extra `deixis[open-clip]`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from deixis.errors import DeixisError
from deixis.vision.encoder import InputSize
from deixis.vision.encoders.base import LoadedNetwork, PixelScale, require_package, short_reason
from deixis.vision.encoders.names import EncoderName, Options
from deixis.vision.encoders.torch_network import TorchNetwork, hash_weights


def defaults(architecture: str) -> Options:
    return Options()  # the input size is fixed


def open_network(name: EncoderName, options: Options, device: str | None) -> LoadedNetwork:
    model, slash, pretrained = name.argument.partition("/")
    if not slash:
        raise DeixisError(f"encoder open_clip:{model}: add the weights, as in open_clip:ViT-B-32/laion2b_s34b_b79k")
    open_clip = require_package("open_clip", f"open_clip:{name.argument}", "pip install 'deixis[open-clip]'")
    tower = _download(open_clip, model, pretrained).visual
    if not hasattr(tower, "forward_intermediates"):
        raise DeixisError(f"encoder open_clip:{model}: its feature map is not supported")
    scale = PixelScale(tuple(tower.image_mean), tuple(tower.image_std))
    side = tower.image_size if isinstance(tower.image_size, int) else int(tower.image_size[0])

    def maps(pixels: Tensor) -> tuple[Tensor, Tensor | None]:
        outputs = tower.forward_intermediates(pixels, indices=1, normalize_intermediates=True)
        return outputs["image_intermediates"][-1], outputs["image_features"]

    network = TorchNetwork(tower, maps, scale, device)
    return LoadedNetwork(network, InputSize(side), scale, hash_weights(tower.state_dict()))


def _download(open_clip: Any, model: str, pretrained: str) -> Any:
    try:
        return open_clip.create_model(model, pretrained=pretrained)
    except (RuntimeError, ValueError, OSError) as error:
        reason = short_reason(error)
        raise DeixisError(f"encoder open_clip:{model}/{pretrained}: OpenCLIP cannot open it ({reason})") from error
