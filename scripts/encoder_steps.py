"""Steps of the encoder scripts: settings from the command line, the learning rate, and the weights."""

from __future__ import annotations

import json
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
    """Number of steps that fit into some minutes, counted from the start and measured over a hundred steps."""

    def __init__(self, minutes: float) -> None:
        self._minutes = minutes
        self.started = self._begun = time.monotonic()

    def steps(self, number: int, planned: int) -> int:
        """Return how many steps to make in all, after `number` of them; without a limit, those planned."""
        if self._minutes and number == 20:  # compiled
            self._begun = _finished()
        if self._minutes and number == 120:
            pace = (_finished() - self._begun) / 100
            planned = number + int((self._minutes * 60 - self.seconds) / pace)
            print(json.dumps({"pace": pace, "steps": planned}), flush=True)
        return planned

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


def _finished() -> float:
    """Time when the GPU has done what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.monotonic()
