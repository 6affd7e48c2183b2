"""A failing disk and failed requests for memory: what was acknowledged is kept, and the next run finishes the work.

Kills and full disks do not show what happens when one call fails and the process goes on. So a library that is compiled
here stands between the process and the C library (`failing_calls.c`).
"""

from __future__ import annotations

import errno
import random
import signal
from pathlib import Path

import pytest

from tests.faults.conftest import SEED, FaultRunner, Scenario, trials
from tests.faults.test_kills import check_and_finish

WRITES, MEMORY, MEMORY_AFTER_WRITE, READS = 1, 2, 3, 4
COUNTED = {MEMORY_AFTER_WRITE: WRITES}
NEVER = 2**31
SIGNALS = (signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV)
"""How compiled libraries end a process without memory or without a file that they have mapped: like a kill."""

FAULTS = {
    "one write": (WRITES, False),
    "all writes from one on": (WRITES, True),
    "one read": (READS, False),
    "one request for memory": (MEMORY, False),
    "requests for memory after a write": (MEMORY_AFTER_WRITE, False),
}


@trials(1, 3)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("scenario", ["indexing", "annotating", "serving", "training"])
def test_a_call_that_fails_loses_nothing(
    scenario: str, fault: str, run: Scenario, runner: FaultRunner, rng: random.Random, tmp_path: Path, trials: int
) -> None:
    if not runner.fails_calls:
        pytest.skip("needs Linux and gcc: a library that lets calls fail is compiled")
    kind, all_ = FAULTS[fault]
    if scenario == "serving" and all_:
        pytest.skip("would try for ever")
    counted = runner.run(scenario, run.copy(tmp_path / "counted"), failing=[COUNTED.get(kind, kind), NEVER, 0, False])
    assert counted.disk_calls > 20
    errors = 0
    for at in sorted(rng.sample(range(1, counted.disk_calls), trials)):
        folder = run.copy(tmp_path / f"broken{at}")
        outcome = runner.run(scenario, folder, signals=SIGNALS, failing=[kind, at, errno.EIO, all_])
        errors += outcome.error is not None
        if kind == READS and scenario != "training":
            assert "restore" not in (outcome.error or ""), "what a disk did not give is not damaged"
            assert "rebuild" not in (outcome.error or "")
        check_and_finish(runner, scenario, folder, outcome, run.expected, f"seed {SEED}, {fault}, call {at}")
    assert errors or not all_, "no call failed, so nothing was tested"
