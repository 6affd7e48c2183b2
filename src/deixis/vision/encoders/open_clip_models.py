"""Networks of OpenCLIP, and their image towers as encoders. Requires the extra `deixis[open-clip]`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from deixis.errors import DeixisError, short_reason
from deixis.vision.encoder import InputSize
from deixis.vision.encoders.base import EncoderName, LoadedNetwork, Options, PixelScale, require_package

if TYPE_CHECKING:
    from torch import Tensor

SELF_CONTAINED = ("hf-hub:", "local-dir:")
"""Starts of architectures that bring their own weights."""

_LISTED = 8


@dataclass(frozen=True)
class ClipNetwork:
    """A network with the preprocessing of its photos. `weights` are an absolute path or a name; empty for its own."""

    package: Any
    network: Any
    transform: Callable[[Image.Image], Tensor]
    weights: str
    quick_gelu: bool


def open_clip_network(architecture: str, weights: str, name: str) -> ClipNetwork:
    """Open a network with weights in a file or that OpenCLIP downloads; `name` is the one that the user gave."""
    package = require_package("open_clip", name, "pip install 'deixis[open-clip]'")
    weights, quick_gelu = _find_weights(package, architecture, weights, name)
    with explain_failure(name):
        network, _, transform = package.create_model_and_transforms(
            architecture, pretrained=weights or None, force_quick_gelu=quick_gelu, weights_only=True
        )
    return ClipNetwork(package, network, transform, weights, quick_gelu)


@contextmanager
def explain_failure(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # of torch, of the network or of OpenCLIP itself, which has no class of its own
        raise DeixisError(f"{name}: OpenCLIP cannot open it ({short_reason(error)})") from error


def _find_weights(package: Any, architecture: str, weights: str, name: str) -> tuple[str, bool]:
    """Return the absolute path or the name of the weights, and whether the named ones need another activation."""
    if architecture.startswith(SELF_CONTAINED):
        return "", False
    if weights and (file := Path(weights).expanduser()).is_file():
        return str(file.absolute()), False
    tags: list[str] = package.list_pretrained_tags_by_model(architecture)
    if not weights and tags:
        weights = tags[0]
    if weights not in tags:
        known = f"; OpenCLIP downloads {_list(tags)}" if tags else f"; OpenCLIP has no weights for {architecture}"
        problem = f"{weights}: no such file" if weights else f"{name}: give a file of weights"
        raise DeixisError(problem + known)
    return weights, bool(package.get_pretrained_cfg(architecture, weights).get("quick_gelu", False))


def _list(tags: Sequence[str]) -> str:
    return ", ".join(tags[:_LISTED]) + (f" and {len(tags) - _LISTED} more" if len(tags) > _LISTED else "")


def open_network(name: EncoderName, options: Options, device: str | None) -> LoadedNetwork:
    from deixis.vision.encoders.torch_network import TorchNetwork, hash_weights

    model, slash, pretrained = name.argument.partition("/")
    if not slash:
        raise DeixisError(f"encoder open_clip:{model}: add the weights, as in open_clip:ViT-B-32/laion2b_s34b_b79k")
    opened = open_clip_network(model, pretrained, f"open_clip:{name.argument}")
    tower = opened.network.visual
    if not hasattr(tower, "forward_intermediates"):
        raise DeixisError(f"encoder open_clip:{model}: its feature map is not supported")
    scale = PixelScale(tuple(tower.image_mean), tuple(tower.image_std))
    side = tower.image_size if isinstance(tower.image_size, int) else int(tower.image_size[0])

    def maps(pixels: Tensor) -> tuple[Tensor, Tensor | None]:
        outputs = tower.forward_intermediates(pixels, indices=1, normalize_intermediates=True)
        return outputs["image_intermediates"][-1], outputs["image_features"]

    network = TorchNetwork(tower, maps, scale, device)
    # The activation is part of the fingerprint: older versions took the wrong one for OpenAI's weights.
    weights = hash_weights(tower.state_dict()) + (" quick-gelu" if opened.quick_gelu else "")
    return LoadedNetwork(network, InputSize(side), scale, weights)
