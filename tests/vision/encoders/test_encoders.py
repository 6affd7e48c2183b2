"""Encoders by name: what is known, what is refused, and what tells their features apart."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from deixis.errors import DeixisError
from deixis.vision import encoders
from deixis.vision.encoders import ARCHITECTURES, open_encoder
from deixis.vision.encoders.opened import IMAGENET, PixelScale
from deixis.vision.encoders.own import save_network
from deixis.vision.encoders.vit import VisionTransformer, ViTShape

SHAPE = ViTShape(width=32, heads=2, blocks=2, grid=4)


def random_network(seed: int) -> VisionTransformer:
    torch.manual_seed(seed)
    return VisionTransformer(SHAPE)


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    save_network(tmp_path / "tiny.safetensors", random_network(0), 56, IMAGENET)
    return f"deixis:{tmp_path / 'tiny.safetensors'}"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("resnet", "no encoder resnet; there are deixis[:FILE], efficientnet-lite0, efficientnet-lite2, focus-vit, "
         "onnx:FILE, open_clip:NAME/PRETRAINED, timm:NAME, torchvision:NAME"),
        ("", "no encoder ; there are deixis[:FILE], efficientnet-lite0, efficientnet-lite2, focus-vit, "
         "onnx:FILE, open_clip:NAME/PRETRAINED, timm:NAME, torchvision:NAME"),
        ("focus-vit:9", "no encoder focus-vit:9; write focus-vit"),
        ("timm", "no encoder timm; write timm:NAME"),
        ("onnx:", "no encoder onnx:; write onnx:FILE"),
        ("efficientnet-lite2@blocks=3", "encoder efficientnet-lite2: no option 'blocks'; it has only side, aspect"),
    ],
)  # fmt: skip
def test_a_name_that_nobody_knows_is_one_line(name: str, line: str) -> None:
    with pytest.raises(DeixisError, match=f"^{re.escape(line)}$"):
        open_encoder(name)


def test_a_mistake_in_any_part_of_joined_encoders_is_found(tiny: str) -> None:
    with pytest.raises(DeixisError, match=r"^encoder focus-vit: side=300 is not a multiple of 14; try 294 or 308$"):
        open_encoder(f"{tiny}+focus-vit@side=300")


def test_every_architecture_has_its_file() -> None:
    folder = Path(encoders.__file__).parent
    assert all((folder / f"{known.file}.py").is_file() for known in ARCHITECTURES.values())


def test_the_registry_is_read_without_torch() -> None:
    code = "import sys; import deixis.vision.encoders; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_opened_encoder_tells_its_numbers(tiny: str) -> None:
    encoder = open_encoder(tiny, device="cpu")
    [features] = encoder.encode([Image.new("RGB", (100, 60), "red")])
    assert (encoder.channels, encoder.dimension) == (32, 32)
    assert features.cells.shape == (32, 4, 4)
    assert features.whole.dtype == np.float32


def test_proportions_are_kept_by_name(tiny: str) -> None:
    [features] = open_encoder(f"{tiny}@aspect=keep").encode([Image.new("RGB", (100, 50))])
    assert features.cells.shape == (32, 3, 6)


def test_the_same_encoder_joined_with_itself_has_twice_its_numbers(tiny: str) -> None:
    encoder = open_encoder(f"{tiny}+{tiny}@side=112")
    [features] = encoder.encode([Image.new("RGB", (100, 60), "red")])
    assert features.cells.shape == (64, 4, 4)
    assert encoder.name == f"{tiny}+{tiny}@side=112"


def fingerprints(folder: Path) -> Iterator[tuple[str, str]]:
    files = {
        "weights": (random_network(0), 56, IMAGENET),
        "other weights": (random_network(1), 56, IMAGENET),
        "other side": (random_network(0), 70, IMAGENET),
        "other scale": (random_network(0), 56, PixelScale((0.5,) * 3, (0.5,) * 3)),
    }
    for what, (network, side, scale) in files.items():
        path = folder / f"{what}.safetensors"
        save_network(path, network, side, scale)
        yield what, open_encoder(f"deixis:{path}").fingerprint
    path = folder / "weights.safetensors"
    yield "side", open_encoder(f"deixis:{path}@side=112").fingerprint
    yield "aspect", open_encoder(f"deixis:{path}@aspect=keep").fingerprint


def test_whatever_changes_the_numbers_changes_the_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = dict(fingerprints(tmp_path))
    first = open_encoder(f"deixis:{tmp_path / 'weights.safetensors'}")
    monkeypatch.setattr(encoders, "CODE_VERSION", encoders.CODE_VERSION + 1)
    found["code"] = open_encoder(f"deixis:{tmp_path / 'weights.safetensors'}").fingerprint
    assert len(set(found.values())) == len(found) == 7
    assert first.fingerprint == found["weights"]


def test_where_a_file_lies_and_how_its_defaults_are_written_change_no_fingerprint(tmp_path: Path, tiny: str) -> None:
    path = Path(tiny.partition(":")[2])
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(path.read_bytes())
    names = [tiny, f"deixis:{copy}", f"{tiny}@aspect=squeeze", f"{tiny}@side=56"]
    assert len({open_encoder(name).fingerprint for name in names}) == 1
