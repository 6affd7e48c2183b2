"""The encoder that was trained here: its file, and files that only pretend."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from deixis.errors import DeixisError
from deixis.vision.encoders import open_encoder, own
from deixis.vision.encoders.opened import IMAGENET
from deixis.vision.encoders.own import load_network, save_network
from deixis.vision.encoders.vit import VisionTransformer, ViTShape

SHAPE = ViTShape(width=32, heads=2, blocks=2, grid=4)


@pytest.fixture
def network() -> VisionTransformer:
    torch.manual_seed(0)
    network = VisionTransformer(SHAPE).eval()
    for weights in network.parameters():
        torch.nn.init.normal_(weights, std=0.1)
    return network


@pytest.fixture
def path(tmp_path: Path, network: VisionTransformer) -> Path:
    save_network(tmp_path / "a.safetensors", network, 56, IMAGENET, {"dev": {"r1": 30.5}})
    return tmp_path / "a.safetensors"


def config_of(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        config = json.loads(file.metadata()["config"])
    assert isinstance(config, dict)
    return config


def rewrite(path: Path, config: object) -> None:
    save_file(load_file(path), path, {"config": json.dumps(config)})


def test_weights_are_kept_in_half_precision_and_run_in_single(path: Path, network: VisionTransformer) -> None:
    loaded, side, scale = load_network(path)
    assert (side, scale) == (56, IMAGENET)
    assert {tensor.dtype for tensor in load_file(path).values()} == {torch.float16}
    for ours, theirs in zip(network.state_dict().values(), loaded.state_dict().values(), strict=True):
        assert theirs.dtype == torch.float32
        assert torch.equal(theirs, ours.half().float())


def test_what_else_is_known_stands_in_the_file(path: Path) -> None:
    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()["dev"]) == {"r1": 30.5}


@torch.no_grad()
def test_cells_are_the_last_map_and_the_whole_is_their_mean(path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 56, 70, 3), dtype=np.uint8)
    cells, whole = open_encoder(f"deixis:{path}").network(pixels)
    scaled = (pixels / 255 - np.array(IMAGENET.mean)) / np.array(IMAGENET.deviation)
    expected = load_network(path)[0](torch.from_numpy(scaled).permute(0, 3, 1, 2).float()).numpy()
    assert cells.shape == (2, 32, 4, 5)
    np.testing.assert_allclose(cells, expected, atol=1e-4)
    np.testing.assert_allclose(whole, expected.mean(axis=(2, 3)), atol=1e-4)


def test_without_a_path_it_is_the_one_that_comes_with_deixis(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "SHIPPED", path)
    encoder = open_encoder("deixis")
    assert encoder.name == "deixis"
    assert encoder.input_size.side == 56
    assert encoder.fingerprint == open_encoder(f"deixis:{path}").fingerprint


def test_the_shipped_encoder_tells_photos_apart() -> None:
    encoder = open_encoder("deixis", device="cpu")
    noise = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
    grey, noisy = encoder.encode([Image.new("RGB", (120, 90), "grey"), Image.fromarray(noise)])
    assert (encoder.channels, encoder.dimension, encoder.input_size.side) == (384, 384, 252)
    assert noisy.cells.shape == (384, 18, 18)
    assert noisy.size == (120, 90)
    np.testing.assert_allclose(noisy.whole, noisy.cells.mean(axis=(1, 2)), atol=1e-5)
    assert np.abs(grey.whole - noisy.whole).max() > 0.01
    assert np.isfinite(noisy.cells).all()


def test_the_fingerprint_of_the_shipped_encoder_is_the_same_wherever_and_whenever_it_is_opened(tmp_path: Path) -> None:
    shutil.copyfile(own.SHIPPED, tmp_path / "elsewhere.safetensors")
    names = ("deixis", "deixis", f"deixis:{tmp_path / 'elsewhere.safetensors'}")
    assert len({open_encoder(name, device="cpu").fingerprint for name in names}) == 1


def test_a_missing_file_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone.safetensors"
    with pytest.raises(DeixisError, match=f"^{re.escape(str(gone))}: no encoder there$"):
        open_encoder(f"deixis:{gone}")
    monkeypatch.setattr(own, "SHIPPED", gone)
    with pytest.raises(DeixisError, match=f"^{re.escape(str(gone))}: missing; reinstall deixis$"):
        open_encoder("deixis")


@pytest.mark.parametrize("content", [b"", b"no safetensors at all", b"\xff" * 64])
def test_a_damaged_file_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(DeixisError, match=f"^{re.escape(str(path))}: damaged, or no encoder of deixis [^\n]*$"):
        open_encoder(f"deixis:{path}")


def test_a_truncated_file_is_one_line(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DeixisError, match=r"damaged, or no encoder of deixis"):
        load_network(path)


@pytest.mark.parametrize(
    "change",
    [
        {"shape": {"width": 32, "colour": 2}},
        {"shape": 3},
        {"side": "large"},
        {"mean": [0.5]},
        {"deviation": None},
    ],
)
def test_a_file_that_states_what_it_does_not_hold_is_one_line(path: Path, change: dict[str, Any]) -> None:
    rewrite(path, config_of(path) | change)
    with pytest.raises(DeixisError, match=r"^[^\n]*damaged, or no encoder of deixis [^\n]*$"):
        load_network(path)


@pytest.mark.parametrize("width", [48, 2**14])
def test_a_shape_that_the_weights_do_not_have_is_refused_before_room_is_made_for_it(path: Path, width: int) -> None:
    rewrite(path, config_of(path) | {"shape": {"width": width, "heads": 2, "blocks": 2, "patch": 14, "grid": 4}})
    with pytest.raises(DeixisError, match=r"\(ValueError: blocks\.0\.attended\.bias is not as the shape asks for\)$"):
        load_network(path)


def test_weights_of_something_else_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    save_file({"weight": torch.zeros(3)}, path)
    with pytest.raises(DeixisError, match=r"damaged, or no encoder of deixis \(KeyError: 'config'\)$"):
        load_network(path)
