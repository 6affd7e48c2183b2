"""Steps of the encoder scripts: settings from the command line, the learning rate, and the weights."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

S = TypeVar("S")


def settings_from(defaults: S, pairs: Iterable[str]) -> S:
    """Return settings with some values replaced, given as ``name=value``."""
    made: Any = defaults
    kinds = {field.name: type(getattr(made, field.name)) for field in fields(made)}
    values = dict(pair.split("=", 1) for pair in pairs)
    if unknown := values.keys() - kinds.keys():
        raise SystemExit(f"--set {', '.join(sorted(unknown))}: unknown; the settings are {', '.join(kinds)}")
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
    """Progress of a training in [0, 1]: by steps, or by time if it has a limit in minutes.

    The limit counts from `started`, such as the start of the program, and leaves `reserve` seconds for what follows the
    last step. Progress begins with the first step.
    """

    def __init__(self, minutes: float, steps: int = 0, started: float | None = None, reserve: float = 0.0) -> None:
        now = time.monotonic()
        self._steps = max(1, steps)
        self._limit = 60 * minutes and max(1.0, 60 * minutes - reserve - now + (started or now))
        self._started = now
        self.number = 0

    def step(self) -> float:
        """Count a step and return the share of the training that is done with it."""
        self.number += 1
        return self.done

    @property
    def done(self) -> float:
        return min(1.0, self.seconds / self._limit if self._limit else self.number / self._steps)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def state_dict(self) -> dict[str, float]:
        return {"number": self.number, "done": self.done}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Continue where another run was: of a limit in time, what is left of it is for what was left to do."""
        self.number = int(state["number"])
        if self._limit:
            self._limit /= max(1e-6, 1 - state["done"])
            self._started -= state["done"] * self._limit


class Checkpoint:
    """The full state of a training in a file, to resume it after it was killed."""

    def __init__(self, file: Path | None, parts: dict[str, Any]) -> None:
        self._file, self._parts = file, parts

    def save(self) -> None:
        if self._file is None:
            return
        state = {name: part.state_dict() for name, part in self._parts.items()} | {"random": random_state()}
        partial = self._file.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self._file)

    def restore(self) -> bool:
        """Continue from the file, if there is one."""
        if self._file is None or not self._file.is_file():
            return False
        state = torch.load(self._file, map_location="cpu", weights_only=True)
        for name, part in self._parts.items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["random"][0])
        if torch.cuda.is_available():
            torch.cuda.set_rng_state(state["random"][1])
        return True


def random_state() -> list[Tensor]:
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_available() else [])]
