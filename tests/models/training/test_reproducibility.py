"""Reproducible training: the device, random numbers by seed, epoch and step, and the state of torch."""

from __future__ import annotations

import pytest
import torch

from deixis.errors import DeixisError
from deixis.models.training.reproducibility import chosen_device, epoch_generator, reproducible, seed_step

CPU = torch.device("cpu")


@pytest.mark.parametrize("device", ["abacus", *([] if torch.cuda.is_available() else ["cuda"])])
def test_a_missing_device_is_refused(device: str) -> None:
    with pytest.raises(DeixisError, match=f"device={device}") as refusal:
        chosen_device(device)
    assert "\n" not in str(refusal.value)


def drawn(seed: int, step: int) -> float:
    seed_step(seed, step, CPU)
    return torch.rand(1, dtype=torch.float64).item()


def test_random_numbers_depend_on_step_and_seed_only() -> None:
    with reproducible(CPU, 0):
        found = {(seed, step): drawn(seed, step) for seed in range(5) for step in range(50)}
        assert len(set(found.values())) == 250
        assert drawn(3, 20) == found[3, 20]


def test_each_epoch_has_its_own_random_numbers() -> None:
    assert len({epoch_generator(seed, epoch).random() for seed in range(5) for epoch in range(5)}) == 25


def test_the_state_of_torch_is_restored_even_after_an_error() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    threads = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError), reproducible(CPU, threads + 1):
        assert torch.are_deterministic_algorithms_enabled()
        seed_step(0, 0, CPU)
        raise ZeroDivisionError
    assert torch.equal(torch.rand(1), expected)
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()
