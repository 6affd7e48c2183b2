"""Questions that nobody can answer, and what a reviewer can do about them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deixis.annotate.blocked import ASK_AGAIN, WaitsFor, blocked_questions
from deixis.annotate.material import prepare_photo
from deixis.annotate.people import Role
from deixis.annotate.progress import read_progress
from deixis.annotate.project import add_photos
from deixis.annotate.review import decide, review_queue
from deixis.annotate.transactions import RefusedError
from deixis.annotate.workflow import Task
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import ask, join, next_question, photo, record, skip, snapshot


def test_a_tie_of_two_workers_waits_for_a_third_person_and_a_reviewer_can_decide(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = join(project, "Ann", "Bob")
    [lead] = join(project, "Lead", role=Role.OWNER)
    for worker, value in ((ann, "yes"), (bob, "yes"), (ann, "scene"), (bob, "no box")):
        record(project, worker, ask(project, worker).token, value)
    assert next_question(project, ann) is None
    [blocked] = blocked_questions(project)
    assert (blocked.task, blocked.waits_for) == (Task.REQUIREMENT, WaitsFor.ANOTHER_PERSON)
    assert blocked.answered == ("Ann", "Bob")
    assert read_progress(project).blocked == {"another person": 1}
    [case] = review_queue(project)
    assert case.holds_up
    assert case.decisions == ("box", "scene", "no box")
    decide(project, lead, case.photo, case.mention, "scene")
    assert snapshot(project, "dog0").state.finished
    assert review_queue(project) == []


def test_a_third_worker_ends_the_wait(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = join(project, "Ann", "Bob")
    for worker, value in ((ann, "yes"), (bob, "yes"), (ann, "scene"), (bob, "no box")):
        record(project, worker, ask(project, worker).token, value)
    assert len(blocked_questions(project)) == 1
    join(project, "Cy")
    assert blocked_questions(project) == []


@pytest.mark.parametrize("decision", ["yes", ASK_AGAIN])
def test_a_question_that_everybody_skipped_is_answered_by_a_reviewer_or_asked_again(
    new_project: MakeProject, decision: str
) -> None:
    project, _ = new_project(1)
    ann, bob = join(project, "Ann", "Bob")
    [lead] = join(project, "Lead", role=Role.OWNER)
    for worker in (ann, bob):
        skip(project, worker, ask(project, worker).token)
    [blocked] = blocked_questions(project)
    assert blocked.skipped == ("Ann", "Bob")
    assert ASK_AGAIN in blocked.decisions
    skips = {worker.name: worker.skipped for worker in read_progress(project).workers}
    assert skips == {"Ann": 1, "Bob": 1, "Lead": 0}
    decide(project, lead, blocked.photo, blocked.mention, decision)
    assert blocked_questions(project) == []
    assert ask(project, ann).task is (Task.VERIFY if decision == "yes" else Task.LINK)


def test_a_reviewer_sees_all_phrases_of_a_blocked_link(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    [ann] = join(project, "Ann")
    skip(project, ann, ask(project, ann).token)
    [case] = review_queue(project)
    assert case.phrase == "A dog · The dog"
    assert set(case.mentions) == {"0:0-5", "1:0-7"}
    assert case.mention == case.mentions[0]


@pytest.mark.parametrize("task", [Task.QUALITY, Task.COVERAGE])
def test_answers_that_need_a_box_are_no_decisions(new_project: MakeProject, task: Task) -> None:
    project, _ = new_project(0)
    add_photos(project, [prepare_photo(photo("A man smiles."))])
    ann, bob, cy = join(project, "Ann", "Bob", "Cy")
    [lead] = join(project, "Lead", role=Role.OWNER)
    record(project, ann, ask(project, ann).token, "drawn", box=(1, 1, 9, 9))
    if task is Task.COVERAGE:
        record(project, bob, ask(project, bob).token, "good")
    for worker in (ann, bob, cy):
        if (question := next_question(project, worker)) is not None:
            skip(project, worker, question.token)
    [case] = review_queue(project)  # the phrase that two have skipped is no second case
    answers = ("good", "bad") if task is Task.QUALITY else ("all", "more")
    assert case.decisions == (*answers, ASK_AGAIN, "drop")
    needs_box = "adjusted" if task is Task.QUALITY else "wrong box"
    with pytest.raises(RefusedError, match="needs a box"):
        decide(project, lead, case.photo, case.mention, needs_box)
    decide(project, lead, case.photo, case.mention, answers[0])
    assert blocked_questions(project) == []


def test_a_photo_whose_file_is_gone_waits_for_it(new_project: MakeProject, tmp_path: Path) -> None:
    project, _ = new_project(0)
    project.images = tmp_path
    join(project, "Ann")
    there, gone = (prepare_photo(photo("A dog runs.", "The dog jumps.", name=name)) for name in ("there", "gone"))
    (tmp_path / "dog.jpg").touch()
    add_photos(project, [replace(there, file="dog.jpg"), replace(gone, file="lost.jpg")])
    assert [(each.photo, each.waits_for) for each in blocked_questions(project)] == [("gone", WaitsFor.PICTURE)]


def test_nobody_verifies_their_own_links(new_project: MakeProject) -> None:
    project, _ = new_project(1, verify_own=False)
    ann, bob = join(project, "Ann", "Bob")
    record(project, ann, ask(project, ann).token, "yes")
    assert next_question(project, ann) is None
    assert ask(project, bob).task is Task.VERIFY


def test_nothing_is_blocked_before_anybody_has_joined(new_project: MakeProject) -> None:
    project, _ = new_project(2)
    assert blocked_questions(project) == []


def test_a_phrase_that_two_have_skipped_waits_only_while_its_question_is_open(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    add_photos(project, [prepare_photo(photo("A man smiles."))])
    ann, bob, cy = join(project, "Ann", "Bob", "Cy")
    for worker in (ann, bob):
        skip(project, worker, ask(project, worker).token)
    [case] = review_queue(project)
    assert (case.reason, case.decisions) == ("skipped by several workers", ("keep", "drop"))
    record(project, cy, ask(project, cy).token, "drawn", box=(1, 1, 9, 9))
    assert review_queue(project) == []


def test_a_report_of_a_phrase_is_part_of_its_blocked_question(new_project: MakeProject) -> None:
    project, _ = new_project(0)
    add_photos(project, [prepare_photo(photo("A man smiles."))])
    ann, bob = join(project, "Ann", "Bob")
    [lead] = join(project, "Lead", role=Role.OWNER)
    question = ask(project, ann)
    skip(project, ann, question.token, bad_phrase=question.content["mentions"][0])
    skip(project, bob, ask(project, bob).token)
    [case] = review_queue(project)
    assert case.reason.endswith("Ann and Bob skipped it; reported as not being a phrase")
    assert case.decisions[-1] == "drop"
    decide(project, lead, case.photo, case.mention, "drop")
    assert review_queue(project) == []


def test_a_report_of_one_phrase_of_a_blocked_link_is_a_case_of_its_own(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = join(project, "Ann", "Bob")
    question = ask(project, ann)
    skip(project, ann, question.token, bad_phrase=question.content["mentions"][0])
    skip(project, bob, ask(project, bob).token)
    assert [case.decisions for case in review_queue(project)] == [("yes", "no", ASK_AGAIN), ("keep", "drop")]
