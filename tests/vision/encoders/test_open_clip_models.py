"""Encoders of OpenCLIP with small random weights; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.vision.encoders import open_encoder
from tests.models import clip_substitute

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


def install(monkeypatch: pytest.MonkeyPatch, make_tower: Callable[[], nn.Module]) -> list[dict[str, Any]]:
    def make() -> clip_substitute.Made:
        torch.manual_seed(0)
        return SimpleNamespace(visual=make_tower()), lambda photo: torch.zeros(1), lambda texts: torch.zeros(1)  # type: ignore[return-value]

    return clip_substitute.install(monkeypatch, make)


@torch.no_grad()
@pytest.mark.parametrize("image_size", [64, (64, 64)])
def test_a_tower_gives_its_last_map_and_its_projected_vector(
    image_size: int | tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = install(monkeypatch, lambda: SmallTower(image_size))
    encoder = open_encoder("open_clip:small/openai", device="cpu")
    assert calls[0]["force_quick_gelu"]  # OpenAI's weights need it
    cells, whole = encoder.network(PIXELS)
    torch.manual_seed(0)
    tower = SmallTower()
    scaled = torch.from_numpy((PIXELS / 255 - tower.image_mean) / tower.image_std).permute(0, 3, 1, 2).float()
    np.testing.assert_allclose(cells, tower.embed(scaled), atol=1e-5)
    np.testing.assert_allclose(whole, tower.project(tower.embed(scaled).mean(dim=(2, 3))), atol=1e-5)
    assert (encoder.channels, encoder.dimension, encoder.input_size.side) == (6, 4, 64)
    assert open_encoder("open_clip:small/laion").fingerprint != encoder.fingerprint


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("small", "open_clip:small: .*open_clip:ViT-B-32/laion2b_s34b_b79k"),
        ("small/nix", "nix: .*openai, laion"),
        ("small/openai", "open_clip:small: .*not supported"),
        ("small/openai@side=96", "open_clip: .*'side'"),
    ],
)
def test_an_error_names_the_encoder(name: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, nn.Identity)
    with pytest.raises(DeixisError, match=line):
        open_encoder(f"open_clip:{name}")
