"""Qualification, hidden checks and suspension."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_crowd import Truth

from deixis.annotate import quality
from deixis.annotate.judgements import ExpiredQuestionError
from deixis.annotate.known_answers import add_known_photos
from deixis.annotate.maintenance import requeue_suspended
from deixis.annotate.people import Role
from deixis.annotate.project import Project
from deixis.annotate.quality import Check, Level, Purpose, StageSizes, compute_level, stage_sizes
from deixis.annotate.review import decide_chain
from deixis.annotate.settings import Settings
from deixis.annotate.workflow import Answer, Task, allowed_answers
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import BOX, answer, ask, gold, next_question, people, record, undo

GOLD = {name: gold(name) for name in ("g1", "g2", "g3", "g4")}
FEW = {"test_questions": 2, "first_items": 3, "test_attempts": 1, "rolling_items": 4}


def level(project: Project, worker: str, task: Task) -> Level:
    with project.database.writing() as connection:
        return quality.update_qualification(project, connection, worker, task).level


def work(project: Project, worker: str, task: Task, right: bool) -> bool:
    """Answer one question of a task, rightly or wrongly where it is known; whether it was known."""
    question = next_question(project, worker, tasks=[task])
    assert question is not None
    known = question.photo in GOLD
    truth = Truth(GOLD[question.photo]).answer(question.content) if known else allowed_answers(task)[0]
    wrong = next(each for each in allowed_answers(task)[::-1] if each is not truth)
    said = truth if right or not known else wrong
    box = BOX if said is Answer.DRAWN else None
    record(project, worker, question.token, said.value, box=box)
    return known


def test_a_new_worker_passes_the_test_and_the_first_items_before_being_trusted(new_project: MakeProject) -> None:
    project, _ = new_project(4, hidden_share=0.0, **FEW)
    assert add_known_photos(project, GOLD.values()) > 20
    [ann] = people(project, "Ann")
    first = next_question(project, ann, tasks=[Task.LINK])
    assert first is not None
    assert first.test
    levels = []
    for _ in range(5):
        assert work(project, ann, Task.LINK, right=True)
        levels.append(level(project, ann, Task.LINK))
    assert levels == [Level.TEST, Level.FIRST, Level.FIRST, Level.FIRST, Level.TRUSTED]
    assert not work(project, ann, Task.LINK, right=True)
    assert level(project, ann, Task.VERIFY) is Level.TEST


def test_a_worker_who_fails_the_test_gets_no_questions_of_that_task(new_project: MakeProject) -> None:
    project, _ = new_project(4, **FEW)
    add_known_photos(project, GOLD.values())
    [eve] = people(project, "Eve")
    work(project, eve, Task.LINK, right=False)
    assert level(project, eve, Task.LINK) is Level.FAILED
    assert next_question(project, eve, tasks=[Task.LINK]) is None


def test_a_hidden_question_looks_like_any_other_and_is_never_asked_twice(new_project: MakeProject) -> None:
    project, _ = new_project(4, hidden_share=1.0, **FEW)
    add_known_photos(project, GOLD.values())
    [ann] = people(project, "Ann")
    seen = []
    while True:
        question = next_question(project, ann, tasks=[Task.LINK])
        assert question is not None
        if question.photo not in GOLD:
            break
        assert set(question.content) == {"task", "photo", "mentions", "boxes", "new_box"}
        assert question.test == (len(seen) < 2)
        seen.append((question.photo, tuple(question.content["mentions"])))
        record(project, ann, question.token, Truth(GOLD[question.photo]).answer(question.content).value)
    assert len(seen) == len(set(seen)) > 5


def test_a_suspension_requeues_judgements_and_releases_held_questions(new_project: MakeProject) -> None:
    project, _ = new_project(6, hidden_share=0.0, **FEW)
    add_known_photos(project, GOLD.values())
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
            state = project.snapshots.read(connection, f"dog{number}").state
            assert [question.task for question in state.questions] == [Task.LINK]
    assert next_question(project, eve, tasks=[Task.LINK]) is None
    with project.database.writing() as connection:
        assert quality.reinstate(project, connection, eve, Task.LINK) is Level.TEST
    assert work(project, eve, Task.LINK, right=True)


def test_questions_held_by_a_suspended_worker_cannot_be_answered(new_project: MakeProject) -> None:
    project, _ = new_project(6, hidden_share=0.0, **FEW)
    add_known_photos(project, GOLD.values())
    [eve] = people(project, "Eve")
    for _ in range(5):
        work(project, eve, Task.LINK, right=True)
    held = next_question(project, eve, tasks=[Task.LINK])
    assert held is not None
    with project.database.writing() as connection:
        for _ in range(4):
            quality.add_check(connection, eve, Task.LINK, quality.Purpose.HIDDEN, correct=False)
        assert quality.update_qualification(project, connection, eve, Task.LINK).level is Level.SUSPENDED
    with pytest.raises(ExpiredQuestionError):
        record(project, eve, held.token, "yes")
    [bob] = people(project, "Bob")
    for _ in range(5):
        work(project, bob, Task.LINK, right=True)
    again = next_question(project, bob, tasks=[Task.LINK])
    assert again is not None
    assert again.photo == held.photo


def test_a_worker_with_bad_boxes_is_suspended_from_drawing_only(new_project: MakeProject) -> None:
    project, _ = new_project(6, first_items=4, first_boxes_good=0.75, bad_boxes_to_review=9)
    ann, eve = people(project, "Ann", "Eve")
    bad = 0
    for _ in range(200):
        question = next_question(project, eve, tasks=[Task.DRAWING])
        if question is not None:
            record(project, eve, question.token, "drawn", box=BOX)
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


def test_correctness_depends_on_the_task() -> None:
    right = quality.is_correct
    assert right(Task.REQUIREMENT, Answer.SCENE, None, Answer.NO_BOX, [], 0.5)
    assert not right(Task.REQUIREMENT, Answer.BOX, None, Answer.NO_BOX, [], 0.5)
    assert not right(Task.DRAWING, Answer.DRAWN, (50, 50, 60, 60), Answer.DRAWN, [(0, 0, 10, 10)], 0.5)
    assert not right(Task.DRAWING, Answer.NO_MORE, None, Answer.DRAWN, [(0, 0, 10, 10)], 0.5)
    assert right(Task.COVERAGE, Answer.MORE, None, Answer.MORE, [], 0.5)


def test_work_is_possible_without_known_questions(new_project: MakeProject) -> None:
    project, _ = new_project(2)
    [ann] = people(project, "Ann")
    answer(project, ann, Answer.YES, Task.LINK)
    assert ask(project, ann).task is Task.VERIFY


def test_undoing_a_hidden_answer_looks_like_any_undo_and_voids_the_check(new_project: MakeProject) -> None:
    project, _ = new_project(4, **FEW)
    add_known_photos(project, GOLD.values())
    [ann] = people(project, "Ann")
    question = next_question(project, ann, tasks=[Task.LINK])
    assert question is not None
    right = Truth(GOLD[question.photo]).answer(question.content)
    wrong = next(each for each in allowed_answers(Task.LINK) if each is not right)
    number = record(project, ann, question.token, wrong.value).event
    taken = undo(project, ann, number)
    assert (taken.again, undo(project, ann, number).again) == (False, True)
    assert level(project, ann, Task.LINK) is Level.TEST
    again = next_question(project, ann, tasks=[Task.LINK])
    assert again is not None
    assert again.content != question.content


def test_reviewed_questions_are_hidden_checks_for_workers_new_to_the_photo(new_project: MakeProject) -> None:
    project, _ = new_project(3, hidden_share=1.0, test_questions=0, first_items=0)
    ann, bob = people(project, "Ann", "Bob")
    [rob] = people(project, "Rob", role=Role.REVIEWER)
    for task in (Task.LINK, Task.VERIFY):
        for _ in range(3):
            question = next_question(project, ann, tasks=[task])
            assert question is not None
            record(project, ann, question.token, "yes")
    decide_chain(project, rob, "dog0", "0:0-5", "no box")
    hers = next_question(project, ann, tasks=[Task.REQUIREMENT])
    his = next_question(project, bob, tasks=[Task.REQUIREMENT])
    assert hers is not None
    assert his is not None
    assert (hers.photo, his.photo) == ("dog1", "dog0")
    assert set(hers.content) == set(his.content)


def test_too_many_wrong_hidden_answers_in_all_tasks_suspend_from_all(new_project: MakeProject) -> None:
    project, _ = new_project(2, test_questions=0, first_items=0, rolling_items=8)
    [eve] = people(project, "Eve")
    assert ask(project, eve).task is Task.LINK
    with project.database.writing() as connection:
        for task in (Task.LINK, Task.VERIFY, Task.COVERAGE):
            for right in (True, False):
                quality.add_check(connection, eve, task, quality.Purpose.HIDDEN, correct=right)
            assert quality.update_qualification(project, connection, eve, task).level is Level.TRUSTED
        quality.suspend_unreliable(project, connection, eve)
    assert {level(project, eve, task) for task in Task} == {Level.SUSPENDED}
    assert next_question(project, eve) is None


SIZES = StageSizes(10, 30)


def checks(purpose: Purpose, right: int, wrong: int = 0) -> list[Check]:
    return [Check(purpose, False)] * wrong + [Check(purpose, True)] * right


PASSED = checks(Purpose.TEST, 10)


@pytest.mark.parametrize(
    ("done", "level"),
    [
        ([], Level.TEST),
        (checks(Purpose.TEST, 9), Level.TEST),
        (checks(Purpose.TEST, 8, wrong=2), Level.FIRST),
        (checks(Purpose.TEST, 0, wrong=3), Level.TEST),
        (checks(Purpose.TEST, 0, wrong=6), Level.FAILED),
        (checks(Purpose.TEST, 0, wrong=3) + PASSED, Level.FIRST),
        (PASSED + checks(Purpose.FIRST, 29), Level.FIRST),
        (PASSED + checks(Purpose.FIRST, 26, wrong=4), Level.TRUSTED),
        (PASSED + checks(Purpose.FIRST, 0, wrong=5), Level.SUSPENDED),
        (PASSED + checks(Purpose.FIRST, 30) + checks(Purpose.HIDDEN, 0, wrong=5), Level.TRUSTED),
        (PASSED + checks(Purpose.FIRST, 30) + checks(Purpose.HIDDEN, 0, wrong=6), Level.SUSPENDED),
        (PASSED + checks(Purpose.FIRST, 26, wrong=4) + checks(Purpose.HIDDEN, 50, wrong=5), Level.TRUSTED),
    ],
)
def test_each_stage_ends_as_soon_as_its_result_is_certain(done: list[Check], level: Level) -> None:
    assert compute_level(Task.LINK, done, SIZES, Settings()) is level


def test_the_first_items_of_drawing_are_boxes_judged_by_others() -> None:
    boxes = PASSED + checks(Purpose.WORK, 21, wrong=9)
    assert compute_level(Task.DRAWING, boxes, SIZES, Settings()) is Level.TRUSTED
    assert compute_level(Task.DRAWING, PASSED + checks(Purpose.WORK, 0, wrong=10), SIZES, Settings()) is Level.SUSPENDED


def test_without_known_questions_workers_are_trusted_but_boxes_are_judged() -> None:
    assert compute_level(Task.LINK, [], stage_sizes(Task.LINK, 0, Settings()), Settings()) is Level.TRUSTED
    assert compute_level(Task.DRAWING, [], stage_sizes(Task.DRAWING, 0, Settings()), Settings()) is Level.FIRST


@given(st.lists(st.booleans(), max_size=80), st.integers(0, 60))
def test_a_suspension_is_permanent_and_correct_answers_never_hurt(right: list[bool], place: int) -> None:
    done = PASSED + [Check(Purpose.FIRST if n < 30 else Purpose.HIDDEN, ok) for n, ok in enumerate(right)]
    level = compute_level(Task.LINK, done, SIZES, Settings())
    if level is Level.SUSPENDED:
        assert compute_level(Task.LINK, [*done, Check(Purpose.HIDDEN, True)], SIZES, Settings()) is Level.SUSPENDED
    else:
        assert compute_level(Task.LINK, [*done, Check(Purpose.HIDDEN, True)], SIZES, Settings()) is not Level.SUSPENDED
