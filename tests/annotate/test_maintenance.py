"""Edited settings."""

from __future__ import annotations

from dataclasses import replace

from deixis.annotate.maintenance import apply_settings, open_for_work, reload_settings
from deixis.annotate.progress import read_progress
from deixis.annotate.project import SETTINGS_FILE
from deixis.annotate.settings import write_settings
from deixis.annotate.transactions import SnapshotCache
from deixis.annotate.workflow import Answer, Task
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import answer, next_question, people, record


def test_edited_rules_apply_to_existing_judgements(new_project: MakeProject) -> None:
    project, clock = new_project(2)
    assert apply_settings(project) == 0
    [ann] = people(project, "Ann")
    answer(project, ann, Answer.YES, Task.LINK)
    answer(project, ann, Answer.YES, Task.VERIFY)
    answer(project, ann, Answer.SCENE, Task.REQUIREMENT)
    assert read_progress(project).finished == 0
    write_settings(replace(project.settings, judgements_to_end=1), project.folder / SETTINGS_FILE)
    again = open_for_work(project.folder)
    again.clock = clock
    assert read_progress(again).finished == 1
    assert apply_settings(again) == 0
    question = next_question(again, ann)
    assert question is not None
    assert question.photo == "dog1"
    again.close()


def test_an_open_project_reloads_edited_settings(new_project: MakeProject) -> None:
    project, _ = new_project(2)
    apply_settings(project)
    [ann] = people(project, "Ann")
    answer(project, ann, Answer.YES, Task.LINK)
    answer(project, ann, Answer.YES, Task.VERIFY)
    answer(project, ann, Answer.SCENE, Task.REQUIREMENT)
    assert not reload_settings(project)
    write_settings(replace(project.settings, judgements_to_end=1), project.folder / SETTINGS_FILE)
    assert reload_settings(project)
    assert read_progress(project).finished == 1
    assert answer(project, ann, Answer.YES, Task.LINK), "work goes on by the new rules"


def test_an_answer_while_settings_change_updates_the_questions_correctly(new_project: MakeProject) -> None:
    project, _ = new_project(1, judgements_to_end=2)
    ann, bob = people(project, "Ann", "Bob")
    answer(project, ann, Answer.YES, Task.LINK)
    answer(project, ann, Answer.YES, Task.VERIFY)
    question = next_question(project, bob)
    assert question is not None
    project.settings = replace(project.settings, judgements_to_end=1)
    project.snapshots, project.following = SnapshotCache(project.settings), True
    record(project, bob, question.token, "scene")
    assert read_progress(project).finished == 1
    assert next_question(project, ann) is None
