"""Encoders of OpenCLIP with small random weights; nothing is downloaded."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.vision.encoders import open_encoder

PIXELS = np.random.default_rng(0).integers(0, 256, (2, 64, 64, 3), dtype=np.uint8)


class SmallTower(nn.Module):
    image_mean = (0.4, 0.5, 0.6)
    image_std = (0.2, 0.3, 0.4)

    def __init__(self, image_size: int | tuple[int, int] = 64) -> None:
        super().__init__()
        self.image_size = image_size
        self.embed = nn.Conv2d(3, 6, 16, 16)
        self.project = nn.Linear(6, 4)

    def forward_intermediates(
        self, pixels: Tensor, indices: int, normalize_intermediates: bool
    ) -> dict[str, Tensor | list[Tensor]]:
        assert indices == 1
        assert normalize_intermediates
        cells = self.embed(pixels)
        return {"image_intermediates": [cells], "image_features": self.project(cells.mean(dim=(2, 3)))}


@pytest.fixture(autouse=True)
def open_clip(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    def create_model(name: str, pretrained: str) -> SimpleNamespace:
        if pretrained != "openai":
            raise RuntimeError(f"Pretrained weights ({pretrained}) not found\nfor model {name}.")
        torch.manual_seed(0)
        towers = {"small": SmallTower, "pair": lambda: SmallTower((64, 64)), "odd": nn.Identity}
        return SimpleNamespace(visual=towers[name]())

    package = ModuleType("open_clip")
    package.create_model = create_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "open_clip", package)
    return package


@torch.no_grad()
@pytest.mark.parametrize("name", ["small", "pair"])
def test_a_tower_gives_its_last_map_and_its_projected_vector(name: str) -> None:
    encoder = open_encoder(f"open_clip:{name}/openai", device="cpu")
    cells, whole = encoder.network(PIXELS)
    torch.manual_seed(0)
    tower = SmallTower()
    scaled = torch.from_numpy((PIXELS / 255 - tower.image_mean) / tower.image_std).permute(0, 3, 1, 2).float()
    np.testing.assert_allclose(cells, tower.embed(scaled), atol=1e-5)
    np.testing.assert_allclose(whole, tower.project(tower.embed(scaled).mean(dim=(2, 3))), atol=1e-5)
    assert (encoder.channels, encoder.dimension, encoder.input_size.side) == (6, 4, 64)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("small", "open_clip:small: .*open_clip:ViT-B-32/laion2b_s34b_b79k"),
        ("small/nix", r"open_clip:small/nix: .*\(nix\) not found"),
        ("odd/openai", "open_clip:odd: "),
        ("small/openai@side=96", "open_clip: .*'side'"),
    ],
)
def test_an_error_names_the_encoder(name: str, line: str) -> None:
    with pytest.raises(DeixisError, match=line):
        open_encoder(f"open_clip:{name}")
