"""Two processes that write the same files: the second is refused in one line or succeeds, and no data is mixed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.faults.conftest import SEED, FaultRunner, Scenario, trials

ONE_AT_A_TIME = ("importing", "replacing", "extracting", "training", "indexing", "exporting", "backing up")


@trials(1, 3)
@pytest.mark.parametrize("scenario", ONE_AT_A_TIME)
def test_a_second_process_is_refused_or_succeeds_and_the_result_is_complete(
    scenario: str, run: Scenario, runner: FaultRunner, rng: random.Random, tmp_path: Path, trials: int
) -> None:
    refusals = 0
    for number in range(trials + 9):
        if number >= trials and refusals:
            break  # a process may be stopped before it has locked its files, or after it
        folder = run.copy(tmp_path / f"shared{number}")
        at = rng.randint(6 * run.disk_calls // 10, 19 * run.disk_calls // 20)
        first = runner.stop_at(scenario, folder, at)
        second = runner.run(scenario, folder)
        inspected = runner.inspect(scenario, folder)  # a concurrent reader finds no partial file
        assert inspected.error is None, f"seed {SEED}, stopped at {at}"
        if second.error is not None:
            assert "another process" in second.error
            refusals += 1
        outcome = runner.resume(first)
        assert outcome.error is None or second.error is None, f"seed {SEED}, stopped at {at}: {outcome.error}"
        assert runner.inspect(scenario, folder).state == run.expected, f"seed {SEED}, stopped at {at}"
    assert refusals, f"seed {SEED}: the second process was never refused, so nothing was tested"


def test_two_processes_annotate_one_project(runner: FaultRunner, rng: random.Random, tmp_path: Path) -> None:
    runner.prepare("annotating", tmp_path)
    first = runner.stop_after("annotating", tmp_path, rng.randint(2, 6))
    assert first is not None
    second = runner.run("annotating", tmp_path)
    assert second.error is None, f"seed {SEED}"
    outcome = runner.resume(first)
    assert not set(outcome.acknowledged) & set(second.acknowledged), f"seed {SEED}: one event was acknowledged twice"
    kept = {event for events in runner.inspect("annotating", tmp_path).state.values() for event in events}
    assert set(outcome.acknowledged) | set(second.acknowledged) <= kept, f"seed {SEED}"
