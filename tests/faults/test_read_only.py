"""Folders that cannot be written are reported in one line that names them; reading still works."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.faults.conftest import FaultRunner, Scenario
from tests.faults.test_kills import SCENARIOS

NOBODY = 65534


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_read_only_disk_is_reported_in_one_line_and_can_be_read(
    scenario: str, run: Scenario, runner: FaultRunner, tmp_path: Path
) -> None:
    prepared = run.copy(tmp_path / "prepared")
    done = Path(shutil.copytree(run.complete, tmp_path / "done"))
    for folder in (prepared, done):
        runner.read_only(folder / "out")
    error = runner.run(scenario, prepared).error
    assert error is not None
    assert str(prepared / "out") in error, error
    assert runner.inspect(scenario, done).state == run.expected
    for folder in (prepared, done):
        runner.unmount(folder / "out")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_folder_of_another_user_is_reported_in_one_line(scenario: str, runner: FaultRunner) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to run as another user")
    # Not in pytest's folder, which other users may not read.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        runner.prepare(scenario, Path(folder) / "project")
        error = runner.run(scenario, Path(folder) / "project", user=NOBODY).error
    assert error is not None
    assert folder in error, error
