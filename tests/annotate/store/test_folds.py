"""States that are kept between requests."""

from __future__ import annotations

import pytest

from deixis.annotate.walks import Answer, Task
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import answer, people


def test_a_kept_state_is_the_one_that_a_fresh_look_gives(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    for worker, said in ((ann, Answer.YES), (bob, Answer.YES), (ann, Answer.BOX), (bob, Answer.DRAWN)):
        answer(project, worker, said)
        with project.database.reading() as connection:
            kept = project.folds.at(connection, "dog0")
            fresh = project.folds.__class__(project.settings).at(connection, "dog0")
        assert kept == fresh
        assert kept.last == fresh.events[-1].number


def test_what_fails_is_not_kept(new_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    project, _ = new_project(1)
    [ann] = people(project, "Ann")

    def fail(*arguments: object) -> None:
        raise DeixisError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("deixis.annotate.control.update_box_checks", fail)
        with pytest.raises(DeixisError, match="the disk is full"):
            answer(project, ann, Answer.YES, Task.LINK)
    with project.database.reading() as connection:
        assert project.folds.at(connection, "dog0").events == ()
    answer(project, ann, Answer.YES, Task.LINK)
    answer(project, ann, Answer.YES, Task.VERIFY)


def test_a_photo_that_is_not_there_is_one_clear_line(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    with pytest.raises(DeixisError, match="there is no photo 'cat' in this project"), project.database.reading() as now:
        project.folds.at(now, "cat")
