"""The registry of encoders: names, errors and fingerprints."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from deixis.errors import DeixisError
from deixis.vision import encoders
from deixis.vision.encoders import open_encoder
from deixis.vision.encoders.base import IMAGENET, PixelScale
from deixis.vision.encoders.deixis_vit import VisionTransformer, ViTShape
from deixis.vision.encoders.saved import save_network

SHAPE = ViTShape(width=32, heads=2, blocks=2, grid=4)


def random_network(seed: int) -> VisionTransformer:
    torch.manual_seed(seed)
    return VisionTransformer(SHAPE)


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    save_network(tmp_path / "tiny", random_network(0), 56, IMAGENET)
    return f"deixis:{tmp_path / 'tiny'}"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("resnet", "resnet; .*timm:NAME, torchvision:NAME"),
        ("", r"deixis\[:FOLDER\], deixis-fast, efficientnet-lite2, timm:NAME"),
        ("deixis-fast:9", "deixis-fast:9; .*deixis-fast$"),
        ("timm", "timm; .*timm:NAME"),
        ("timm:", "timm:; .*timm:NAME"),
        ("efficientnet-lite2@blocks=3", "efficientnet-lite2: .*'blocks'.*side"),
        ("deixis@side=300", "deixis: side=300.*294 or 308"),
    ],
)
def test_the_error_about_an_unknown_name_lists_the_known_ones(name: str, line: str) -> None:
    with pytest.raises(DeixisError, match=line):
        open_encoder(name)


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [("timm:a", "timm", "timm"), ("torchvision:vgg19", "torchvision.models", "torchvision")],
)
def test_the_error_about_a_missing_package_says_what_to_install(
    name: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(DeixisError, match=rf"{name}.*pip install 'deixis\[{extra}\]'"):
        open_encoder(name)


def test_the_registry_is_read_without_torch() -> None:
    code = "import sys; import deixis.vision.encoders; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def fingerprints(folder: Path) -> Iterator[tuple[str, str]]:
    files = {
        "weights": (random_network(0), 56, IMAGENET),
        "other weights": (random_network(1), 56, IMAGENET),
        "other side": (random_network(0), 70, IMAGENET),
        "other scale": (random_network(0), 56, PixelScale((0.5,) * 3, (0.5,) * 3)),
    }
    for what, (network, side, scale) in files.items():
        path = folder / what
        save_network(path, network, side, scale)
        yield what, open_encoder(f"deixis:{path}").fingerprint
    path = folder / "weights"
    yield "side", open_encoder(f"deixis:{path}@side=112").fingerprint


def test_everything_that_affects_features_changes_the_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = dict(fingerprints(tmp_path))
    first = open_encoder(f"deixis:{tmp_path / 'weights'}")
    monkeypatch.setattr(encoders, "CODE_VERSION", encoders.CODE_VERSION + 1)
    found["code"] = open_encoder(f"deixis:{tmp_path / 'weights'}").fingerprint
    assert len(set(found.values())) == len(found) == 6
    assert first.fingerprint == found["weights"]


def test_the_path_and_explicit_defaults_do_not_change_the_fingerprint(tmp_path: Path, tiny: str) -> None:
    path = Path(tiny.partition(":")[2])
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    names = [tiny, f"deixis:{copy}", f"{tiny}@side=56"]
    assert len({open_encoder(name).fingerprint for name in names}) == 1


def test_an_error_about_a_device_names_no_file() -> None:
    with pytest.raises(DeixisError, match="^no such device: abacus"):
        open_encoder("deixis", "abacus")
