"""Creating, opening and copying projects."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.annotate.progress import read_progress
from deixis.annotate.project import PROJECT_FILE, add_photos, backup_project, make_project, open_project
from deixis.annotate.settings import Settings
from deixis.annotate.workflow import Answer, Task
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import answer, dogs, people


def test_photos_are_added_once(new_project: MakeProject) -> None:
    project, _ = new_project(2)
    assert add_photos(project, dogs(3)) == (1, 2)
    assert add_photos(project, dogs(3)) == (0, 3)


def test_a_project_is_opened_with_its_settings(tmp_path: Path) -> None:
    make_project(tmp_path / "p", settings=Settings(first_items=7), images=tmp_path).close()
    again = open_project(tmp_path / "p")
    assert (again.settings.first_items, again.images) == (7, tmp_path)
    again.close()


def test_a_folder_that_is_no_project_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="deixis annotate init"):
        open_project(tmp_path / "none")
    (tmp_path / PROJECT_FILE).write_text("{")
    with pytest.raises(DeixisError, match="project.json"):
        open_project(tmp_path)
    (tmp_path / PROJECT_FILE).write_text("[1]")
    with pytest.raises(DeixisError, match="project.json"):
        open_project(tmp_path)


def test_a_project_does_not_replace_another(tmp_path: Path) -> None:
    make_project(tmp_path / "p").close()
    with pytest.raises(DeixisError, match="exists already"):
        make_project(tmp_path / "p")


def test_work_can_continue_in_a_backup(new_project: MakeProject, tmp_path: Path) -> None:
    project, clock = new_project(2)
    ann, bob = people(project, "Ann", "Bob")
    answer(project, ann, Answer.YES, Task.LINK)
    assert backup_project(project, tmp_path / "copy") == 1
    copy = open_project(tmp_path / "copy")
    copy.clock = clock
    assert read_progress(copy) == read_progress(project)
    answer(copy, bob, Answer.YES, Task.VERIFY)
    answer(project, bob, Answer.NO, Task.VERIFY)
    assert read_progress(copy).judged == 2
    copy.close()


def test_a_backup_replaces_nothing(new_project: MakeProject, tmp_path: Path) -> None:
    project, _ = new_project(1)
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "thesis.txt").write_text("precious")
    with pytest.raises(DeixisError, match="exists already"):
        backup_project(project, tmp_path / "copy")
