"""A moving average of weights, against a plain loop."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from deixis.training.averaging import MovingAverage


def test_the_average_is_that_of_a_plain_loop() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    average = MovingAverage(network, keep=0.9)
    expected = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    for _ in range(5):
        with torch.no_grad():
            network[0].weight += torch.randn(3, 2)
        network(torch.randn(4, 2))
        average.update(network)
        for name, tensor in network.state_dict().items():
            expected[name] = 0.9 * expected[name] + 0.1 * tensor if tensor.is_floating_point() else tensor.clone()
    for name, tensor in expected.items():
        torch.testing.assert_close(average.weights[name], tensor)
    assert average.weights["1.num_batches_tracked"] == 5


def test_the_network_is_its_average_only_for_a_while() -> None:
    network = nn.Linear(1, 1)
    average = MovingAverage(network, keep=0.5)
    with torch.no_grad():
        network.weight += 2
    before, weight = network.weight.clone(), network.weight
    average.update(network)
    with pytest.raises(ZeroDivisionError), average.within(network):
        assert torch.equal(network.weight, before - 1)
        raise ZeroDivisionError
    assert torch.equal(network.weight, before)
    assert network.weight is weight  # an optimiser holds it


def test_an_average_goes_on_from_what_was_saved() -> None:
    network = nn.Linear(1, 1)
    average = MovingAverage(network, keep=0.5)
    average.restore({"weight": torch.tensor([[7.0]]), "bias": torch.tensor([8.0])})
    assert average.weights["weight"].item() == 7.0
