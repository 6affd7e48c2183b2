"""Assignments of an outside workforce, on both databases."""

from __future__ import annotations

import pytest

from deixis.annotate.changing import RefusedError
from deixis.annotate.people import forget
from deixis.annotate.workforce import (
    all_assignments,
    begin_assignment,
    count_item,
    note_approval,
    outside_name,
)
from tests.annotate.conftest import MakeProject


def test_somebody_from_outside_is_one_worker_in_all_their_assignments(new_project: MakeProject) -> None:
    project, clock = new_project()
    first = begin_assignment(project, "A1", "H1", "W1", 2, "https://x/")
    clock.now += 1
    second = begin_assignment(project, "A2", "H1", "W1", 2, "https://x/")
    assert first.worker == second.worker
    assert outside_name(project, first.worker) == "W1"
    assert [each.id for each in all_assignments(project, "H1")] == ["A1", "A2"]


def test_an_assignment_is_done_when_its_questions_are(new_project: MakeProject) -> None:
    project, _ = new_project()
    begin_assignment(project, "A1", "H1", "W1", 2, "https://x/")
    for done in (1, 2):
        with project.database.writing() as connection:
            assert count_item(connection, "A1").done == done
    again = begin_assignment(project, "A1", "H1", "W1", 2, "https://x/")
    assert again.is_done
    note_approval(project, "A1")
    assert all_assignments(project)[0].state == "approved"


def test_nobody_takes_the_assignment_of_another(new_project: MakeProject) -> None:
    project, _ = new_project()
    begin_assignment(project, "A1", "H1", "W1", 2, "https://x/")
    for hit, worker in (("H1", "W2"), ("H2", "W1")):
        with pytest.raises(RefusedError, match="somebody else's"):
            begin_assignment(project, "A1", hit, worker, 2, "https://x/")


def test_whoever_is_forgotten_has_no_name_outside_either(new_project: MakeProject) -> None:
    project, _ = new_project()
    worker = begin_assignment(project, "A1", "H1", "W1", 2, "https://x/").worker
    forget(project, worker)
    assert outside_name(project, worker) is None
