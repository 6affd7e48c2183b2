"""Encoders of torchvision with small random weights; nothing is downloaded."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.vision.encoders import open_encoder

PIXELS = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)


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


class SmallMobileNet(nn.Module):
    """Features, and one fully connected layer on their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 6, 3, stride=8, padding=1), nn.ReLU())
        self.classifier = nn.Sequential(nn.Dropout(), nn.Linear(6, 5))


class SmallResNet(nn.Module):
    """Stages without a common container."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, stride=8, padding=1)
        self.layer4 = nn.Conv2d(4, 7, 3, padding=1)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(7, 5)


NETWORKS = {"vgg19": SmallVGG, "mobilenet": SmallMobileNet, "resnet50": SmallResNet, "odd": nn.Identity}


@pytest.fixture(autouse=True)
def torchvision(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    def get_model(name: str, weights: str) -> nn.Module:
        assert weights == "DEFAULT"
        if name == "far-away":
            raise OSError("no route to host")
        if name not in NETWORKS:
            raise ValueError(f"Unknown model {name}")
        torch.manual_seed(0)
        return NETWORKS[name]()

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


@pytest.mark.parametrize(("name", "channels"), [("mobilenet", 6), ("resnet50", 7)])
def test_other_networks_give_their_last_map_and_its_mean(name: str, channels: int) -> None:
    cells, whole = open_encoder(f"torchvision:{name}").network(PIXELS)
    assert cells.shape == (2, channels, 8, 8)
    np.testing.assert_allclose(whole, cells.mean(axis=(2, 3)), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("nix", "torchvision:nix: .*Unknown model"),
        ("far-away", "torchvision:far-away: .*no route to host"),
        ("odd", "torchvision:odd: .*timm:odd"),
    ],
)
def test_an_error_names_the_encoder(name: str, line: str) -> None:
    with pytest.raises(DeixisError, match=line):
        open_encoder(f"torchvision:{name}")


def test_the_weights_change_the_fingerprint(torchvision: ModuleType) -> None:
    first = open_encoder("torchvision:vgg19").fingerprint
    torchvision.get_model = lambda name, weights: SmallVGG()  # type: ignore[attr-defined]
    assert open_encoder("torchvision:vgg19").fingerprint != first
