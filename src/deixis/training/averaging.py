"""A moving average of a network's weights: steadier than the weights themselves, and often better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class MovingAverage:
    """The average of what a network's weights and running statistics have been.

    Parameters
    ----------
    network
        The average begins as what it is now.
    keep
        The share of the average that stays at each step, below 1.

    Examples
    --------
    >>> network = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.zeros_(network.weight)
    >>> average = MovingAverage(network, keep=0.75)
    >>> _ = nn.init.ones_(network.weight)
    >>> average.update(network)
    >>> average.weights["weight"].item()
    0.25
    """

    def __init__(self, network: nn.Module, keep: float) -> None:
        self.keep = keep
        self.weights = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        """Take in what the network is now."""
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                self.weights[name].lerp_(tensor, 1 - self.keep)
            else:
                self.weights[name].copy_(tensor)

    @torch.no_grad()
    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Go on from an average that was saved."""
        for name, tensor in self.weights.items():
            tensor.copy_(weights[name])

    @contextmanager
    def within(self, network: nn.Module) -> Iterator[None]:
        """Let the network be its average for a while."""
        own = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
        network.load_state_dict(self.weights)
        try:
            yield
        finally:
            network.load_state_dict(own)
