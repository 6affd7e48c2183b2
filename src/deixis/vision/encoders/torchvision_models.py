"""Networks of torchvision by name, the papers' VGG and AlexNet among them. An extra: `deixis[torchvision]`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.vision.encoder import InputSize
from deixis.vision.encoders.names import EncoderName, Options
from deixis.vision.encoders.opened import IMAGENET, Opened, hash_of_weights, need_package
from deixis.vision.encoders.torch_network import Maps, TorchNetwork

SIDE, STRIDE = 224, 32


def defaults(architecture: str) -> Options:
    """The papers' 224 pixels."""
    return Options(side=SIDE, aspect="squeeze")


def open_network(name: EncoderName, options: Options, device: str | None) -> Opened:
    """Fetch the weights through torchvision, which keeps them for the next time."""
    models = need_package("torchvision.models", f"torchvision:{name.argument}", "pip install 'deixis[torchvision]'")
    module = _fetched(models, name.argument)
    maps = _with_classifier(module) or _without_classifier(module, name.argument)
    network = TorchNetwork(module, maps, IMAGENET, device, channels_last=True)
    size = InputSize(options.side or SIDE, options.keep_aspect, STRIDE)
    return Opened(network, size, IMAGENET, hash_of_weights(module.state_dict()))


def _fetched(models: Any, model: str) -> nn.Module:
    try:
        module: nn.Module = models.get_model(model, weights="DEFAULT")
    except (KeyError, ValueError) as error:
        raise DeixisError(f"encoder torchvision:{model}: torchvision knows no such model ({error})") from error
    except OSError as error:
        raise DeixisError(f"encoder torchvision:{model}: its weights cannot be fetched ({error})") from error
    return module


def _with_classifier(module: Any) -> Maps | None:
    """VGG and AlexNet: the last convolution's map, and the last but one fully connected layer behind its ReLU (fc7)."""
    classifier = getattr(module, "classifier", None)
    if not isinstance(classifier, nn.Sequential) or sum(isinstance(layer, nn.Linear) for layer in classifier) < 3:
        return None
    convolutions, pooling = module.features[:-1], module.features[-1]

    def maps(pixels: Tensor) -> tuple[Tensor, Tensor | None]:
        cells = convolutions(pixels)
        return cells, classifier[:-1](torch.flatten(module.avgpool(pooling(cells)), 1))

    return maps


def _without_classifier(module: Any, model: str) -> Maps:
    """The last map of the others, whose mean is what their own classifiers read."""
    if isinstance(getattr(module, "features", None), nn.Module):
        features = module.features
    elif hasattr(module, "layer4"):
        features = nn.Sequential(*list(module.children())[:-2])
    else:
        raise DeixisError(f"encoder torchvision:{model}: no feature map is known of it; try timm:{model}")
    return lambda pixels: (features(pixels), None)
