"""Creating, opening and copying projects, and edited settings."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from deixis.annotate.judgements import SnapshotCache
from deixis.annotate.progress import read_progress
from deixis.annotate.project import (
    PROJECT_FILE,
    SETTINGS_FILE,
    SQLITE_FILE,
    add_photos,
    apply_settings,
    backup_project,
    find_damage,
    make_project,
    open_for_work,
    open_project,
    reload_settings,
)
from deixis.annotate.settings import Settings, write_settings
from deixis.annotate.workflow import Answer, Task
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import answer, ask, dogs, link_and_verify, next_question, people, record


@on_both_databases
def test_photos_are_added_once(new_project: MakeProject) -> None:
    project, _ = new_project(2)
    assert add_photos(project, dogs(3)) == (1, 2)
    assert add_photos(project, dogs(3)) == (0, 3)


def test_a_project_is_opened_with_its_settings_and_replaces_no_other(tmp_path: Path) -> None:
    make_project(tmp_path / "p", settings=Settings(first_items=7), images=tmp_path).close()
    again = open_project(tmp_path / "p")
    assert (again.settings.first_items, again.images) == (7, tmp_path)
    again.close()
    with pytest.raises(DeixisError, match="exists already"):
        make_project(tmp_path / "p")


@pytest.mark.skipif(os.name == "nt", reason="has no such names")
@pytest.mark.parametrize(
    "name", ["what?", "50%25 done", "a%2Fb", "a?mode=memory", "a#b", "file:a?b", os.fsdecode(b"\xff")]
)
def test_a_project_is_in_its_folder_whatever_its_name(name: str, tmp_path: Path) -> None:
    project = make_project(tmp_path / name)
    add_photos(project, dogs(1))
    backup_project(project, tmp_path / f"{name} copy")
    project.close()
    for folder in (tmp_path / name, tmp_path / f"{name} copy"):
        opened = open_project(folder)
        assert add_photos(opened, dogs(1)) == (0, 1)
        opened.close()
        assert (folder / SQLITE_FILE).stat().st_size > 0
        assert list(find_damage(folder)) == []
    assert {path.name for path in tmp_path.iterdir()} == {name, f"{name} copy"}


def test_a_folder_that_is_no_project_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="deixis annotate init"):
        open_project(tmp_path / "none")
    for text in ("{", "[1]"):
        (tmp_path / PROJECT_FILE).write_text(text)
        with pytest.raises(DeixisError, match=PROJECT_FILE):
            open_project(tmp_path)


@on_both_databases
def test_work_can_continue_in_a_backup_which_replaces_nothing(new_project: MakeProject, tmp_path: Path) -> None:
    project, clock = new_project(2)
    ann, bob = people(project, "Ann", "Bob")
    answer(project, ann, Answer.YES, Task.LINK)
    assert backup_project(project, tmp_path / "copy") == 1
    with pytest.raises(DeixisError, match="exists already"):
        backup_project(project, tmp_path / "copy")
    copy = open_project(tmp_path / "copy")
    copy.clock = clock
    assert read_progress(copy) == read_progress(project)
    answer(copy, bob, Answer.YES, Task.VERIFY)
    answer(project, bob, Answer.NO, Task.VERIFY)
    assert read_progress(copy).judged == 2
    copy.close()


@pytest.mark.parametrize("reopen", [True, False])
def test_edited_rules_apply_to_existing_judgements(new_project: MakeProject, reopen: bool) -> None:
    project, clock = new_project(2)
    assert apply_settings(project) == 0
    [ann] = people(project, "Ann")
    link_and_verify(project, ann)
    answer(project, ann, Answer.SCENE, Task.REQUIREMENT)
    assert not reload_settings(project)
    assert read_progress(project).finished == 0
    write_settings(replace(project.settings, judgements_to_end=1), project.folder / SETTINGS_FILE)
    if reopen:
        project = open_for_work(project.folder)
        project.clock = clock
    else:
        assert reload_settings(project)
    assert read_progress(project).finished == 1
    assert apply_settings(project) == 0
    assert ask(project, ann).photo == "dog1"
    if reopen:
        project.close()


def test_edited_settings_with_a_mistake_are_reported_once_and_on_the_dashboard(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    file = project.folder / SETTINGS_FILE
    good = file.read_text()
    file.write_text(good.replace('"lease_s": 600.0', '"lease_s": 600.0,,'))
    with pytest.raises(DeixisError, match=SETTINGS_FILE):
        reload_settings(project)
    assert not reload_settings(project)  # the server asks every two seconds, and has other work
    assert any(SETTINGS_FILE in line for line in read_progress(project).advice)
    file.write_text(good)
    assert not reload_settings(project)
    assert not any(SETTINGS_FILE in line for line in read_progress(project).advice)


def test_an_answer_while_settings_change_updates_the_questions_correctly(new_project: MakeProject) -> None:
    project, _ = new_project(1, judgements_to_end=2)
    ann, bob = people(project, "Ann", "Bob")
    link_and_verify(project, ann)
    question = ask(project, bob)
    project.settings = replace(project.settings, judgements_to_end=1)
    project.snapshots = SnapshotCache(project.settings)
    record(project, bob, question.token, "scene")
    assert read_progress(project).finished == 1
    assert next_question(project, ann) is None
