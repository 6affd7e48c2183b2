"""How far a project is."""

from __future__ import annotations

import csv
import io

import pytest

from deixis.annotate.people import forget, invite
from deixis.annotate.progress import WorkerProgress, pay_table, progress
from deixis.annotate.recording import record
from deixis.annotate.walks import Answer, Task
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import answer, ask, people


def test_a_project_that_nobody_has_touched(new_project: MakeProject) -> None:
    project, _ = new_project(3)
    found = progress(project)
    assert (found.photos, found.finished, found.judged, found.cost, found.hours_left) == (3, 0, 0, 0.0, None)
    assert {task.task: task.open for task in found.tasks}[Task.LINK] == 3


def test_work_time_cost_and_what_is_left_add_up(new_project: MakeProject) -> None:
    project, clock = new_project(3, pay_per_hour=36.0, longest_item_s=100.0)
    workers = people(project, "Ann", "Bob", "Cy")
    for worker, said in ((0, "yes"), (1, "yes"), (0, "scene"), (2, "scene")):
        given = ask(project, workers[worker])
        record(project, workers[worker], given.token, said, seconds=500.0 if said == "yes" else 50.0)
        clock.now += 900
    found = progress(project)
    assert (found.finished, found.judged) == (1, 4)
    assert found.hours == pytest.approx(300 / 3600)
    assert found.cost == pytest.approx(3.0)
    assert found.hours_left == pytest.approx(2 * 300 / 3600)
    assert found.per_hour == pytest.approx(4 / 0.75)
    requirement = {task.task: task for task in found.tasks}[Task.REQUIREMENT]
    assert (requirement.judged, requirement.agreement) == (2, None)


def test_agreement_is_beyond_chance_over_what_several_were_asked(new_project: MakeProject) -> None:
    project, _ = new_project(2)
    ann, bob, cy = people(project, "Ann", "Bob", "Cy")
    for first, second in (("scene", "scene"), ("no box", "no box")):
        answer(project, ann, Answer.YES, Task.LINK)
        answer(project, ann, Answer.YES, Task.VERIFY)
        record(project, bob, ask(project, bob).token, first)
        record(project, cy, ask(project, cy).token, second)
    requirement = {task.task: task for task in progress(project).tasks}[Task.REQUIREMENT]
    assert requirement.agreement == 1.0


def test_the_pay_table_cannot_run_formulas() -> None:
    bad = WorkerProgress("w1", '=HYPERLINK("http://x")', 1, 0.1, 1.5, 0, None, {})
    [row] = csv.DictReader(io.StringIO(pay_table([bad], "EUR")))
    assert row["name"].startswith("'=")
    assert row["accuracy"] == ""


def test_somebody_forgotten_is_still_paid(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    worker, _ = invite(project, "Ann", vouched=True)
    record(project, worker, ask(project, worker).token, "yes", seconds=36.0)
    forget(project, "Ann")
    [mine] = progress(project).workers
    assert (mine.name, mine.hours) == (None, pytest.approx(0.01))
