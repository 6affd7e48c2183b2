"""Networks of timm. Requires the extra `deixis[timm]`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from deixis.errors import DeixisError
from deixis.vision.encoder import InputSize
from deixis.vision.encoders.base import (
    EncoderName,
    LoadedNetwork,
    Options,
    PixelScale,
    check_side,
    require_package,
    short_reason,
)
from deixis.vision.encoders.torch_network import TorchNetwork, hash_weights

STRIDE = 32


def defaults(architecture: str) -> Options:
    return Options(side=0, aspect="squeeze")


def open_network(name: EncoderName, options: Options, device: str | None) -> LoadedNetwork:
    timm = require_package("timm", f"timm:{name.argument}", "pip install 'deixis[timm]'")
    module = _download(timm, name.argument, other_size=bool(options.side or options.keep_aspect))
    settings = timm.data.resolve_model_data_config(module)
    scale = PixelScale(tuple(settings["mean"]), tuple(settings["std"]))
    patch = _patch(module)
    side = options.side or int(settings["input_size"][1])
    check_side(f"timm:{name.argument}", side, patch or 1)

    def maps(pixels: Tensor) -> tuple[Tensor, Tensor | None]:
        features = module.forward_features(pixels)
        return _cells(module, features, pixels, patch), module.forward_head(features, pre_logits=True)

    network = TorchNetwork(module, maps, scale, device)
    size = InputSize(side, options.keep_aspect, patch or STRIDE)
    return LoadedNetwork(network, size, scale, hash_weights(module.state_dict()))


def _download(timm: Any, model: str, other_size: bool) -> Any:
    """Transformers need a flag to accept other input sizes than that of training."""
    sized = {"dynamic_img_size": True} if other_size else {}
    try:
        try:
            return timm.create_model(model, pretrained=True, num_classes=0, **sized)
        except TypeError:
            return timm.create_model(model, pretrained=True, num_classes=0)
    except RuntimeError as error:
        raise DeixisError(f"encoder timm:{model}: timm cannot open it ({short_reason(error)})") from error
    except OSError as error:
        raise DeixisError(f"encoder timm:{model}: its weights cannot be downloaded ({error})") from error


def _patch(module: Any) -> int | None:
    """Return the patch size of a transformer; None for other networks."""
    return int(module.patch_embed.patch_size[0]) if hasattr(module, "num_prefix_tokens") else None


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
