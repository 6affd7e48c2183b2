"""The queue of questions, and workers who stay with a photo or with a task."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace

import pytest
from sqlalchemy import Connection, select

from deixis.annotate import queue
from deixis.annotate.judgements import ExpiredQuestionError, JudgementResult, record_answer, undo_event
from deixis.annotate.known_answers import add_known_photos
from deixis.annotate.material import prepare_photo
from deixis.annotate.people import invite
from deixis.annotate.project import Project, add_photos
from deixis.annotate.queue import LeasedQuestion, Stay
from deixis.annotate.store import barred, checks, questions
from deixis.annotate.workflow import XYXY, Answer, Task, allowed_answers
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import (
    answer,
    answer_box,
    ask,
    dogs,
    gold,
    join,
    next_question,
    people,
    photo,
    record,
    skip,
    snapshot,
    undo,
)


@on_both_databases
def test_a_page_that_is_loaded_again_gets_the_same_question_and_nobody_else_does(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    assert ask(project, ann) == ask(project, ann)
    assert next_question(project, bob) is None


def test_a_worker_may_hold_a_few_questions_in_advance_and_no_more(new_project: MakeProject) -> None:
    project, _ = new_project(5, held_at_once=3)
    [ann] = people(project, "Ann")
    held: list[LeasedQuestion] = []
    for _ in range(3):
        held.append(ask(project, ann, exclude=[each.token for each in held]))
    assert len({question.photo for question in held}) == 3
    assert next_question(project, ann, exclude=[each.token for each in held]) is None
    with project.database.reading() as connection:
        assert queue.explain_no_question(project, connection, ann).startswith("3 questions")


@on_both_databases
def test_an_expired_question_goes_to_another_worker(new_project: MakeProject) -> None:
    project, clock = new_project(1, lease_s=100.0)
    ann, bob = people(project, "Ann", "Bob")
    first = ask(project, ann)
    clock.now += 101
    second = ask(project, bob)
    assert (second.photo, second.content) == (first.photo, first.content)
    with pytest.raises(ExpiredQuestionError):
        record(project, ann, first.token, "yes")
    record(project, bob, second.token, "yes")


def test_a_late_answer_counts_if_nobody_else_has_the_question(new_project: MakeProject) -> None:
    project, clock = new_project(1, lease_s=100.0)
    [ann] = people(project, "Ann")
    question = ask(project, ann)
    clock.now += 5000
    assert not record(project, ann, question.token, "yes").again


def test_a_person_alone_can_finish_a_project_that_allows_it(new_project: MakeProject) -> None:
    project, _ = new_project(1, independent=False, judgements_to_end=1)
    [ann] = people(project, "Ann")
    for value in (Answer.YES, Answer.YES, Answer.BOX, Answer.DRAWN, Answer.GOOD, Answer.ALL):
        answer(project, ann, value)
    assert next_question(project, ann) is None


@on_both_databases
def test_a_skipped_question_goes_to_other_workers_only(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    question = ask(project, ann)
    skip(project, ann, question.token, remark="cannot tell")
    assert next_question(project, ann) is None
    assert ask(project, bob).content == question.content


def test_workers_without_history_get_questions_only_if_the_owner_vouches(new_project: MakeProject) -> None:
    project, _ = new_project(1, history_items=500, history_accuracy=0.95)
    new, _ = invite(project, "New")
    known, _ = invite(project, "Known", history_items=600, history_accuracy=0.97)
    careless, _ = invite(project, "Careless", history_items=600, history_accuracy=0.9)
    assert next_question(project, new) is None
    assert next_question(project, careless) is None
    assert next_question(project, known) is not None


@on_both_databases
def test_concurrent_workers_lose_no_answer_and_answer_nothing_twice(new_project: MakeProject) -> None:
    project, _ = new_project(12)
    workers = people(project, *(f"w{number}" for number in range(8)))
    answered: list[int] = []
    errors: list[BaseException] = []

    def work(worker: str, rng: random.Random, patience: int) -> None:
        try:
            while patience >= 0:
                question = next_question(project, worker)
                if question is None:
                    patience -= 1
                    time.sleep(0.005)  # others hold what is open
                    continue
                value = allowed_answers(question.task)[0]
                if question.task is Task.REQUIREMENT:
                    value = rng.choice([Answer.BOX, Answer.SCENE])
                box = answer_box(question, value)
                first = record(project, worker, question.token, value, box=box)
                assert record(project, worker, question.token, value, box=box).event == first.event
                answered.append(first.event)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(w, random.Random(n), 40)) for n, w in enumerate(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # How far they come side by side depends on the machine; what is left is answered in turn.
    done = -1
    while done < len(answered):
        done = len(answered)
        for number, worker in enumerate(workers):
            work(worker, random.Random(number), 0)
    assert errors == []
    found = [snapshot(project, f"dog{number}") for number in range(12)]
    assert all(each.state.finished for each in found)
    assert all(each.state.counted == {event.number for event in each.events} for each in found)
    assert sorted(answered) == sorted(event.number for each in found for event in each.events)


def answer_and_continue(
    project: Project, worker: str, token: str, answer: str, box: XYXY | None = None
) -> JudgementResult:
    """Answer and lease the next question in one transaction, as the route does."""

    def work(connection: Connection) -> JudgementResult:
        outcome = record_answer(project, connection, worker, token, answer, box=box)
        return replace(outcome, question=queue.next_question(project, connection, worker))

    return project.database.run(work)


def undo_and_lease(project: Project, worker: str, event: int) -> LeasedQuestion | None:
    """Undo and lease the question again in one transaction, as the route does."""

    def work(connection: Connection) -> JudgementResult:
        outcome = undo_event(project, connection, worker, event)
        return replace(outcome, question=queue.lease_again(project, connection, worker, event))

    return project.database.run(work).question


def waiting(project: Project, photo: str) -> dict[tuple[str, str], set[str]]:
    """The questions of a photo in the table, and who is barred from each."""
    with project.database.reading() as connection:
        return {
            (row.task, row.subject): set(
                connection.scalars(select(barred.c.worker).where(barred.c.question == row.number))
            )
            for row in connection.execute(select(questions).where(questions.c.photo == photo)).all()
        }


def asked_by_state(project: Project, photo: str) -> dict[tuple[str, str], set[str]]:
    """Return the same, derived again from all events."""
    found = snapshot(project, photo)
    state = project.snapshots.build(found.material, found.events).state
    return {(question.task.value, question.subject): set(question.barred) for question in state.questions}


@on_both_databases
def test_the_queue_always_matches_the_states(new_project: MakeProject) -> None:
    project, clock = new_project(photos=3, lease_s=50.0)
    rng = random.Random(4)
    crowd = people(project, *(f"w{number}" for number in range(6)))
    done: list[tuple[str, int]] = []
    for _ in range(100):
        worker = rng.choice(crowd)
        clock.now += rng.choice([1.0, 60.0])
        question = next_question(project, worker)
        if question is None:
            continue
        if rng.random() < 0.1:
            skip(project, worker, question.token)
        elif done and rng.random() < 0.15:
            undo(project, *done.pop(rng.randrange(len(done))))
        else:
            value = rng.choice(allowed_answers(question.task))
            box = answer_box(question, value)
            done.append((worker, answer_and_continue(project, worker, question.token, value, box).event))
        assert waiting(project, question.photo) == asked_by_state(project, question.photo)


@on_both_databases
def test_an_undone_known_question_is_leased_and_checked_again(new_project: MakeProject) -> None:
    project, _ = new_project(photos=1, test_questions=0, first_items=2, first_accuracy=0.0)
    add_known_photos(project, [gold()])
    [ann] = people(project, "ann")
    question = ask(project, ann)
    assert question.photo == "gold"
    event = answer_and_continue(project, ann, question.token, "yes").event
    again = undo_and_lease(project, ann, event)
    assert again is not None
    assert (again.photo, again.content) == (question.photo, question.content)
    answer_and_continue(project, ann, again.token, "no")
    with project.database.reading() as connection:
        right = connection.scalars(select(checks.c.right).order_by(checks.c.number)).all()
    assert right[0] is None
    assert right[1] is not None


def test_a_question_leased_to_another_worker_is_not_leased_again(new_project: MakeProject) -> None:
    project, _ = new_project()
    ann, bob = people(project, "ann", "bob")
    event = answer_and_continue(project, ann, ask(project, ann).token, "no").event
    add_photos(project, dogs(2))
    undo(project, ann, event)
    assert ask(project, bob).task is Task.LINK
    assert undo_and_lease(project, ann, event) is None


@on_both_databases
def test_links_that_would_leave_nobody_to_verify_the_chain_come_last(new_project: MakeProject) -> None:
    project, _ = new_project(0, verify_own=False)
    captions = ("A dog runs.", "The dog jumps.", "One dog barks.")
    add_photos(project, [prepare_photo(photo(*captions, name=name)) for name in ("first", "second")])
    people(project, "Cy")  # has not joined yet
    ann, bob = join(project, "Ann", "Bob")
    record(project, ann, ask(project, ann).token, "yes")
    held = ask(project, bob)
    assert (held.task, held.photo) == (Task.LINK, "second")
    record(project, bob, held.token, "yes")
    assert [ask(project, worker).photo for worker in (ann, bob)] == ["first", "second"]
    for worker in (ann, bob):
        record(project, worker, ask(project, worker).token, "yes")
    assert {ask(project, worker).task for worker in (ann, bob)} == {Task.VERIFY}


def test_a_link_is_not_kept_for_somebody_who_has_nothing_else_to_do(new_project: MakeProject) -> None:
    project, _ = new_project(0, verify_own=False)
    add_photos(project, [prepare_photo(photo("A dog runs.", "The dog jumps.", "One dog barks."))])
    ann, bob = join(project, "Ann", "Bob")
    record(project, ann, ask(project, ann).token, "yes")
    assert ask(project, bob).task is Task.LINK


ANSWERS = {Task.LINK: Answer.YES, Task.VERIFY: Answer.YES, Task.REQUIREMENT: Answer.NO_BOX}


def work(project: Project, worker: str, count: int, stay: Stay | None) -> list[tuple[str, Task]]:
    """Answer questions, and return their photos and tasks."""
    seen = []
    for _ in range(count):
        question = ask(project, worker, stay=stay)
        record(project, worker, question.token, ANSWERS[question.task])
        seen.append((question.photo, question.task))
    return seen


@on_both_databases
def test_a_worker_stays_with_a_photo_until_nothing_is_left_of_it(new_project: MakeProject) -> None:
    project, _ = new_project(3, independent=False, judgements_to_end=1)
    ann, bob = people(project, "Ann", "Bob")
    held = ask(project, bob)  # so that the first photo is taken
    assert held.photo == "dog0"
    seen = work(project, ann, 6, Stay.PHOTO)
    assert [name for name, _ in seen] == ["dog1"] * 3 + ["dog2"] * 3
    record(project, bob, held.token, "yes")


def test_a_worker_who_stays_goes_on_where_others_come_first(new_project: MakeProject) -> None:
    project, _ = new_project(3, independent=False, judgements_to_end=1)
    ann, bob = people(project, "Ann", "Bob")
    first = ask(project, bob)
    assert [name for name, _ in work(project, ann, 1, None)] == ["dog1"]
    record(project, bob, first.token, "yes")  # dog0 has a question again, which comes first in the queue
    assert [name for name, _ in work(project, ann, 2, Stay.PHOTO)] == ["dog1", "dog1"]


def test_a_worker_stays_with_a_task_while_there_are_questions_of_it(new_project: MakeProject) -> None:
    project, _ = new_project(3, independent=False, judgements_to_end=1)
    [ann] = people(project, "Ann")
    tasks = [task for _, task in work(project, ann, 9, Stay.TASK)]
    assert tasks == [Task.LINK] * 3 + [Task.VERIFY] * 3 + [Task.REQUIREMENT] * 3


def test_without_a_wish_questions_come_in_the_order_of_photos(new_project: MakeProject) -> None:
    project, _ = new_project(3, independent=False, judgements_to_end=1)
    [ann] = people(project, "Ann")
    assert [name for name, _ in work(project, ann, 6, None)] == ["dog0"] * 3 + ["dog1"] * 3
