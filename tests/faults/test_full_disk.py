"""A full disk is reported in one line, loses no data, and the work can be finished once there is space."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from tests.faults.conftest import SEED, FaultRunner, Scenario, trials
from tests.faults.test_kills import SCENARIOS, assert_acknowledged_is_kept

PLENTY = 64 * 2**20
PAGE = 4096


def disk_use(folder: Path) -> int:
    """Bytes of the results, plus a page per file for temporary data."""
    return sum(path.stat().st_size + PAGE for path in (folder / "out").rglob("*") if path.is_file())


@trials(2, 4)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_full_disk_is_reported_in_one_line_and_loses_nothing(
    scenario: str, run: Scenario, runner: FaultRunner, rng: random.Random, tmp_path: Path, trials: int
) -> None:
    needed, initial = disk_use(run.complete), disk_use(run.prepared)
    errors = 0
    for number in range(trials):
        size = initial + int((needed - initial) * rng.uniform(0, 0.8))
        folder = tmp_path / f"small{number}"
        shutil.copytree(run.prepared / "in", folder / "in")
        runner.small_disk(folder / "out", PLENTY)
        runner.copy(run.prepared / "out", folder / "out")
        before = runner.inspect(scenario, folder).state
        runner.small_disk(folder / "out", max(size, PAGE), again=True)
        outcome = runner.run(scenario, folder)
        where = f"seed {SEED}, {size:,} bytes: {outcome.error}"
        if outcome.error is not None:
            errors += 1
            assert "full" in outcome.error or "No space left" in outcome.error, where
            assert str(folder / "out") in outcome.error, where
        after = runner.inspect(scenario, folder)
        if scenario == "annotating" and after.error:  # SQLite needs some space even to read
            assert "full" in after.error, where
            runner.small_disk(folder / "out", PLENTY, again=True)
            after = runner.inspect(scenario, folder)
        assert after.error is None, where
        assert_acknowledged_is_kept(scenario, set(outcome.acknowledged), before, after.state)
        runner.small_disk(folder / "out", PLENTY, again=True)
        assert runner.run(scenario, folder).error is None, where
        final = runner.inspect(scenario, folder).state
        assert_acknowledged_is_kept(scenario, set(outcome.acknowledged), after.state, final)
        if scenario != "annotating":
            assert final == run.expected, where
        runner.unmount(folder / "out")
    assert errors, "no disk was too small, so nothing was tested"
