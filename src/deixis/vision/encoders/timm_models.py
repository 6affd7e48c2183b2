"""Networks of timm by name. An extra: `deixis[timm]`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from deixis.errors import DeixisError
from deixis.vision.encoder import InputSize
from deixis.vision.encoders.names import EncoderName, Options
from deixis.vision.encoders.opened import Opened, PixelScale, check_side, hash_of_weights, need_package
from deixis.vision.encoders.torch_network import TorchNetwork

STRIDE = 32


def defaults(architecture: str) -> Options:
    """The side that timm's own settings of the network state."""
    return Options(side=0, aspect="squeeze")


def open_network(name: EncoderName, options: Options, device: str | None) -> Opened:
    """Fetch the weights through timm, which keeps them for the next time."""
    timm = need_package("timm", f"timm:{name.argument}", "pip install 'deixis[timm]'")
    module = _fetched(timm, name.argument, other_size=bool(options.side or options.keep_aspect))
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
    return Opened(network, size, scale, hash_of_weights(module.state_dict()))


def _fetched(timm: Any, model: str, other_size: bool) -> Any:
    """Transformers must be told that photos may have another size than the one that they were trained with."""
    sized = {"dynamic_img_size": True} if other_size else {}
    try:
        try:
            return timm.create_model(model, pretrained=True, num_classes=0, **sized)
        except TypeError:
            return timm.create_model(model, pretrained=True, num_classes=0)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise DeixisError(f"encoder timm:{model}: timm cannot open it ({reason})") from error
    except OSError as error:
        raise DeixisError(f"encoder timm:{model}: its weights cannot be fetched ({error})") from error


def _patch(module: Any) -> int | None:
    """The side of a transformer's patches; None for a network whose features are a map already."""
    return int(module.patch_embed.patch_size[0]) if hasattr(module, "num_prefix_tokens") else None


def _cells(module: Any, features: Tensor, pixels: Tensor, patch: int | None) -> Tensor:
    if patch is None and features.ndim == 4:
        # Some networks, such as Swin, keep the channels last and say so.
        channels_last = getattr(module, "output_fmt", "NCHW") == "NHWC"
        return features.permute(0, 3, 1, 2) if channels_last else features
    if patch is None or features.ndim != 3:
        raise DeixisError(f"encoder timm: no feature map is known of {type(module).__name__}")
    rows, columns = (side // patch for side in pixels.shape[2:])
    tokens = features[:, module.num_prefix_tokens :]
    return tokens.transpose(1, 2).reshape(len(tokens), -1, rows, columns)
