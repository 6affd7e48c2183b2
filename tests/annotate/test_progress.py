"""Progress, cost, agreement and pay."""

from __future__ import annotations

import csv
import io

import pytest
from sqlalchemy import select

from deixis.annotate.known_answers import add_known_photos
from deixis.annotate.people import forget_worker, invite
from deixis.annotate.progress import WorkerProgress, format_pay, read_progress, summarize_worker
from deixis.annotate.store import known_questions, leases
from deixis.annotate.workflow import Answer, Task
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import answer, ask, gold, link_and_verify, people, record, undo


@on_both_databases
def test_work_time_cost_and_remaining_hours_add_up(new_project: MakeProject) -> None:
    project, clock = new_project(3, pay_per_hour=36.0, longest_item_s=100.0)
    workers = people(project, "Ann", "Bob", "Cy")
    for index, value, seconds in ((0, "yes", 500.0), (1, "yes", 500.0), (0, "scene", 50.0), (2, "scene", 50.0)):
        worker = workers[index]
        record(project, worker, ask(project, worker).token, value, seconds=seconds)
        clock.now += 900
    found = read_progress(project)
    assert (found.finished, found.judged) == (1, 4)
    assert found.hours == pytest.approx(300 / 3600)
    assert found.cost == pytest.approx(3.0)
    assert found.hours_left == pytest.approx(2 * 300 / 3600)
    assert found.per_hour == pytest.approx(4 / 0.75)
    requirement = {task.task: task for task in found.tasks}[Task.REQUIREMENT]
    assert (requirement.judged, requirement.agreement) == (2, None)


def test_agreement_is_measured_on_questions_that_several_workers_answered(new_project: MakeProject) -> None:
    project, _ = new_project(2)
    ann, bob, cy = people(project, "Ann", "Bob", "Cy")
    for first, second in (("scene", "scene"), ("no box", "no box")):
        link_and_verify(project, ann)
        record(project, bob, ask(project, bob).token, first)
        record(project, cy, ask(project, cy).token, second)
    requirement = {task.task: task for task in read_progress(project).tasks}[Task.REQUIREMENT]
    assert (requirement.agreeing, requirement.compared, requirement.votes) == (1.0, 2, 4)
    assert (requirement.agreement, requirement.rare_votes) == (None, 2)  # too few differing votes for alpha


@on_both_databases
def test_alpha_is_over_the_votes_of_all_tasks_without_those_undone(new_project: MakeProject) -> None:
    project, _ = new_project(12)
    ann, bob, cy = people(project, "Ann", "Bob", "Cy")
    for number in range(12):
        link_and_verify(project, ann)
        question = ask(project, bob, tasks=[Task.REQUIREMENT])
        if number == 0:  # a slip
            undo(project, bob, record(project, bob, question.token, "box").event)
            question = ask(project, bob, tasks=[Task.REQUIREMENT])
        value = "scene" if number % 2 else "no box"
        record(project, bob, question.token, value)
        record(project, cy, ask(project, cy, tasks=[Task.REQUIREMENT]).token, value)
    found = {task.task: task for task in read_progress(project).tasks}
    assert (found[Task.REQUIREMENT].agreement, found[Task.REQUIREMENT].votes) == (1.0, 24)
    assert found[Task.LINK].agreeing is None


def test_the_pay_table_cannot_run_formulas() -> None:
    bad = WorkerProgress("w1", '=HYPERLINK("http://x")', 1, 0.1, 1.5, 0, None, {})
    [row] = csv.DictReader(io.StringIO(format_pay([bad], "EUR")))
    assert row["name"].startswith("'=")
    assert (row["pay_EUR"], row["accuracy"]) == ("1.50", "")


def test_a_forgotten_worker_is_still_paid(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    worker, _ = invite(project, "Ann", vouched=True)
    record(project, worker, ask(project, worker).token, "yes", seconds=36.0)
    forget_worker(project, "Ann")
    [mine] = read_progress(project).workers
    assert (mine.name, mine.hours) == (None, pytest.approx(0.01))


@on_both_databases
def test_a_summary_counts_the_workers_own_judgements(new_project: MakeProject) -> None:
    project, _ = new_project(photos=2, pay_per_hour=36.0)
    ann, bob = people(project, "ann", "bob")
    answer(project, ann, Answer.YES)
    answer(project, bob, Answer.YES)
    mine = summarize_worker(project, ann)
    assert mine.judged == {Task.LINK: 1}
    assert abs(mine.pay - 0.03) < 1e-9
    assert (mine.photos, mine.finished) == (2, 0)


def test_a_summary_contains_the_progress_of_the_test(new_project: MakeProject) -> None:
    project, _ = new_project(test_questions=2, first_items=1)
    add_known_photos(project, [gold(), gold("other")])
    [ann] = people(project, "ann")
    question = ask(project, ann)

    def test_of_task() -> tuple[int, int] | None:
        found = next(each.test for each in summarize_worker(project, ann).qualifications if each.task is question.task)
        return (found.done, found.of) if found else None

    assert test_of_task() == (0, 2)
    with project.database.reading() as connection:
        lease = connection.execute(select(leases).where(leases.c.token == question.token)).one()
        right = connection.scalar(select(known_questions.c.answer).where(known_questions.c.number == lease.known))
    record(project, ann, question.token, str(right))
    assert test_of_task() == (1, 2)
