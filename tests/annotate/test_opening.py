"""Opening a project to work in it."""

from __future__ import annotations

from dataclasses import replace

from deixis.annotate.assigning import next_question
from deixis.annotate.opening import follow_settings, open_to_work, refresh
from deixis.annotate.progress import progress
from deixis.annotate.project import SETTINGS
from deixis.annotate.recording import record
from deixis.annotate.settings import write_settings
from deixis.annotate.store.folds import Folds
from deixis.annotate.walks import Answer, Task
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import answer, people


def test_edited_rules_are_followed_and_the_same_judgements_are_read_by_them(new_project: MakeProject) -> None:
    project, clock = new_project(2)
    assert follow_settings(project) == 0
    [ann] = people(project, "Ann")
    answer(project, ann, Answer.YES, Task.LINK)
    answer(project, ann, Answer.YES, Task.VERIFY)
    answer(project, ann, Answer.SCENE, Task.REQUIREMENT)
    assert progress(project).finished == 0
    write_settings(replace(project.settings, judgements_to_end=1), project.folder / SETTINGS)
    again = open_to_work(project.folder)
    again.clock = clock
    assert progress(again).finished == 1
    assert follow_settings(again) == 0
    given = next_question(again, ann)
    assert given is not None
    assert given.photo == "dog1"
    again.close()


def test_a_project_that_is_open_takes_edited_settings_over(new_project: MakeProject) -> None:
    project, _ = new_project(2)
    follow_settings(project)
    [ann] = people(project, "Ann")
    answer(project, ann, Answer.YES, Task.LINK)
    answer(project, ann, Answer.YES, Task.VERIFY)
    answer(project, ann, Answer.SCENE, Task.REQUIREMENT)
    assert not refresh(project)
    write_settings(replace(project.settings, judgements_to_end=1), project.folder / SETTINGS)
    assert refresh(project)
    assert progress(project).finished == 1
    assert answer(project, ann, Answer.YES, Task.LINK), "work goes on by the new rules"


def test_an_answer_while_settings_are_taken_over_brings_the_questions_right(new_project: MakeProject) -> None:
    project, _ = new_project(1, judgements_to_end=2)
    ann, bob = people(project, "Ann", "Bob")
    answer(project, ann, Answer.YES, Task.LINK)
    answer(project, ann, Answer.YES, Task.VERIFY)
    given = next_question(project, bob)
    assert given is not None
    project.settings = replace(project.settings, judgements_to_end=1)
    project.folds, project.following = Folds(project.settings), True
    record(project, bob, given.token, "scene")
    assert progress(project).finished == 1
    assert next_question(project, ann) is None
