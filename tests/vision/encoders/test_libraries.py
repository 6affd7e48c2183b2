"""Encoders of timm and torchvision with small random weights; nothing is downloaded."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.vision.encoders import open_encoder


class SmallConvolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 5, 3, stride=16, padding=1)

    def forward_features(self, pixels: Tensor) -> Tensor:
        cells: Tensor = self.stem(pixels)
        return cells

    def forward_head(self, features: Tensor, pre_logits: bool) -> Tensor:
        assert pre_logits
        return features.amax(dim=(2, 3))


class SmallSwin(SmallConvolutions):
    """Channels-last output, declared in `output_fmt`."""

    output_fmt = "NHWC"

    def forward_features(self, pixels: Tensor) -> Tensor:
        return super().forward_features(pixels).permute(0, 2, 3, 1)

    def forward_head(self, features: Tensor, pre_logits: bool) -> Tensor:
        return features.mean(dim=(1, 2))


class SmallTransformer(nn.Module):
    """Two prefix tokens, then one token per patch, row by row."""

    num_prefix_tokens = 2

    def __init__(self, dynamic_img_size: bool = False) -> None:
        super().__init__()
        self.patch_embed = SimpleNamespace(patch_size=(16, 16))
        self.embed = nn.Conv2d(3, 6, 16, 16)
        self.dynamic = dynamic_img_size

    def forward_features(self, pixels: Tensor) -> Tensor:
        assert self.dynamic or pixels.shape[2:] == (64, 64)
        patches = self.embed(pixels).flatten(2).transpose(1, 2)
        return torch.cat([torch.full_like(patches[:, :2], 99.0), patches], dim=1)

    def forward_head(self, features: Tensor, pre_logits: bool) -> Tensor:
        return features[:, 0]


class SmallMixer(SmallConvolutions):
    """Tokens without the position of their patches."""

    def forward_features(self, pixels: Tensor) -> Tensor:
        return super().forward_features(pixels).flatten(2).transpose(1, 2)

    def forward_head(self, features: Tensor, pre_logits: bool) -> Tensor:
        return features[:, 0]


NETWORKS = {"conv": SmallConvolutions, "swin": SmallSwin, "vit": SmallTransformer, "mixer": SmallMixer}
PIXELS = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def timm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    def create_model(name: str, pretrained: bool, num_classes: int, **more: Any) -> nn.Module:
        assert pretrained
        assert num_classes == 0
        if name == "far-away":
            raise OSError("no route to host")
        if name not in NETWORKS:
            raise RuntimeError(f"Unknown model ({name})")
        torch.manual_seed(0)
        return NETWORKS[name](**more)

    package = ModuleType("timm")
    config = {"input_size": (3, 64, 64), "mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}
    package.create_model = create_model  # type: ignore[attr-defined]
    package.data = SimpleNamespace(resolve_model_data_config=lambda model: config)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", package)
    return package


def scaled() -> Tensor:
    return torch.from_numpy((PIXELS / 255 - 0.5) / 0.25).permute(0, 3, 1, 2).float()


@pytest.mark.parametrize("name", ["conv", "swin"])
def test_the_map_of_a_convolutional_network_has_channels_first(name: str) -> None:
    encoder = open_encoder(f"timm:{name}", device="cpu")
    cells, whole = encoder.network(PIXELS)
    torch.manual_seed(0)
    expected = SmallConvolutions().stem(scaled()).detach().numpy()
    np.testing.assert_allclose(cells, expected, atol=1e-5)
    pooled = expected.max(axis=(2, 3)) if name == "conv" else expected.mean(axis=(2, 3))
    np.testing.assert_allclose(whole, pooled, atol=1e-5)
    assert encoder.input_size.side == 64


@torch.no_grad()
def test_the_patches_of_a_transformer_become_a_map_without_the_prefix_tokens() -> None:
    encoder = open_encoder("timm:vit@side=64")
    wide = np.ascontiguousarray(PIXELS[:, :32])
    cells, whole = encoder.network(wide)
    torch.manual_seed(0)
    expected = SmallTransformer().embed(scaled()[:, :, :32])
    assert cells.shape == (2, 6, 2, 4)
    np.testing.assert_allclose(cells, expected, atol=1e-5)
    assert (whole == 99).all()


def test_other_input_sizes_are_passed_only_to_networks_that_accept_them() -> None:
    assert open_encoder("timm:vit@side=96").encode([]) == []
    assert open_encoder("timm:conv@side=96").input_size.side == 96
    assert open_encoder("timm:vit").input_size.target_size(10, 20) == (64, 64)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("timm:nix", r"timm:nix: .*Unknown model"),
        ("timm:far-away", r"timm:far-away: .*no route to host"),
        ("timm:mixer", "SmallMixer"),
        ("timm:vit@side=100", "timm:vit: side=100.*96 or 112"),
        ("torchvision:nix", "torchvision:nix: .*Unknown model"),
        ("torchvision:far-away", "torchvision:far-away: .*no route to host"),
        ("torchvision:odd", "torchvision:odd: .*timm:odd"),
    ],
)
def test_an_error_names_the_encoder(name: str, line: str) -> None:
    with pytest.raises(DeixisError, match=line):
        open_encoder(name)


class SmallVGG(nn.Module):
    """Convolutions that end with pooling, and three fully connected layers."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, stride=4, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.avgpool = nn.AdaptiveAvgPool2d(2)
        layers = (nn.Linear(32, 12), nn.ReLU(), nn.Dropout(), nn.Linear(12, 10), nn.ReLU(), nn.Dropout())
        self.classifier = nn.Sequential(*layers, nn.Linear(10, 5))

    def forward(self, pixels: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.avgpool(self.features(pixels)).flatten(1))
        return logits


TORCHVISION = {"vgg19": SmallVGG, "odd": nn.Identity}


@pytest.fixture(autouse=True)
def torchvision(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    def get_model(name: str, weights: str) -> nn.Module:
        assert weights == "DEFAULT"
        if name == "far-away":
            raise OSError("no route to host")
        if name not in TORCHVISION:
            raise ValueError(f"Unknown model {name}")
        torch.manual_seed(0)
        return TORCHVISION[name]()

    package, models = ModuleType("torchvision"), ModuleType("torchvision.models")
    models.get_model = get_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    return models


def test_vgg_gives_the_last_convolution_and_fc7_after_its_relu() -> None:
    encoder = open_encoder("torchvision:vgg19@side=64", device="cpu")
    cells, whole = encoder.network(PIXELS)
    torch.manual_seed(0)
    network = SmallVGG().eval()
    outputs: dict[str, Tensor] = {}
    network.features[1].register_forward_hook(lambda *call: outputs.update(cells=call[2]))
    network.classifier[4].register_forward_hook(lambda *call: outputs.update(whole=call[2]))
    scaled = (PIXELS / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    with torch.no_grad():
        network(torch.from_numpy(scaled).permute(0, 3, 1, 2).float())
    np.testing.assert_allclose(cells, outputs["cells"], atol=1e-5)
    np.testing.assert_allclose(whole, outputs["whole"], atol=1e-5)
    assert (encoder.channels, encoder.dimension) == (8, 10)
    assert whole.min() >= 0


def test_the_weights_change_the_fingerprint(torchvision: ModuleType) -> None:
    first = open_encoder("torchvision:vgg19").fingerprint
    torchvision.get_model = lambda name, weights: SmallVGG()  # type: ignore[attr-defined]
    assert open_encoder("torchvision:vgg19").fingerprint != first
