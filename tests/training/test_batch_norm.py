"""Batch norm in one process; `together.py`, under torchrun, holds it to the joined rows of several."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from deixis.training.batch_norm import SharedBatchNorm, share_batch_norm


def test_in_one_process_it_is_torchs_own() -> None:
    rows = torch.randn(6, 3)
    theirs, ours = nn.BatchNorm1d(3), share_batch_norm(nn.BatchNorm1d(3))
    for mode in (True, False):
        assert torch.equal(ours.train(mode)(rows), theirs.train(mode)(rows))
    assert torch.equal(ours.running_var, theirs.running_var)


def test_weights_keep_their_names_and_their_memory() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3)))
    names, weights = list(network.state_dict()), list(network.parameters())
    network.eval()
    share_batch_norm(network)
    assert isinstance(network[1][0], SharedBatchNorm)
    assert list(network.state_dict()) == names
    assert all(ours is theirs for ours, theirs in zip(network.parameters(), weights, strict=True))
    assert not network[1][0].training


def test_a_batch_norm_with_two_names_is_shared_under_both() -> None:
    network = nn.Module()
    network.one = network.two = nn.BatchNorm1d(3)
    share_batch_norm(network)
    assert isinstance(network.one, SharedBatchNorm)
    assert isinstance(network.two, SharedBatchNorm)
    assert network.one.weight is network.two.weight


def test_sharing_twice_changes_nothing() -> None:
    network = share_batch_norm(nn.Sequential(nn.BatchNorm1d(3)))
    norm = network[0]
    assert share_batch_norm(network)[0] is norm


def test_rows_without_channels_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        SharedBatchNorm(3)(torch.ones(3))
