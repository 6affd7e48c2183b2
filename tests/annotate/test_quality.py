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
from deixis.annotate.people import Role
from deixis.annotate.project import Project, requeue_suspended
from deixis.annotate.quality import Check, Level, Purpose, StageSizes, compute_level, stage_sizes
from deixis.annotate.review import decide_chain
from deixis.annotate.settings import Settings, explain_lockouts
from deixis.annotate.workflow import Answer, Task, allowed_answers
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import BOX, Clock, ask, gold, next_question, people, record, snapshot, undo

GOLD = {name: gold(name) for name in ("g1", "g2", "g3", "g4")}
FEW = {"test_questions": 2, "first_items": 3, "test_attempts": 1, "rolling_items": 4}


def level(project: Project, worker: str, task: Task) -> Level:
    with project.database.writing() as connection:
        return quality.update_qualification(project, connection, worker, task).level


@pytest.fixture
def tested(new_project: MakeProject) -> MakeProject:
    """Makes projects with known questions and short stages."""

    def make(photos: int, **settings: object) -> tuple[Project, Clock]:
        project, clock = new_project(photos, **FEW | settings)
        assert add_known_photos(project, GOLD.values()) > 20
        return project, clock

    return make


def work(project: Project, worker: str, *, right: bool = True) -> bool:
    """Answer one link question, correctly or not if it is known; return whether it was known."""
    question = ask(project, worker, tasks=[Task.LINK])
    if question.photo not in GOLD:
        record(project, worker, question.token, "yes")
        return False
    truth = Truth(GOLD[question.photo]).answer(question.content)
    wrong = Answer.NO if truth is Answer.YES else Answer.YES
    record(project, worker, question.token, truth if right else wrong)
    return True


def test_a_new_worker_passes_the_test_and_the_first_items_before_being_trusted(tested: MakeProject) -> None:
    project, _ = tested(4, hidden_share=0.0)
    [ann] = people(project, "Ann")
    assert ask(project, ann, tasks=[Task.LINK]).test
    levels = []
    for _ in range(5):
        assert work(project, ann)
        levels.append(level(project, ann, Task.LINK))
    assert levels == [Level.TEST, Level.FIRST, Level.FIRST, Level.FIRST, Level.TRUSTED]
    assert not work(project, ann)
    assert level(project, ann, Task.VERIFY) is Level.TEST


def test_a_worker_who_fails_the_test_gets_no_questions_of_that_task(tested: MakeProject) -> None:
    project, _ = tested(4)
    [eve] = people(project, "Eve")
    work(project, eve, right=False)
    assert level(project, eve, Task.LINK) is Level.FAILED
    assert next_question(project, eve, tasks=[Task.LINK]) is None


def test_a_hidden_question_looks_like_any_other_and_is_never_asked_twice(tested: MakeProject) -> None:
    project, _ = tested(4, hidden_share=1.0)
    [ann] = people(project, "Ann")
    asked = []
    while (question := ask(project, ann, tasks=[Task.LINK])).photo in GOLD:
        assert set(question.content) == {"task", "photo", "mentions", "boxes", "new_box"}
        assert question.test == (len(asked) < 2)
        asked.append((question.photo, tuple(question.content["mentions"])))
        assert work(project, ann)
    assert len(asked) == len(set(asked)) > 5


def test_a_suspension_requeues_judgements_and_releases_held_questions(tested: MakeProject) -> None:
    project, _ = tested(6, hidden_share=0.0)
    [eve] = people(project, "Eve")
    assert [work(project, eve) for _ in range(8)] == [True] * 5 + [False] * 3
    project.settings = replace(project.settings, hidden_share=1.0)
    while level(project, eve, Task.LINK) is Level.TRUSTED:
        assert work(project, eve, right=False)
    assert level(project, eve, Task.LINK) is Level.SUSPENDED
    assert requeue_suspended(project) == 3
    assert requeue_suspended(project) == 0
    for number in range(6):
        assert [question.task for question in snapshot(project, f"dog{number}").state.questions] == [Task.LINK]
    assert next_question(project, eve, tasks=[Task.LINK]) is None
    with project.database.writing() as connection:
        assert quality.reinstate(project, connection, eve, Task.LINK) is Level.TEST
    assert work(project, eve)


def test_questions_held_by_a_suspended_worker_cannot_be_answered(tested: MakeProject) -> None:
    project, _ = tested(6, hidden_share=0.0)
    eve, bob = people(project, "Eve", "Bob")
    for _ in range(5):
        work(project, eve)
    held = ask(project, eve, tasks=[Task.LINK])
    with project.database.writing() as connection:
        for _ in range(4):
            quality.add_check(connection, eve, Task.LINK, quality.Purpose.HIDDEN, correct=False)
        assert quality.update_qualification(project, connection, eve, Task.LINK).level is Level.SUSPENDED
    with pytest.raises(ExpiredQuestionError):
        record(project, eve, held.token, "yes")
    for _ in range(5):
        work(project, bob)
    assert ask(project, bob, tasks=[Task.LINK]).photo == held.photo


@on_both_databases
def test_a_worker_with_bad_boxes_is_suspended_from_drawing_only(new_project: MakeProject) -> None:
    project, _ = new_project(6, first_items=4, first_boxes_good=0.75, bad_boxes_to_review=9)
    ann, eve = people(project, "Ann", "Eve")
    answers = {Task.LINK: "yes", Task.VERIFY: "yes", Task.REQUIREMENT: "box", Task.QUALITY: "bad"}
    bad = 0
    while level(project, eve, Task.DRAWING) is not Level.SUSPENDED:
        if (question := next_question(project, eve, tasks=[Task.DRAWING])) is not None:
            record(project, eve, question.token, "drawn", box=BOX)
        question = ask(project, ann)
        bad += question.task is Task.QUALITY
        record(project, ann, question.token, answers[question.task])
    assert bad == 2
    assert level(project, eve, Task.LINK) is not Level.SUSPENDED


def test_correctness_depends_on_the_task() -> None:
    right = quality.is_correct
    assert right(Task.REQUIREMENT, Answer.SCENE, None, Answer.NO_BOX, [], 0.5)
    assert not right(Task.REQUIREMENT, Answer.BOX, None, Answer.NO_BOX, [], 0.5)
    assert not right(Task.DRAWING, Answer.DRAWN, (50, 50, 60, 60), Answer.DRAWN, [(0, 0, 10, 10)], 0.5)
    assert not right(Task.DRAWING, Answer.NO_MORE, None, Answer.DRAWN, [(0, 0, 10, 10)], 0.5)
    assert right(Task.COVERAGE, Answer.MORE, None, Answer.MORE, [], 0.5)


def test_undoing_a_hidden_answer_looks_like_any_undo_and_voids_the_check(tested: MakeProject) -> None:
    project, _ = tested(4, test_questions=0, first_accuracy=0.0)
    [ann] = people(project, "Ann")
    question = ask(project, ann, tasks=[Task.LINK])
    right = Truth(GOLD[question.photo]).answer(question.content)
    wrong = next(each for each in allowed_answers(Task.LINK) if each is not right)
    number = record(project, ann, question.token, wrong.value).event
    assert (undo(project, ann, number).again, undo(project, ann, number).again) == (False, True)
    assert level(project, ann, Task.LINK) is Level.FIRST
    assert ask(project, ann, tasks=[Task.LINK]).content != question.content


@on_both_databases
def test_reviewed_questions_are_hidden_checks_for_workers_new_to_the_photo(new_project: MakeProject) -> None:
    project, _ = new_project(3, hidden_share=1.0, test_questions=0, first_items=0)
    ann, bob = people(project, "Ann", "Bob")
    [rob] = people(project, "Rob", role=Role.REVIEWER)
    for task in (Task.LINK, Task.VERIFY):
        for _ in range(3):
            record(project, ann, ask(project, ann, tasks=[task]).token, "yes")
    decide_chain(project, rob, "dog0", "0:0-5", "no box")
    for_ann, for_bob = (ask(project, worker, tasks=[Task.REQUIREMENT]) for worker in (ann, bob))
    assert (for_ann.photo, for_bob.photo) == ("dog1", "dog0")
    assert set(for_ann.content) == set(for_bob.content)


@on_both_databases
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
    ("task", "done", "level"),
    [
        (Task.LINK, [], Level.TEST),
        (Task.LINK, checks(Purpose.TEST, 9), Level.TEST),
        (Task.LINK, checks(Purpose.TEST, 8, wrong=2), Level.FIRST),
        (Task.LINK, checks(Purpose.TEST, 0, wrong=3), Level.TEST),
        (Task.LINK, checks(Purpose.TEST, 0, wrong=6), Level.FAILED),
        (Task.LINK, checks(Purpose.TEST, 0, wrong=3) + PASSED, Level.FIRST),
        (Task.LINK, PASSED + checks(Purpose.FIRST, 29), Level.FIRST),
        (Task.LINK, PASSED + checks(Purpose.FIRST, 26, wrong=4), Level.TRUSTED),
        (Task.LINK, PASSED + checks(Purpose.FIRST, 0, wrong=5), Level.SUSPENDED),
        (Task.LINK, PASSED + checks(Purpose.FIRST, 30) + checks(Purpose.HIDDEN, 0, wrong=4), Level.TRUSTED),
        (Task.LINK, PASSED + checks(Purpose.FIRST, 30) + checks(Purpose.HIDDEN, 5, wrong=5), Level.SUSPENDED),
        (Task.LINK, PASSED + checks(Purpose.FIRST, 26, wrong=4) + checks(Purpose.HIDDEN, 50, wrong=4), Level.TRUSTED),
        # Boxes that others judged.
        (Task.DRAWING, PASSED + checks(Purpose.WORK, 21, wrong=9), Level.TRUSTED),
        (Task.DRAWING, PASSED + checks(Purpose.WORK, 0, wrong=10), Level.SUSPENDED),
    ],
)
def test_each_stage_ends_as_soon_as_its_result_is_certain(task: Task, done: list[Check], level: Level) -> None:
    assert compute_level(task, done, SIZES, Settings()) is level


def test_workers_are_reliable_up_to_a_quarter_of_wrong_hidden_answers_and_not_with_five_of_ten() -> None:
    spread = [True, True, True, False] * 10
    assert quality.is_reliable(spread, Settings())
    assert not quality.is_reliable([*spread, False], Settings())
    for count, reliable in ((4, True), (5, False)):
        lately = [True, False] * count + [True] * (10 - 2 * count)
        assert quality.is_reliable([True] * 30 + lately, Settings()) is reliable


def test_one_bad_box_suspends_nobody() -> None:
    settings = Settings(first_items=2, test_questions=0)
    sizes = stage_sizes(Task.DRAWING, 0, settings)
    assert compute_level(Task.DRAWING, checks(Purpose.WORK, 1, wrong=1), sizes, settings) is Level.TRUSTED
    assert compute_level(Task.DRAWING, checks(Purpose.WORK, 0, wrong=2), sizes, settings) is Level.SUSPENDED
    assert any("first_items 2" in line for line in explain_lockouts(settings))


def test_stages_are_shorter_with_few_known_questions_and_only_boxes_are_checked_without_any() -> None:
    assert stage_sizes(Task.LINK, 1000, Settings()) == SIZES
    assert stage_sizes(Task.LINK, 20, Settings()) == StageSizes(5, 15)
    assert compute_level(Task.LINK, [], stage_sizes(Task.LINK, 0, Settings()), Settings()) is Level.TRUSTED
    assert compute_level(Task.DRAWING, [], stage_sizes(Task.DRAWING, 0, Settings()), Settings()) is Level.FIRST


@given(st.lists(st.booleans(), max_size=80))
def test_a_suspension_is_permanent_and_correct_answers_never_hurt(right: list[bool]) -> None:
    done = PASSED + [Check(Purpose.FIRST if n < 30 else Purpose.HIDDEN, ok) for n, ok in enumerate(right)]
    before, after = (
        compute_level(Task.LINK, checks, SIZES, Settings()) for checks in (done, [*done, Check(Purpose.HIDDEN, True)])
    )
    assert (before is Level.SUSPENDED) == (after is Level.SUSPENDED)
