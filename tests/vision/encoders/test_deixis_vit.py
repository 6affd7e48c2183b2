"""The encoder of deixis: its directory, and damaged ones."""

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
from safetensors.torch import load_file, save_file

from deixis.errors import DeixisError
from deixis.storage.artifacts import CONFIG, WEIGHTS, read_artifact, read_config
from deixis.vision.encoders import deixis_vit, open_encoder
from deixis.vision.encoders.base import IMAGENET
from deixis.vision.encoders.deixis_vit import load_network, save_network
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
    save_network(tmp_path / "a", network, 56, IMAGENET, {"dev": {"r1": 30.5}})
    return tmp_path / "a"


def change_settings(path: Path, change: dict[str, Any]) -> None:
    config = read_config(path)
    config["settings"] |= change
    (path / CONFIG).write_text(json.dumps(config))


def test_weights_are_kept_in_half_precision_and_run_in_single(path: Path, network: VisionTransformer) -> None:
    loaded, side, scale = load_network(path)
    assert (side, scale) == (56, IMAGENET)
    assert {tensor.dtype for tensor in load_file(path / WEIGHTS).values()} == {torch.float16}
    for ours, theirs in zip(network.state_dict().values(), loaded.state_dict().values(), strict=True):
        assert theirs.dtype == torch.float32
        assert torch.equal(theirs, ours.half().float())


def test_the_provenance_is_stored(path: Path) -> None:
    assert read_artifact(path).provenance == {"dev": {"r1": 30.5}}


@torch.no_grad()
def test_the_cells_are_the_last_map_and_the_global_vector_is_their_mean(path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 56, 70, 3), dtype=np.uint8)
    cells, whole = open_encoder(f"deixis:{path}").network(pixels)
    scaled = (pixels / 255 - np.array(IMAGENET.mean)) / np.array(IMAGENET.deviation)
    expected = load_network(path)[0](torch.from_numpy(scaled).permute(0, 3, 1, 2).float()).numpy()
    assert cells.shape == (2, 32, 4, 5)
    np.testing.assert_allclose(cells, expected, atol=1e-4)
    np.testing.assert_allclose(whole, expected.mean(axis=(2, 3)), atol=1e-4)


def test_without_a_path_it_is_the_one_that_comes_with_deixis(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deixis_vit, "SHIPPED", path)
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
    shutil.copytree(deixis_vit.SHIPPED, tmp_path / "elsewhere")
    names = ("deixis", "deixis", f"deixis:{tmp_path / 'elsewhere'}")
    # Feature stores and indexes on users' disks have this fingerprint.
    assert {open_encoder(name, device="cpu").fingerprint for name in names} == {"f13fa5c1e4c8175c"}


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(DeixisError, match=f"^{re.escape(str(gone))}: "):
        open_encoder(f"deixis:{gone}")


@pytest.mark.parametrize("file", [CONFIG, WEIGHTS])
@pytest.mark.parametrize("content", [b"", b"no safetensors at all", b"\xff" * 64])
def test_a_damaged_file_is_named(path: Path, file: str, content: bytes) -> None:
    (path / file).write_bytes(content)
    with pytest.raises(DeixisError, match=f"^{re.escape(str(path / file))}: [^\n]*$"):
        open_encoder(f"deixis:{path}")


def test_truncated_weights_are_named(path: Path) -> None:
    (path / WEIGHTS).write_bytes((path / WEIGHTS).read_bytes()[:-100])
    with pytest.raises(DeixisError, match=WEIGHTS):
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
def test_inconsistent_settings_are_refused(path: Path, change: dict[str, Any]) -> None:
    change_settings(path, change)
    with pytest.raises(DeixisError, match=f"^{re.escape(str(path))}: [^\n]*$"):
        load_network(path)


@pytest.mark.parametrize("width", [48, 2**14])
def test_a_shape_that_the_weights_do_not_have_is_refused_before_memory_is_allocated(path: Path, width: int) -> None:
    change_settings(path, {"shape": {"width": width, "heads": 2, "blocks": 2, "patch": 14, "grid": 4}})
    with pytest.raises(DeixisError, match="size mismatch"):
        load_network(path)


def test_weights_of_another_network_are_refused(path: Path) -> None:
    save_file({"weight": torch.zeros(3)}, path / WEIGHTS)
    with pytest.raises(DeixisError, match="weight"):
        load_network(path)
