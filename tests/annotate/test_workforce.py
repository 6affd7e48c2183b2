"""Assignments of an external workforce, on both databases."""

from __future__ import annotations

import pytest

from deixis.annotate.people import forget_worker
from deixis.annotate.transactions import RefusedError
from deixis.annotate.workforce import count_item, external_name, list_assignments, mark_approved, start_assignment
from tests.annotate.conftest import MakeProject


def test_an_external_worker_is_one_worker_in_all_assignments(new_project: MakeProject) -> None:
    project, clock = new_project()
    first = start_assignment(project, "A1", "H1", "W1", 2, "https://x/")
    clock.now += 1
    second = start_assignment(project, "A2", "H1", "W1", 2, "https://x/")
    assert first.worker == second.worker
    assert external_name(project, first.worker) == "W1"
    assert [each.id for each in list_assignments(project, "H1")] == ["A1", "A2"]


def test_an_assignment_is_done_when_its_questions_are_answered(new_project: MakeProject) -> None:
    project, _ = new_project()
    start_assignment(project, "A1", "H1", "W1", 2, "https://x/")
    for done in (1, 2):
        with project.database.writing() as connection:
            assert count_item(connection, "A1").done == done
    again = start_assignment(project, "A1", "H1", "W1", 2, "https://x/")
    assert again.is_done
    mark_approved(project, "A1")
    assert list_assignments(project)[0].state == "approved"


def test_an_assignment_of_another_worker_is_refused(new_project: MakeProject) -> None:
    project, _ = new_project()
    start_assignment(project, "A1", "H1", "W1", 2, "https://x/")
    for hit, worker in (("H1", "W2"), ("H2", "W1")):
        with pytest.raises(RefusedError):
            start_assignment(project, "A1", hit, worker, 2, "https://x/")


def test_a_forgotten_worker_has_no_external_name(new_project: MakeProject) -> None:
    project, _ = new_project()
    worker = start_assignment(project, "A1", "H1", "W1", 2, "https://x/").worker
    forget_worker(project, worker)
    assert external_name(project, worker) is None
