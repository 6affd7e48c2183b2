"""Weights of networks as arrays: what is taken from one network is set in another, and other arrays are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from deixis.runtime.modules import set_weights, weights_of, without_weights
from deixis.storage.artifacts import Artifact, read_artifact, write_artifact


def empty(columns: int = 2, rows: int = 3) -> nn.Linear:
    with without_weights():
        return nn.Linear(columns, rows)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("keep_half", [False, True])
def test_saved_weights_are_set_in_single_precision(tmp_path: Path, mapped: bool, half: bool, keep_half: bool) -> None:
    network, loaded = nn.Linear(2, 3), empty()
    write_artifact(tmp_path / "a", Artifact("line", {}, weights_of(network)), half=half)
    set_weights(loaded, read_artifact(tmp_path / "a", mapped=mapped, keep_half=keep_half).arrays)
    expected = network.weight.half().float() if half else network.weight
    assert loaded.weight.dtype == torch.float32
    assert torch.equal(loaded.weight, expected)
    assert not loaded.training
    with torch.no_grad():
        loaded.weight += 1  # memory-mapped arrays are copied


def test_a_network_without_weights_takes_no_memory() -> None:
    assert empty(2**20, 2**20).weight.is_meta


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"weight": np.zeros((3, 2), np.float32)},
        {"weight": np.zeros((3, 2), np.float32), "bias": np.zeros(4, np.float32)},
        {"weight": np.zeros((3, 2), np.float32), "bias": np.zeros(3, np.float32), "extra": np.zeros(1)},
    ],
)
def test_arrays_of_another_network_are_refused(arrays: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="weight|bias|extra"):
        set_weights(empty(), arrays)
