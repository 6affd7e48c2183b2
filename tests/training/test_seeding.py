"""Random numbers that follow from seed, epoch and step alone."""

from __future__ import annotations

import torch

from deixis.training.seeding import epoch_generator, reproducible, seed_step

CPU = torch.device("cpu")


def drawn(seed: int, step: int) -> float:
    seed_step(seed, step, CPU)
    return torch.rand(1, dtype=torch.float64).item()


def test_each_step_and_seed_draws_its_own_numbers_whatever_came_before() -> None:
    with reproducible(CPU, 0):
        found = {(seed, step): drawn(seed, step) for seed in range(5) for step in range(50)}
        assert len(set(found.values())) == 250
        assert drawn(3, 20) == found[3, 20]


def test_each_epoch_is_drawn_anew() -> None:
    found = {epoch_generator(seed, epoch).random() for seed in range(5) for epoch in range(5)}
    assert len(found) == 25


def test_torch_is_left_as_it_was_found_even_by_an_error() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    threads = torch.get_num_threads()
    try:
        with reproducible(CPU, threads + 1):
            assert torch.are_deterministic_algorithms_enabled()
            seed_step(0, 0, CPU)
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    assert torch.equal(torch.rand(1), expected)
    assert torch.get_num_threads() == threads
    assert not torch.are_deterministic_algorithms_enabled()
