"""kill -9 at any time: acknowledged work is kept, no partial file is read, and the next run finishes the work."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import SEED, FaultRunner, Outcome, Scenario, trials

SCENARIOS = ("importing", "replacing", "extracting", "training", "indexing", "annotating", "exporting", "backing up")


def assert_acknowledged_is_kept(scenario: str, acknowledged: set[str], before: Any, now: Any) -> None:
    """Check that everything acknowledged or readable before the kill is readable after it."""
    if scenario in ("annotating", "serving"):
        kept = {event for events in now.values() for event in events}
        assert acknowledged <= kept
        assert {event for events in before.values() for event in events} <= kept
    elif scenario == "indexing":
        assert acknowledged - {"broken.png"} <= set(now)
        assert set(before) <= set(now)
    elif scenario == "extracting":
        assert before.items() <= now.items()
    elif scenario == "training":
        assert all(before[name][0] <= now[name][0] for name in ("last", "best") if name in before)
        assert "model" in now or not acknowledged
    else:
        assert now is not None or not acknowledged
    if scenario in ("importing", "replacing") and now is not None:
        assert now["problems"] == []


@trials(1, 3)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_kill_at_any_time_loses_nothing_and_the_next_run_finishes_the_work(
    scenario: str, run: Scenario, runner: FaultRunner, rng: random.Random, tmp_path: Path, trials: int
) -> None:
    faults: list[dict[str, Any]] = [{"at": rng.randint(1, run.disk_calls)} for _ in range(2 * trials)]
    faults += [{"after_s": rng.uniform(0, run.seconds)} for _ in range(trials)]
    for number, fault in enumerate(faults):
        folder = run.copy(tmp_path / f"broken{number}")
        outcome = runner.run(scenario, folder, **fault)
        # The number of disk calls differs slightly between runs, so the last ones may never happen.
        assert outcome.killed or "after_s" in fault or outcome.disk_calls < fault["at"], f"seed {SEED}, {fault}"
        check_and_finish(runner, scenario, folder, outcome, run.expected, f"seed {SEED}, {fault}")


def check_and_finish(
    runner: FaultRunner, scenario: str, folder: Path, outcome: Outcome, expected: Any, where: str
) -> None:
    inspected = runner.inspect(scenario, folder)
    # The old directory may have been renamed; the next run restores or replaces it.
    set_aside = (folder / "out" / ".data.old").exists()
    if scenario == "replacing":
        assert inspected.state is not None or set_aside, where
    assert_acknowledged_is_kept(scenario, set(outcome.acknowledged), inspected.state, inspected.state)
    again = runner.run(scenario, folder)
    assert again.error is None, where
    assert not again.killed
    final = runner.inspect(scenario, folder).state
    assert_acknowledged_is_kept(scenario, set(outcome.acknowledged), inspected.state, final)
    if scenario not in ("annotating", "serving"):  # the order of questions depends on leases that expire
        assert final == expected, where
    leftovers = [name for name in runner.files(folder / "out") if ".partial-" in name or name.endswith(".old")]
    assert leftovers == [], where


@trials(2, 6)
@pytest.mark.parametrize("scenario", ["indexing", "extracting", "training", "annotating"])
def test_repeated_kills_in_the_same_folder_lose_nothing(
    scenario: str, run: Scenario, runner: FaultRunner, rng: random.Random, tmp_path: Path, trials: int
) -> None:
    folder = run.copy(tmp_path / "broken")
    acknowledged, before = set[str](), runner.inspect(scenario, folder).state
    for _ in range(trials):
        at = rng.randint(1, max(2, run.disk_calls // 2))
        acknowledged |= set(runner.run(scenario, folder, at=at).acknowledged)
        now = runner.inspect(scenario, folder).state
        assert_acknowledged_is_kept(scenario, acknowledged, before, now)
        before = now
    assert runner.run(scenario, folder).error is None
    final = runner.inspect(scenario, folder).state
    assert_acknowledged_is_kept(scenario, acknowledged, before, final)
    if scenario != "annotating":
        assert final == run.expected
