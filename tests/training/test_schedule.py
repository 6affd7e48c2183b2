"""The learning rate, step by step."""

from __future__ import annotations

import pytest

from deixis.training.schedule import learning_rate_at
from deixis.training.settings import TrainSettings


def rates(steps_per_epoch: int = 10, **chosen: object) -> list[float]:
    settings = TrainSettings(epochs=4, learning_rate=1.0, **chosen)
    return [learning_rate_at(step, settings, steps_per_epoch) for step in range(4 * steps_per_epoch)]


def test_constant_stays() -> None:
    assert set(rates()) == {1.0}


def test_warmup_rises_evenly_to_the_highest() -> None:
    assert rates(warmup=4)[:6] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0])


def test_cosine_falls_from_the_highest_to_nearly_nothing() -> None:
    found = rates(schedule="cosine", warmup=4)
    assert found[4] == 1.0
    assert found[4 + 18] == pytest.approx(0.5)
    assert found[4:] == sorted(found[4:], reverse=True)
    assert 0 < found[-1] < 0.01


def test_step_falls_at_the_ends_of_epochs() -> None:
    found = rates(schedule="step", decay_epochs=2, decay=0.5)
    assert found == [1.0] * 20 + [0.5] * 20


def test_a_schedule_that_has_ended_gives_no_negative_rate() -> None:
    settings = TrainSettings(epochs=1, schedule="cosine")
    assert learning_rate_at(50, settings, 10) == 0.0
