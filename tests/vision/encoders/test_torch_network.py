"""Torch modules behind the one interface of networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.vision.encoders.opened import IMAGENET, PixelScale
from deixis.vision.encoders.torch_network import TorchNetwork, choose_device

PIXELS = np.random.default_rng(0).integers(0, 256, (2, 6, 8, 3), dtype=np.uint8)


def as_it_is(pixels: Tensor) -> tuple[Tensor, Tensor | None]:
    return pixels, None


@pytest.mark.parametrize("channels_last", [False, True])
def test_pixels_are_scaled_colour_by_colour(channels_last: bool) -> None:
    cells, whole = TorchNetwork(nn.Identity(), as_it_is, IMAGENET, "cpu", channels_last)(PIXELS)
    expected = (PIXELS / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(cells, expected.transpose(0, 3, 1, 2), atol=1e-5)
    np.testing.assert_allclose(whole, expected.mean(axis=(1, 2)), atol=1e-5)
    assert cells.dtype == whole.dtype == np.float32
    assert cells.flags.c_contiguous


def test_the_whole_vector_is_the_networks_own_where_it_has_one() -> None:
    scale = PixelScale((0, 0, 0), (1, 1, 1))
    network = TorchNetwork(nn.Identity(), lambda pixels: (pixels, pixels[:, :, 0, 0] + 7), scale, "cpu")
    np.testing.assert_allclose(network(PIXELS)[1], PIXELS[:, 0, 0] / 255 + 7, rtol=1e-6)


def test_a_network_runs_as_it_was_trained_to_be_used_and_without_gradients() -> None:
    module = nn.Sequential(nn.Dropout(0.9), nn.BatchNorm2d(3))
    network = TorchNetwork(module, lambda pixels: (module(pixels), None), IMAGENET, "cpu")
    assert np.array_equal(network(PIXELS)[0], network(PIXELS)[0])
    assert not module.training
    assert not any(weights.requires_grad for weights in module.parameters())


def test_the_gpu_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[torch.device] = []

    def zeros(count: int, device: torch.device) -> Tensor:
        asked.append(device)
        return torch.ones(count)

    monkeypatch.setattr(torch, "zeros", zeros)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device(None).type == "cuda"
    assert choose_device("cpu").type == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device(None).type == "cpu"
    assert [device.type for device in asked] == ["cuda", "cpu", "cpu"]


@pytest.mark.parametrize("device", ["meta", "cuda:99", "vulkan", "privateuseone"])
def test_a_device_that_is_not_there_is_one_line(device: str) -> None:
    with pytest.raises(DeixisError, match=f"^no such device here: {device}.*; try cpu$"):
        choose_device(device)


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="this machine has the device")
def test_a_device_of_other_machines_is_one_line() -> None:
    with pytest.raises(DeixisError, match="^no such device here: mps; try cpu$"):
        choose_device("mps")


def test_what_is_no_device_is_one_line() -> None:
    with pytest.raises(DeixisError, match="^no such device: abacus; try cpu or cuda$"):
        choose_device("abacus")
