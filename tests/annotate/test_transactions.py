"""Cached snapshots of photos."""

from __future__ import annotations

import pytest

from deixis.annotate.workflow import Answer, Task
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import answer, people


def test_a_cached_snapshot_equals_a_fresh_one(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    for worker, said in ((ann, Answer.YES), (bob, Answer.YES), (ann, Answer.BOX), (bob, Answer.DRAWN)):
        answer(project, worker, said)
        with project.database.reading() as connection:
            kept = project.snapshots.read(connection, "dog0")
            fresh = project.snapshots.__class__(project.settings).read(connection, "dog0")
        assert kept == fresh
        assert kept.last_event == fresh.events[-1].number


def test_a_failed_transaction_is_not_cached(new_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    project, _ = new_project(1)
    [ann] = people(project, "Ann")

    def fail(*arguments: object) -> None:
        raise DeixisError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("deixis.annotate.transactions.update_box_checks", fail)
        with pytest.raises(DeixisError, match="the disk is full"):
            answer(project, ann, Answer.YES, Task.LINK)
    with project.database.reading() as connection:
        assert project.snapshots.read(connection, "dog0").events == ()
    answer(project, ann, Answer.YES, Task.LINK)
    answer(project, ann, Answer.YES, Task.VERIFY)


def test_an_unknown_photo_is_an_error_that_names_it(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    with pytest.raises(DeixisError, match="cat"), project.database.reading() as now:
        project.snapshots.read(now, "cat")
