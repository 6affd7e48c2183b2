"""Steps of the encoder scripts: settings from the command line, the learning rate, and the weights."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

S = TypeVar("S")


def settings_from(defaults: S, pairs: Iterable[str]) -> S:
    """Return settings with some values replaced, given as ``name=value``."""
    made: Any = defaults
    kinds = {field.name: type(getattr(made, field.name)) for field in fields(made)}
    values = dict(pair.split("=", 1) for pair in pairs)
    changed: S = replace(made, **{name: kinds[name](value) for name, value in values.items()})
    return changed


def update(optimizer: torch.optim.Optimizer, loss: Tensor, share: float) -> None:
    """Make a step. The rate rises for a fortieth of the training, then falls as a cosine; `share` of it is done."""
    for group in optimizer.param_groups:
        peak = group.setdefault("peak", group["lr"])
        group["lr"] = peak * min(1, share * 40) * (0.5 + 0.5 * math.cos(math.pi * share))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    every = [each for group in optimizer.param_groups for each in group["params"] if each.grad is not None]
    nn.utils.clip_grad_norm_(every, 1.0)
    optimizer.step()


@torch.no_grad()
def follow(average: nn.Module, network: nn.Module, rate: float) -> None:
    """Move averaged weights towards those of the network."""
    torch._foreach_lerp_(list(average.parameters()), list(network.parameters()), rate)
    for mine, other in zip(average.buffers(), network.buffers(), strict=True):
        mine.copy_(other)


class Pace:
    """Progress of a training in [0, 1]: by steps, or by time if it has a limit in minutes."""

    def __init__(self, minutes: float, steps: int = 0) -> None:
        self._minutes, self._steps = minutes, steps
        self._started = time.monotonic()
        self.number = 0

    def step(self) -> float:
        """Count a step and return the share of the training that is done with it."""
        self.number += 1
        if self._minutes:
            return min(1.0, self.seconds / (60 * self._minutes))
        return self.number / self._steps

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started
