"""The encoder of deixis: the transformer against a plain implementation, its directory, and damaged ones."""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from deixis.storage.artifacts import CONFIG, WEIGHTS, read_artifact, read_config
from deixis.vision.encoders import open_encoder, saved
from deixis.vision.encoders.base import IMAGENET
from deixis.vision.encoders.deixis_vit import Block, VisionTransformer, ViTShape
from deixis.vision.encoders.saved import save_network
from deixis.vision.encoders.torch_network import drop_path
from tests.unchecked import without_checksums

SHAPE = ViTShape(width=24, heads=3, blocks=4, grid=4)


@pytest.fixture
def network() -> VisionTransformer:
    torch.manual_seed(0)
    network = VisionTransformer(SHAPE).eval()
    for weights in network.parameters():
        torch.nn.init.normal_(weights, std=0.2)
    return network


@pytest.fixture
def path(tmp_path: Path, network: VisionTransformer) -> Path:
    save_network(tmp_path / "a", network, 56, IMAGENET, {"dev": {"r1": 30.5}})
    return tmp_path / "a"


def module_of(path: Path) -> Any:
    """The torch module of a saved encoder."""
    network: Any = open_encoder(f"deixis:{path}").network
    return network.functions.module


def change_settings(path: Path, change: dict[str, Any]) -> None:
    without_checksums(path)
    config = read_config(path)
    config["settings"] |= change
    (path / CONFIG).write_text(json.dumps(config))


def test_weights_are_saved_in_half_precision_and_run_in_single(path: Path, network: VisionTransformer) -> None:
    loaded = module_of(path)
    assert (open_encoder(f"deixis:{path}").input_size.side, loaded.scale) == (56, IMAGENET)
    assert read_artifact(path).provenance == {"dev": {"r1": 30.5}}
    assert {tensor.dtype for tensor in load_file(path / WEIGHTS).values()} == {torch.float16}
    for ours, theirs in zip(network.state_dict().values(), loaded.state_dict().values(), strict=True):
        assert theirs.dtype == torch.float32
        assert torch.equal(theirs, ours.half().float())


@torch.no_grad()
def test_the_cells_are_the_last_map_and_the_global_vector_is_their_mean(path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 56, 70, 3), dtype=np.uint8)
    cells, whole = open_encoder(f"deixis:{path}").network(pixels)
    scaled = (pixels / 255 - np.array(IMAGENET.mean)) / np.array(IMAGENET.deviation)
    expected = module_of(path)(torch.from_numpy(scaled).permute(0, 3, 1, 2).float()).numpy()
    assert cells.shape == (2, 24, 4, 5)
    np.testing.assert_allclose(cells, expected, atol=1e-4)
    np.testing.assert_allclose(whole, expected.mean(axis=(2, 3)), atol=1e-4)


def test_without_a_path_the_encoder_is_the_shipped_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(saved.SHIPPED, "deixis", path)
    encoder = open_encoder("deixis")
    assert encoder.name == "deixis"
    assert encoder.input_size.side == 56
    assert encoder.fingerprint == open_encoder(f"deixis:{path}").fingerprint


def test_the_shipped_encoder_gives_different_vectors_for_different_photos() -> None:
    encoder = open_encoder("deixis", device="cpu")
    noise = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    grey, noisy = encoder.encode([Image.new("RGB", (120, 90), "grey"), Image.fromarray(noise)])
    assert (encoder.channels, encoder.dimension, encoder.input_size.side) == (384, 384, 224)
    assert noisy.cells.shape == (384, 16, 16)
    assert noisy.size == (120, 90)
    np.testing.assert_allclose(noisy.whole, noisy.cells.mean(axis=(1, 2)), atol=1e-5)
    assert np.abs(grey.whole - noisy.whole).max() > 0.01
    assert np.isfinite(noisy.cells).all()


def test_the_fingerprint_of_the_shipped_encoder_does_not_change(tmp_path: Path) -> None:
    shutil.copytree(saved.SHIPPED["deixis"], tmp_path / "elsewhere")
    names = ("deixis", "deixis", f"deixis:{tmp_path / 'elsewhere'}")
    # Feature stores and indexes on users' disks have this fingerprint.
    assert {open_encoder(name, device="cpu").fingerprint for name in names} == {"f85d96f1a3ab7bc2"}


@pytest.mark.parametrize(
    "change",
    [{"shape": {"width": 32, "colour": 2}}, {"shape": 3}, {"side": "large"}, {"mean": [0.5]}, {"deviation": None}],
)
def test_inconsistent_settings_are_refused(path: Path, change: dict[str, Any]) -> None:
    change_settings(path, change)
    with pytest.raises(DeixisError, match=f"^{re.escape(str(path))}: [^\n]*$"):
        module_of(path)


@pytest.mark.parametrize("width", [48, 2**14])
def test_a_shape_that_the_weights_do_not_have_is_refused_before_memory_is_allocated(path: Path, width: int) -> None:
    change_settings(path, {"shape": asdict(SHAPE) | {"width": width}})
    with pytest.raises(DeixisError, match="size mismatch"):
        module_of(path)


def plain_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return (x - x.mean()) / (x.var(unbiased=False) + 1e-6).sqrt() * weight + bias


def plain_block(block: Block, tokens: Tensor) -> Tensor:
    """One photo, one token and one head at a time."""
    width = tokens.shape[1]
    size = width // block.heads
    normed = torch.stack([plain_norm(token, block.norm_1.weight, block.norm_1.bias) for token in tokens])
    query, key, value = (normed @ block.query_key_value.weight.T + block.query_key_value.bias).split(width, dim=1)
    heads = []
    for head in range(block.heads):
        part = slice(head * size, (head + 1) * size)
        weights = torch.softmax(query[:, part] @ key[:, part].T / math.sqrt(size), dim=1)
        heads.append(weights @ value[:, part])
    attended = torch.cat(heads, dim=1) @ block.attended.weight.T + block.attended.bias
    tokens = tokens + block.scale_1 * attended
    normed = torch.stack([plain_norm(token, block.norm_2.weight, block.norm_2.bias) for token in tokens])
    inner = normed @ block.wider.weight.T + block.wider.bias
    inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
    return tokens + block.scale_2 * (inner @ block.narrower.weight.T + block.narrower.bias)


def plain_network(network: VisionTransformer, pixels: Tensor) -> Tensor:
    """The tokens (1 + rows × columns, width) of one square photo whose grid is that of the learned positions."""
    tokens = [network.first_token[0, 0]]
    for row in range(SHAPE.grid):
        for column in range(SHAPE.grid):
            patch = pixels[:, row * 14 : (row + 1) * 14, column * 14 : (column + 1) * 14]
            embedded = (network.patches.weight * patch).sum(dim=(1, 2, 3)) + network.patches.bias
            tokens.append(embedded + network.positions[0, :, row, column])
    found = torch.stack(tokens)
    for block in network.blocks:
        assert isinstance(block, Block)
        found = plain_block(block, found)
    return found


@torch.no_grad()
def test_cells_are_those_of_a_plain_transformer(network: VisionTransformer) -> None:
    pixels = torch.randn(2, 3, 56, 56)
    cells = network(pixels)
    for photo in range(2):
        tokens = plain_network(network, pixels[photo])[1:]
        normed = torch.stack([plain_norm(token, network.norm.weight, network.norm.bias) for token in tokens])
        torch.testing.assert_close(cells[photo], normed.T.reshape(24, 4, 4), rtol=1e-3, atol=1e-4)


@torch.no_grad()
def test_the_map_of_a_wide_photo_is_not_transposed(network: VisionTransformer) -> None:
    """Without attention and positions, a cell depends on its own patch only."""
    network.positions.zero_()
    for block in network.blocks:
        assert isinstance(block, Block)
        block.scale_1.zero_()
    pixels = torch.randn(1, 3, 28, 56)
    cells = network(pixels)
    for row in range(2):
        for column in range(4):
            patch = pixels[:, :, row * 14 : (row + 1) * 14, column * 14 : (column + 1) * 14]
            torch.testing.assert_close(cells[:, :, row, column], network(patch)[:, :, 0, 0])


@torch.no_grad()
def test_positions_are_interpolated_between_the_learned_ones(network: VisionTransformer) -> None:
    across = torch.arange(4.0).reshape(1, 1, 1, 4).expand(1, 24, 4, 4)
    network.positions.copy_(across)
    wide = network._positions_for(2, 8)
    assert wide.shape == (1, 24, 2, 8)
    assert (wide[..., 1:] > wide[..., :-1]).all()
    torch.testing.assert_close(wide[:, :, 0], wide[:, :, 1])
    assert network._positions_for(4, 4) is network.positions


def test_drop_path_preserves_the_mean() -> None:
    torch.manual_seed(0)
    kept = drop_path(torch.ones(4000, 1, 8), 0.5, training=True)
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    assert abs(kept.mean().item() - 1) < 0.1


def test_the_shipped_encoder_sees_a_photo_the_same_whatever_is_beside_it() -> None:
    """One scale of int8 activations for several photos would change their vectors by up to 0.01."""
    encoder = open_encoder("deixis")
    photos = []
    for name in ("cat.jpg", "dogs.jpg", "coffee.jpg"):
        with Image.open(SAMPLES / "images" / name) as photo:
            photos.append(photo.convert("RGB"))
    together = encoder.encode(photos)
    for photo, beside_others in zip(photos, together, strict=True):
        [alone] = encoder.encode([photo])
        assert np.array_equal(alone.cells, beside_others.cells)
        assert np.array_equal(alone.whole, beside_others.whole)
