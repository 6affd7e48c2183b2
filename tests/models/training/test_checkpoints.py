"""Checkpoints: what is written is read, bit for bit, without pickles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from deixis.errors import DeixisError
from deixis.models.training.checkpoints import (
    Position,
    best_epoch,
    load_optimizer,
    load_weights,
    optimizer_tensors,
    read_checkpoint,
    trained_weights,
    write_checkpoint,
)
from deixis.models.training.objective import DevScores

POSITION = Position(7, 2, 3, {"dev": [DevScores("r1", {"r1": 0.1, "mean": 1 / 3}, 4, 1)]}, 1.25, 99)


@pytest.mark.parametrize(
    ("values", "patience", "epoch", "stops"),
    [
        ((1, 3, 2), 0, 2, False),
        ((1, 3, 3, 2), 0, 2, False),
        ((1, 3, 2), 2, 2, False),
        ((1, 3, 2, 3), 2, 2, True),
        ((1, 3, 2, 3, 9), 2, 2, True),
    ],
    ids=["the best", "the first of equal ones", "not yet", "stops", "epochs after the stop are ignored"],
)
def test_the_best_epoch_before_an_early_stop(values: tuple[float, ...], patience: int, epoch: int, stops: bool) -> None:
    epochs = [DevScores("r1", {"r1": value}, number, number) for number, value in enumerate(values, 1)]
    best, stopped = best_epoch(epochs, patience)
    assert (best and best.epoch, stopped) == (epoch, stops)


def test_a_checkpoint_keeps_tensors_of_every_dtype_and_the_position(tmp_path: Path) -> None:
    tensors = {
        "bits": torch.tensor([float("nan"), -0.0, 1e-45, float("inf")]),
        "half": torch.randn(3, 2).bfloat16(),
        "whole": torch.tensor(5),
        "none": torch.empty(0, 4),
        "turned": torch.arange(6).view(2, 3).T,
    }
    write_checkpoint(tmp_path / "a.safetensors", tensors, POSITION)
    found, position = read_checkpoint(tmp_path / "a.safetensors")
    assert position == POSITION
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape)
        bits = torch.int16 if name == "half" else tensor.dtype
        assert found[name].view(bits).numpy().tobytes() == tensor.contiguous().view(bits).numpy().tobytes()


def test_tied_weights_are_written_under_both_names(tmp_path: Path) -> None:
    tied = torch.randn(2, 2)
    write_checkpoint(tmp_path / "a.safetensors", {"one": tied, "two": tied.T}, Position())
    found, _ = read_checkpoint(tmp_path / "a.safetensors")
    assert torch.equal(found["one"], tied)
    assert torch.equal(found["two"], tied.T)


@pytest.mark.parametrize("facts", [None, {"format": "deixis-checkpoint", "version": 99}])
def test_a_foreign_file_is_named(tmp_path: Path, facts: object) -> None:
    metadata = {"deixis": json.dumps(facts)} if facts else None
    save_file({"a": torch.ones(1)}, tmp_path / "a.safetensors", metadata=metadata)
    with pytest.raises(DeixisError, match="a.safetensors: "):
        read_checkpoint(tmp_path / "a.safetensors")
    with pytest.raises(DeixisError, match="b.safetensors: "):
        read_checkpoint(tmp_path / "b.safetensors")


def test_weights_that_are_missing_or_too_many_are_named(tmp_path: Path) -> None:
    network = nn.Linear(2, 2)
    with pytest.raises(DeixisError, match="x: .*bias"):
        load_weights(network, {"weight": network.weight}, Path("x"))
    with pytest.raises(DeixisError, match="x: .*scale"):
        load_weights(network, {**network.state_dict(), "scale": torch.ones(1)}, Path("x"))


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_a_loaded_optimizer_continues_identically(kind: type[torch.optim.Optimizer]) -> None:
    def made() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        network = nn.ModuleDict(
            {"frozen": nn.Linear(2, 2).requires_grad_(False), "a": nn.Linear(2, 2), "idle": nn.Linear(1, 1)}
        )
        return network, kind([weight for _, weight in trained_weights(network)], lr=0.1)

    def step(network: nn.Module, optimizer: torch.optim.Optimizer, row: torch.Tensor) -> None:
        optimizer.zero_grad()
        network["a"](row).square().sum().backward()
        optimizer.step()

    rows = torch.randn(6, 2)
    network, optimizer = made()
    for row in rows[:3]:
        step(network, optimizer, row)
    other, revived = made()
    other.load_state_dict(network.state_dict())
    saved = {name: tensor.clone() for name, tensor in optimizer_tensors(network, optimizer).items()}
    load_optimizer(other, revived, saved)
    for row in rows[3:]:
        step(network, optimizer, row)
        step(other, revived, row)
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), other.parameters(), strict=True))
