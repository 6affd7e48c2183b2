"""Networks of torchvision, such as the VGG and AlexNet of the papers. Requires the extra `deixis[torchvision]`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.vision.encoder import InputSize
from deixis.vision.encoders.base import IMAGENET, EncoderName, LoadedNetwork, Options, require_package
from deixis.vision.encoders.torch_network import Maps, TorchNetwork, hash_weights

SIDE, STRIDE = 224, 32


def defaults(architecture: str) -> Options:
    return Options(side=SIDE, aspect="squeeze")


def open_network(name: EncoderName, options: Options, device: str | None) -> LoadedNetwork:
    models = require_package("torchvision.models", f"torchvision:{name.argument}", "pip install 'deixis[torchvision]'")
    module = _download(models, name.argument)
    maps = _with_classifier(module) or _without_classifier(module, name.argument)
    network = TorchNetwork(module, maps, IMAGENET, device, channels_last=True)
    size = InputSize(options.side or SIDE, options.keep_aspect, STRIDE)
    return LoadedNetwork(network, size, IMAGENET, hash_weights(module.state_dict()))


def _download(models: Any, model: str) -> nn.Module:
    try:
        module: nn.Module = models.get_model(model, weights="DEFAULT")
    except (KeyError, ValueError) as error:
        raise DeixisError(f"encoder torchvision:{model}: torchvision has no such model ({error})") from error
    except OSError as error:
        raise DeixisError(f"encoder torchvision:{model}: its weights cannot be downloaded ({error})") from error
    return module


def _with_classifier(module: Any) -> Maps | None:
    """VGG and AlexNet: the map of the last convolution, and fc7 after its ReLU as the global vector."""
    classifier = getattr(module, "classifier", None)
    if not isinstance(classifier, nn.Sequential) or sum(isinstance(layer, nn.Linear) for layer in classifier) < 3:
        return None
    convolutions, pooling = module.features[:-1], module.features[-1]

    def maps(pixels: Tensor) -> tuple[Tensor, Tensor | None]:
        cells = convolutions(pixels)
        return cells, classifier[:-1](torch.flatten(module.avgpool(pooling(cells)), 1))

    return maps


def _without_classifier(module: Any, model: str) -> Maps:
    """Other networks: the last map. Its mean is the input of their classifiers."""
    if isinstance(getattr(module, "features", None), nn.Module):
        features = module.features
    elif hasattr(module, "layer4"):
        features = nn.Sequential(*list(module.children())[:-2])
    else:
        raise DeixisError(f"encoder torchvision:{model}: its feature map is not supported; try timm:{model}")
    return lambda pixels: (features(pixels), None)
