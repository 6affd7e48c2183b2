"""Networks of torchvision and timm. They require the extras `deixis[torchvision]` and `deixis[timm]`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from deixis.errors import DeixisError, short_reason
from deixis.vision.encoders.base import (
    IMAGENET,
    EncoderName,
    LoadedNetwork,
    Options,
    PixelScale,
    check_side,
    require_package,
)
from deixis.vision.encoders.torch_network import Maps, TorchNetwork, hash_weights

STRIDE = 32


def open_torchvision(name: EncoderName, options: Options, device: str | None) -> LoadedNetwork:
    models = require_package("torchvision.models", f"torchvision:{name.argument}", "pip install 'deixis[torchvision]'")
    with _explain_failure("torchvision", name.argument):
        module = models.get_model(name.argument, weights="DEFAULT")
    maps = _with_classifier(module) or _without_classifier(module, name.argument)
    network = TorchNetwork(module, maps, IMAGENET, device, channels_last=True)
    return LoadedNetwork(network, options.input_size(multiple=STRIDE), IMAGENET, hash_weights(module.state_dict()))


@contextmanager
def _explain_failure(library: str, model: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DeixisError(f"encoder {library}:{model}: its weights cannot be downloaded ({error})") from error
    except (KeyError, ValueError, RuntimeError) as error:
        raise DeixisError(f"encoder {library}:{model}: {library} cannot open it ({short_reason(error)})") from error


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


def open_timm(name: EncoderName, options: Options, device: str | None) -> LoadedNetwork:
    timm = require_package("timm", f"timm:{name.argument}", "pip install 'deixis[timm]'")
    with _explain_failure("timm", name.argument):
        # Transformers need a flag to accept other input sizes than that of training.
        sized = {"dynamic_img_size": True} if options.side or options.aspect == "keep" else {}
        try:
            module = timm.create_model(name.argument, pretrained=True, num_classes=0, **sized)
        except TypeError:
            module = timm.create_model(name.argument, pretrained=True, num_classes=0)
    settings = timm.data.resolve_model_data_config(module)
    scale = PixelScale(tuple(settings["mean"]), tuple(settings["std"]))
    patch = int(module.patch_embed.patch_size[0]) if hasattr(module, "num_prefix_tokens") else None  # of a transformer
    size = options.input_size(int(settings["input_size"][1]), patch or STRIDE)
    check_side(f"timm:{name.argument}", size.side, patch or 1)

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
