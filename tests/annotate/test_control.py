"""Quality control: tests, hidden questions, suspension, and what it queues again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deixis.annotate import control
from deixis.annotate.assigning import next_question
from deixis.annotate.changing import RefusedError
from deixis.annotate.known import add_known
from deixis.annotate.people import Role
from deixis.annotate.project import Project
from deixis.annotate.recording import record, undo
from deixis.annotate.rehearsal import Truth
from deixis.annotate.reviewing import requeue_suspended, rule
from deixis.annotate.standing import Level
from deixis.annotate.walks import Answer, Task
from deixis.annotate.workflow import answers_to
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import BOX, answer, ask, gold, people

GOLD = {name: gold(name) for name in ("g1", "g2", "g3", "g4")}
FEW = {"test_questions": 2, "first_items": 3, "test_attempts": 1, "rolling_items": 4}


def level(project: Project, worker: str, task: Task) -> Level:
    with project.database.writing() as connection:
        return control.update_standing(project, connection, worker, task)


def work(project: Project, worker: str, task: Task, right: bool) -> bool:
    """Answer one question of a task, rightly or wrongly where it is known; whether it was known."""
    given = next_question(project, worker, only=[task])
    assert given is not None
    known = given.photo in GOLD
    truth = Truth(GOLD[given.photo]).answer(given.asked) if known else answers_to(task)[0]
    wrong = next(each for each in answers_to(task)[::-1] if each is not truth)
    said = truth if right or not known else wrong
    box = BOX if said is Answer.DRAWN else None
    record(project, worker, given.token, said.value, box=box)
    return known


def test_a_new_worker_is_tested_then_watched_then_trusted(new_project: MakeProject) -> None:
    project, _ = new_project(4, hidden_share=0.0, **FEW)
    assert add_known(project, GOLD.values()) > 20
    [ann] = people(project, "Ann")
    first = next_question(project, ann, only=[Task.LINK])
    assert first is not None
    assert first.test
    levels = []
    for _ in range(5):
        assert work(project, ann, Task.LINK, right=True)
        levels.append(level(project, ann, Task.LINK))
    assert levels == [Level.TEST, Level.FIRST, Level.FIRST, Level.FIRST, Level.TRUSTED]
    assert not work(project, ann, Task.LINK, right=True)
    assert level(project, ann, Task.VERIFY) is Level.TEST


def test_whoever_fails_the_test_gets_no_questions_of_that_task(new_project: MakeProject) -> None:
    project, _ = new_project(4, **FEW)
    add_known(project, GOLD.values())
    [eve] = people(project, "Eve")
    work(project, eve, Task.LINK, right=False)
    assert level(project, eve, Task.LINK) is Level.FAILED
    assert next_question(project, eve, only=[Task.LINK]) is None


def test_a_hidden_question_looks_like_any_other_and_is_never_asked_twice(new_project: MakeProject) -> None:
    project, _ = new_project(4, hidden_share=1.0, **FEW)
    add_known(project, GOLD.values())
    [ann] = people(project, "Ann")
    seen = []
    while True:
        given = next_question(project, ann, only=[Task.LINK])
        assert given is not None
        if given.photo not in GOLD:
            break
        assert set(given.asked) == {"task", "photo", "mentions", "boxes", "new_box"}
        assert given.test == (len(seen) < 2)
        seen.append((given.photo, tuple(given.asked["mentions"])))
        record(project, ann, given.token, Truth(GOLD[given.photo]).answer(given.asked).value)
    assert len(seen) == len(set(seen)) > 5


def test_a_suspension_queues_again_what_was_done_and_takes_back_what_is_held(new_project: MakeProject) -> None:
    project, _ = new_project(6, hidden_share=0.0, **FEW)
    add_known(project, GOLD.values())
    [eve] = people(project, "Eve")
    for _ in range(5):
        work(project, eve, Task.LINK, right=True)
    answered = [work(project, eve, Task.LINK, right=True) for _ in range(3)]
    assert answered == [False, False, False]
    project.settings = replace(project.settings, hidden_share=1.0)
    while level(project, eve, Task.LINK) is Level.TRUSTED:
        assert work(project, eve, Task.LINK, right=False)
    assert level(project, eve, Task.LINK) is Level.SUSPENDED
    assert requeue_suspended(project) == 3
    assert requeue_suspended(project) == 0
    with project.database.reading() as connection:
        for number in range(6):
            state = project.folds.at(connection, f"dog{number}").state
            assert [question.task for question in state.questions] == [Task.LINK]
    assert next_question(project, eve, only=[Task.LINK]) is None
    with project.database.writing() as connection:
        assert control.reinstate(project, connection, eve, Task.LINK) is Level.TEST
    assert work(project, eve, Task.LINK, right=True)


def test_what_a_suspended_worker_still_holds_is_not_taken(new_project: MakeProject) -> None:
    project, _ = new_project(6, hidden_share=0.0, **FEW)
    add_known(project, GOLD.values())
    [eve] = people(project, "Eve")
    for _ in range(5):
        work(project, eve, Task.LINK, right=True)
    held = next_question(project, eve, only=[Task.LINK])
    assert held is not None
    with project.database.writing() as connection:
        for _ in range(4):
            control.note_check(connection, eve, Task.LINK, control.Purpose.HIDDEN, right=False)
        assert control.update_standing(project, connection, eve, Task.LINK) is Level.SUSPENDED
    with pytest.raises(RefusedError, match="was taken back"):
        record(project, eve, held.token, "yes")
    [bob] = people(project, "Bob")
    for _ in range(5):
        work(project, bob, Task.LINK, right=True)
    again = next_question(project, bob, only=[Task.LINK])
    assert again is not None
    assert again.photo == held.photo


def test_whose_boxes_are_bad_is_suspended_from_drawing_and_only_from_that(new_project: MakeProject) -> None:
    project, _ = new_project(6, first_items=4, first_boxes_good=0.75, bad_boxes_to_review=9)
    ann, eve = people(project, "Ann", "Eve")
    bad = 0
    for _ in range(200):
        given = next_question(project, eve, only=[Task.DRAWING])
        if given is not None:
            record(project, eve, given.token, "drawn", box=BOX)
        other = next_question(project, ann)
        if other is None:
            break
        said = {Task.LINK: "yes", Task.VERIFY: "yes", Task.REQUIREMENT: "box", Task.QUALITY: "bad"}.get(other.task, "")
        if not said:
            break
        bad += other.task is Task.QUALITY
        record(project, ann, other.token, said)
        if level(project, eve, Task.DRAWING) is Level.SUSPENDED:
            break
    assert bad == 2
    assert level(project, eve, Task.DRAWING) is Level.SUSPENDED
    assert level(project, eve, Task.LINK) is not Level.SUSPENDED


def test_right_and_wrong_are_told_apart_as_the_tasks_need() -> None:
    right = control.is_right
    assert right(Task.REQUIREMENT, Answer.SCENE, None, Answer.NO_BOX, [], 0.5)
    assert not right(Task.REQUIREMENT, Answer.BOX, None, Answer.NO_BOX, [], 0.5)
    assert not right(Task.DRAWING, Answer.DRAWN, (50, 50, 60, 60), Answer.DRAWN, [(0, 0, 10, 10)], 0.5)
    assert not right(Task.DRAWING, Answer.NO_MORE, None, Answer.DRAWN, [(0, 0, 10, 10)], 0.5)
    assert right(Task.COVERAGE, Answer.MORE, None, Answer.MORE, [], 0.5)


def test_without_known_answers_work_goes_on(new_project: MakeProject) -> None:
    project, _ = new_project(2)
    [ann] = people(project, "Ann")
    answer(project, ann, Answer.YES, Task.LINK)
    assert ask(project, ann).task is Task.VERIFY


def test_taking_back_a_hidden_answer_looks_like_any_other_undo_and_counts_for_nothing(new_project: MakeProject) -> None:
    project, _ = new_project(4, **FEW)
    add_known(project, GOLD.values())
    [ann] = people(project, "Ann")
    given = next_question(project, ann, only=[Task.LINK])
    assert given is not None
    right = Truth(GOLD[given.photo]).answer(given.asked)
    wrong = next(each for each in answers_to(Task.LINK) if each is not right)
    number = record(project, ann, given.token, wrong.value).event
    taken = undo(project, ann, number)
    assert (taken.again, undo(project, ann, number).again) == (False, True)
    assert level(project, ann, Task.LINK) is Level.TEST
    again = next_question(project, ann, only=[Task.LINK])
    assert again is not None
    assert again.asked != given.asked


def test_what_a_reviewer_decided_is_asked_of_those_who_had_nothing_to_do_with_it(new_project: MakeProject) -> None:
    project, _ = new_project(3, hidden_share=1.0, test_questions=0, first_items=0)
    ann, bob = people(project, "Ann", "Bob")
    [rob] = people(project, "Rob", role=Role.REVIEWER)
    for task in (Task.LINK, Task.VERIFY):
        for _ in range(3):
            given = next_question(project, ann, only=[task])
            assert given is not None
            record(project, ann, given.token, "yes")
    rule(project, rob, "dog0", "0:0-5", "no box")
    hers = next_question(project, ann, only=[Task.REQUIREMENT])
    his = next_question(project, bob, only=[Task.REQUIREMENT])
    assert hers is not None
    assert his is not None
    assert (hers.photo, his.photo) == ("dog1", "dog0")
    assert set(hers.asked) == set(his.asked)


def test_who_is_wrong_in_all_tasks_together_is_suspended_from_all(new_project: MakeProject) -> None:
    project, _ = new_project(2, test_questions=0, first_items=0, rolling_items=8)
    [eve] = people(project, "Eve")
    assert ask(project, eve).task is Task.LINK
    with project.database.writing() as connection:
        for task in (Task.LINK, Task.VERIFY, Task.COVERAGE):
            for right in (True, False):
                control.note_check(connection, eve, task, control.Purpose.HIDDEN, right=right)
            assert control.update_standing(project, connection, eve, task) is Level.TRUSTED
        control.suspend_unreliable(project, connection, eve)
    assert {level(project, eve, task) for task in Task} == {Level.SUSPENDED}
    assert next_question(project, eve) is None
