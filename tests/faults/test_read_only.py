"""Folders that cannot be written are reported in one line that names them; reading still works."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.faults.conftest import FaultRunner
from tests.faults.test_kills import SCENARIOS

NOBODY = 65534


def prepare_and_run(runner: FaultRunner, scenario: str, folder: Path) -> Path:
    runner.prepare(scenario, folder)
    shutil.copytree(folder, folder.with_name("done"))
    runner.run(scenario, folder.with_name("done"))
    return folder.with_name("done")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_read_only_disk_is_reported_in_one_line_and_can_be_read(
    scenario: str, runner: FaultRunner, tmp_path: Path
) -> None:
    done = prepare_and_run(runner, scenario, tmp_path / "prepared")
    expected = runner.inspect(scenario, done).state
    for folder in (tmp_path / "prepared", done):
        runner.read_only(folder / "out")
    error = runner.run(scenario, tmp_path / "prepared").error
    assert error is not None
    assert any(words in error for words in ("read-only", "readonly", "folder there, and writable?")), error
    assert str(tmp_path / "prepared" / "out") in error, error
    assert runner.inspect(scenario, done).state == expected
    for folder in (tmp_path / "prepared", done):
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

    assert any(words in error for words in ("ermission denied", "readonly", "unable to open")), error
    assert folder in error, error
