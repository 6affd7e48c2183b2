"""Cached snapshots of photos."""

from __future__ import annotations

import pytest

from deixis.annotate.transactions import SnapshotCache
from deixis.annotate.workflow import Answer, Task
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import answer, link_and_verify, people, snapshot


@on_both_databases
def test_a_cached_snapshot_equals_a_fresh_one(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    for worker, value in ((ann, Answer.YES), (bob, Answer.YES), (ann, Answer.BOX), (bob, Answer.DRAWN)):
        answer(project, worker, value)
        with project.database.reading() as connection:
            fresh = SnapshotCache(project.settings).read(connection, "dog0")
        assert snapshot(project) == fresh


def test_a_failed_transaction_is_not_cached(new_project: MakeProject, monkeypatch: pytest.MonkeyPatch) -> None:
    project, _ = new_project(1)
    [ann] = people(project, "Ann")

    def fail(*arguments: object) -> None:
        raise DeixisError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("deixis.annotate.transactions.update_box_checks", fail)
        with pytest.raises(DeixisError, match="the disk is full"):
            answer(project, ann, Answer.YES, Task.LINK)
    assert snapshot(project, "dog0").events == ()
    link_and_verify(project, ann)


def test_an_unknown_photo_is_an_error_that_names_it(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    with pytest.raises(DeixisError, match="cat"):
        snapshot(project, "cat")
