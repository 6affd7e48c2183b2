"""Files of weights: what is written comes back, and what is damaged is one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn

from deixis.errors import DeixisError
from deixis.vision.weights import damaged, load_weights, save_weights


def line(config: dict[str, int]) -> nn.Linear:
    return nn.Linear(config["in"], config["out"])


def test_weights_come_back_in_single_precision_with_their_config(tmp_path: Path) -> None:
    path, network = tmp_path / "a.safetensors", nn.Linear(2, 3).double()
    save_weights(path, network, {"in": 2, "out": 3}, {"dev": 0.5})
    loaded, config = load_weights(path, "line", line)
    assert config == {"in": 2, "out": 3}
    assert not loaded.training
    assert torch.equal(loaded.weight, network.weight.half().float())
    assert {tensor.dtype for tensor in load_file(path).values()} == {torch.float16}
    with safe_open(path, framework="pt") as file:
        assert json.loads(file.metadata()["dev"]) == 0.5


def test_what_is_said_about_a_network_never_hides_its_config(tmp_path: Path) -> None:
    save_weights(tmp_path / "a.safetensors", nn.Linear(2, 3), {"in": 2, "out": 3}, {"config": "mine"})
    assert load_weights(tmp_path / "a.safetensors", "line", line)[1] == {"in": 2, "out": 3}


def test_a_size_that_the_file_does_not_hold_is_refused_before_room_is_made_for_it(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_weights(path, nn.Linear(2, 3), {"in": 2**20, "out": 2**20})
    with pytest.raises(DeixisError, match=r"a.safetensors: damaged, or no line of deixis \(ValueError: bias is not as"):
        load_weights(path, "line", line)


def test_many_lines_of_reasons_become_one() -> None:
    one_line = r"^a: damaged, or no line of deixis \(ValueError: one two\)$"
    with pytest.raises(DeixisError, match=one_line), damaged(Path("a"), "line"):
        raise ValueError("one\n\ttwo")
