"""Backups."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.annotate.keeping import backup
from deixis.annotate.progress import progress
from deixis.annotate.project import open_project
from deixis.annotate.walks import Answer, Task
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import answer, people


def test_a_backup_opens_like_the_project_and_work_goes_on_in_it(new_project: MakeProject, tmp_path: Path) -> None:
    project, clock = new_project(2)
    ann, bob = people(project, "Ann", "Bob")
    answer(project, ann, Answer.YES, Task.LINK)
    assert backup(project, tmp_path / "copy") == 1
    copy = open_project(tmp_path / "copy")
    copy.clock = clock
    assert progress(copy) == progress(project)
    answer(copy, bob, Answer.YES, Task.VERIFY)
    answer(project, bob, Answer.NO, Task.VERIFY)
    assert progress(copy).judged == 2
    copy.close()


def test_a_backup_never_takes_the_place_of_something_else(new_project: MakeProject, tmp_path: Path) -> None:
    project, _ = new_project(1)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "thesis.txt").write_text("precious")
    with pytest.raises(DeixisError, match="exists already"):
        backup(project, tmp_path / "copy")
