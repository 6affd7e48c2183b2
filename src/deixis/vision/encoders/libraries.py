"""Networks of timm, and VGG and AlexNet of torchvision. They need the extras `timm` and `torchvision`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from deixis.errors import DeixisError, short_reason
from deixis.vision.encoders.base import IMAGENET, EncoderName, LoadedNetwork, PixelScale, require_package
from deixis.vision.encoders.torch_network import TorchNetwork, hash_weights

STRIDE = 32


def open_torchvision(name: EncoderName, device: str | None) -> LoadedNetwork:
    """VGG and AlexNet: the map of the last convolution, and fc7 after its ReLU as the global vector."""
    models = require_package("torchvision.models", name.without_side, "pip install 'deixis[torchvision]'")
    with _explain_failure(name):
        module: Any = models.get_model(name.argument, weights="DEFAULT")
    classifier = getattr(module, "classifier", None)
    if not isinstance(classifier, nn.Sequential) or sum(isinstance(layer, nn.Linear) for layer in classifier) < 3:
        raise DeixisError(f"encoder {name.without_side}: it is neither VGG nor AlexNet; try timm:{name.argument}")
    convolutions, pooling = module.features[:-1], module.features[-1]

    def maps(pixels: Tensor) -> tuple[Tensor, Tensor | None]:
        cells = convolutions(pixels)
        return cells, classifier[:-1](torch.flatten(module.avgpool(pooling(cells)), 1))

    network = TorchNetwork(module, maps, IMAGENET, device, channels_last=True)
    return LoadedNetwork(network, name.input_size(224, STRIDE), IMAGENET, hash_weights(module.state_dict()))


@contextmanager
def _explain_failure(name: EncoderName) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DeixisError(f"encoder {name.without_side}: its weights cannot be downloaded ({error})") from error
    except (KeyError, ValueError, RuntimeError) as error:
        reason = f"{name.architecture} cannot open it ({short_reason(error)})"
        raise DeixisError(f"encoder {name.without_side}: {reason}") from error


def open_timm(name: EncoderName, device: str | None) -> LoadedNetwork:
    timm = require_package("timm", name.without_side, "pip install 'deixis[timm]'")
    with _explain_failure(name):
        # Transformers need a flag to accept other input sizes than that of training.
        sized = {"dynamic_img_size": True} if name.side else {}
        try:
            module = timm.create_model(name.argument, pretrained=True, num_classes=0, **sized)
        except TypeError:
            module = timm.create_model(name.argument, pretrained=True, num_classes=0)
    settings = timm.data.resolve_model_data_config(module)
    scale = PixelScale(tuple(settings["mean"]), tuple(settings["std"]))
    patch = int(module.patch_embed.patch_size[0]) if hasattr(module, "num_prefix_tokens") else None  # of a transformer
    size = name.input_size(int(settings["input_size"][1]), patch or STRIDE)
    if patch:
        name.check_side(size)

    def maps(pixels: Tensor) -> tuple[Tensor, Tensor | None]:
        features = module.forward_features(pixels)
        return _cells(module, features, pixels, patch), module.forward_head(features, pre_logits=True)

    return LoadedNetwork(TorchNetwork(module, maps, scale, device), size, scale, hash_weights(module.state_dict()))


def _cells(module: Any, features: Tensor, pixels: Tensor, patch: int | None) -> Tensor:
    if patch is None and features.ndim == 4:
        # Some networks, such as Swin, have channels-last output.
        channels_last = getattr(module, "output_fmt", "NCHW") == "NHWC"
        return features.permute(0, 3, 1, 2) if channels_last else features
    if patch is None or features.ndim != 3:
        raise DeixisError(f"encoder timm: the feature map of {type(module).__name__} is not supported")
    rows, columns = (side // patch for side in pixels.shape[2:])
    tokens = features[:, module.num_prefix_tokens :]
    return tokens.transpose(1, 2).reshape(len(tokens), -1, rows, columns)
