"""How fast, and how long still."""

from __future__ import annotations

import pytest

from deixis.training.pace import Pace, in_words


def test_throughput_is_that_since_the_last_look_and_time_left_that_of_all() -> None:
    now = 100.0
    pace = Pace(step=0, steps=100, seconds=0.0, clock=lambda: now)
    now = 110.0
    assert pace.steps_per_s(10) == pytest.approx(1.0)
    now = 115.0
    assert pace.steps_per_s(20) == pytest.approx(2.0)
    assert pace.left == pytest.approx(80 * 15 / 20)
    assert pace.seconds == pytest.approx(15.0)


def test_a_run_that_goes_on_counts_what_it_took_before_but_not_its_pace() -> None:
    now = 0.0
    pace = Pace(step=50, steps=100, seconds=1000.0, clock=lambda: now)
    now = 10.0
    pace.steps_per_s(60)
    assert pace.seconds == pytest.approx(1010.0)
    assert pace.left == pytest.approx(40.0)


def test_a_pause_slows_the_whole_run_but_not_the_next_steps() -> None:
    now = 0.0
    pace = Pace(step=0, steps=100, seconds=0.0, clock=lambda: now)
    now = 10.0
    pace.steps_per_s(10)
    now = 30.0
    pace.pause_ends()
    now = 40.0
    assert pace.steps_per_s(20) == pytest.approx(1.0)
    assert pace.left == pytest.approx(80 * 40 / 20)


def test_before_the_first_step_and_after_the_last_nothing_breaks() -> None:
    pace = Pace(step=5, steps=5, seconds=0.0, clock=lambda: 0.0)
    assert pace.left == 0.0
    assert pace.steps_per_s(5) == 0.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (59.6, "1 min 0 s"), (3599, "59 min 59 s"), (3600, "1 h 0 min"), (1e5, "27 h 46 min")],
)
def test_lengths_of_time_are_said_as_people_do(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
