"""Everything random follows from the seed and the step, so that there is no state of a generator to lose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from deixis.training.distributed import process_number


def epoch_generator(seed: int, epoch: int) -> np.random.Generator:
    """What a sampler draws from in an epoch; the same in all processes.

    Examples
    --------
    >>> bool(epoch_generator(0, 3).random() == epoch_generator(0, 3).random())
    True
    """
    return np.random.default_rng([seed, epoch])


def seed_step(seed: int, step: int, device: torch.device) -> None:
    """Let what torch draws in a step, for dropout as a rule, follow from the step; processes draw differently."""
    drawn = np.random.SeedSequence([seed, step, process_number()]).generate_state(1, np.uint64)
    state = int(drawn[0]) >> 1
    # `torch.manual_seed` does the same for every kind of device there may be, and takes some hundred times as long.
    torch.default_generator.manual_seed(state)
    if device.type == "cuda":
        torch.cuda.manual_seed(state)


@contextmanager
def beginning(seed: int) -> Iterator[None]:
    """Let first weights follow from a seed; leave torch as it was found.

    Examples
    --------
    >>> def first() -> float:
    ...     with beginning(7):
    ...         return torch.rand(()).item()
    >>> first() == first()
    True
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


@contextmanager
def reproducible(device: torch.device, threads: int) -> Iterator[None]:
    """Compute the same from the same, on the processor bit for bit; leave torch as it was found."""
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
            # Several threads add up the gradient of `x[rows]` in the order in which they come, unless told not to.
            torch.use_deterministic_algorithms(True, warn_only=True)
            torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        torch.set_num_threads(threads_before)
        torch.use_deterministic_algorithms(strict_before, warn_only=warn_before)
        torch.utils.deterministic.fill_uninitialized_memory = fill_before  # type: ignore[attr-defined]
