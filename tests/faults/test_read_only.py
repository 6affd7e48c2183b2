"""Folders that cannot be written: one line that names them; whoever only reads is not disturbed."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.faults.conftest import Workshop
from tests.faults.test_kills import WORKS

NOBODY = 65534


def prepared_and_done(workshop: Workshop, work: str, folder: Path) -> Path:
    workshop.prepare(work, folder)
    shutil.copytree(folder, folder.with_name("done"))
    workshop.run(work, folder.with_name("done"))
    return folder.with_name("done")


@pytest.mark.parametrize("work", WORKS)
def test_a_read_only_disk_is_said_in_one_line_and_can_be_read(work: str, workshop: Workshop, tmp_path: Path) -> None:
    done = prepared_and_done(workshop, work, tmp_path / "begun")
    wanted = workshop.see(work, done).seen
    for folder in (tmp_path / "begun", done):
        workshop.read_only(folder / "out")
    refused = workshop.run(work, tmp_path / "begun").refused
    assert refused is not None
    assert any(words in refused for words in ("read-only", "readonly", "folder there, and writable?")), refused
    assert str(tmp_path / "begun" / "out") in refused, refused
    assert workshop.see(work, done).seen == wanted
    for folder in (tmp_path / "begun", done):
        workshop.unmount(folder / "out")


@pytest.mark.parametrize("work", WORKS)
def test_a_folder_of_somebody_else_is_said_in_one_line(work: str, workshop: Workshop) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, who alone can work as somebody else")
    # Not below pytest's own folder, which nobody else may enter.
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        workshop.prepare(work, Path(place) / "theirs")
        refused = workshop.run(work, Path(place) / "theirs", user=NOBODY).refused
    assert refused is not None
    assert any(words in refused for words in ("ermission denied", "readonly", "unable to open")), refused
    assert place in refused, refused
