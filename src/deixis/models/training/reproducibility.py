"""Reproducible training: the device, random numbers that depend only on seed, epoch and step, exact computation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from deixis.errors import DeixisError


def chosen_device(name: str) -> torch.device:
    """Return the device of this name; ``auto`` is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise DeixisError(f"device={name}: torch cannot use it here ({reason})") from error
    return device


def epoch_generator(seed: int, epoch: int) -> np.random.Generator:
    return np.random.default_rng([seed, epoch])


def seed_step(seed: int, step: int, device: torch.device) -> None:
    """Seed torch for a step, for dropout."""
    drawn = np.random.SeedSequence([seed, step, 0]).generate_state(1, np.uint64)
    state = int(drawn[0]) >> 1
    # `torch.manual_seed` seeds every kind of device, which takes some hundred times as long.
    torch.default_generator.manual_seed(state)
    if device.type == "cuda":
        torch.cuda.manual_seed(state)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the initial weights; the state of torch is restored afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def reproducible(device: torch.device, threads: int) -> Iterator[None]:
    """Compute deterministically, on the CPU bit for bit; the state of torch is restored afterwards."""
    threads_before = torch.get_num_threads()
    strict_before, warn_before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    fill_before = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    try:
        if threads:
            torch.set_num_threads(threads)
        if device.type == "cpu":
            # By default, threads add up the gradient of `x[rows]` in the order in which they finish.
            torch.use_deterministic_algorithms(True, warn_only=True)
            torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        torch.set_num_threads(threads_before)
        torch.use_deterministic_algorithms(strict_before, warn_only=warn_before)
        torch.utils.deterministic.fill_uninitialized_memory = fill_before  # type: ignore[attr-defined]
