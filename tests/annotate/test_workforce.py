"""Assignments of an external workforce."""

from __future__ import annotations

import pytest

from deixis.annotate.people import forget_worker
from deixis.annotate.project import Project
from deixis.annotate.transactions import RefusedError
from deixis.annotate.workforce import (
    Assignment,
    count_item,
    external_name,
    list_assignments,
    start_assignment,
)
from tests.annotate.conftest import MakeProject, on_both_databases


def start(project: Project, assignment: str = "A1", worker: str = "W1", items: int = 2, hit: str = "H1") -> Assignment:
    return start_assignment(project, assignment, hit, worker, items, "https://x/")


def count(project: Project, assignment: str) -> int:
    with project.database.writing() as connection:
        return count_item(connection, assignment).done


@on_both_databases
def test_an_external_worker_is_one_worker_in_all_assignments(new_project: MakeProject) -> None:
    project, clock = new_project()
    first = start(project)
    clock.now += 1
    second = start(project, "A2")
    assert first.worker == second.worker
    assert external_name(project, first.worker) == "W1"
    assert [each.id for each in list_assignments(project)] == ["A1", "A2"]
    forget_worker(project, first.worker)
    assert external_name(project, first.worker) is None


def test_an_assignment_is_done_when_its_questions_are_answered(new_project: MakeProject) -> None:
    project, _ = new_project()
    start(project)
    assert [count(project, "A1"), count(project, "A1")] == [1, 2]
    assert start(project).is_done


def test_an_assignment_of_another_worker_is_refused(new_project: MakeProject) -> None:
    project, _ = new_project()
    start(project)
    for hit, worker in (("H1", "W2"), ("H2", "W1")):
        with pytest.raises(RefusedError):
            start(project, worker=worker, hit=hit)
