"""Who is asked what, on both databases."""

from __future__ import annotations

import random
import threading

import pytest

from deixis.annotate.assigning import Given, next_question
from deixis.annotate.changing import RefusedError
from deixis.annotate.events import Event
from deixis.annotate.people import invite
from deixis.annotate.project import Project
from deixis.annotate.recording import record, skip
from deixis.annotate.walks import Answer, Task
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import BOX, answer, ask, people


def test_a_page_that_is_loaded_again_gets_the_same_question(new_project: MakeProject) -> None:
    project, _ = new_project(2)
    [ann] = people(project, "Ann")
    assert ask(project, ann) == ask(project, ann)


def test_two_workers_never_hold_the_same_question(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    assert ask(project, ann).task is Task.LINK
    assert next_question(project, bob) is None


def test_a_worker_may_hold_a_few_questions_in_advance_and_no_more(new_project: MakeProject) -> None:
    project, _ = new_project(5, held_at_once=3)
    [ann] = people(project, "Ann")
    held: list[Given] = []
    for _ in range(3):
        given = next_question(project, ann, besides=[each.token for each in held])
        assert given is not None
        held.append(given)
    assert len({given.photo for given in held}) == 3
    assert next_question(project, ann, besides=[each.token for each in held]) is None


def test_a_question_whose_worker_has_vanished_goes_to_another_who_comes_late_is_told(new_project: MakeProject) -> None:
    project, clock = new_project(1, lease_s=100.0)
    ann, bob = people(project, "Ann", "Bob")
    hers = ask(project, ann)
    clock.now += 101
    his = ask(project, bob)
    assert (his.photo, his.asked) == (hers.photo, hers.asked)
    with pytest.raises(RefusedError, match="was taken back"):
        record(project, ann, hers.token, "yes")
    record(project, bob, his.token, "yes")


def test_whoever_comes_late_but_before_anybody_else_is_welcome(new_project: MakeProject) -> None:
    project, clock = new_project(1, lease_s=100.0)
    [ann] = people(project, "Ann")
    given = ask(project, ann)
    clock.now += 5000
    assert not record(project, ann, given.token, "yes").again


def test_nobody_judges_their_own_box_or_votes_twice(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob, cy = people(project, "Ann", "Bob", "Cy")
    answer(project, ann, Answer.YES, Task.LINK)
    answer(project, ann, Answer.YES, Task.VERIFY)
    answer(project, ann, Answer.BOX, Task.REQUIREMENT)
    assert next_question(project, ann) is None
    answer(project, bob, Answer.DRAWN, Task.DRAWING)
    assert next_question(project, bob) is None
    answer(project, ann, Answer.GOOD, Task.QUALITY)
    answer(project, cy, Answer.ALL, Task.COVERAGE)
    assert next_question(project, cy) is None
    answer(project, bob, Answer.ALL, Task.COVERAGE)
    assert next_question(project, ann) is None


def test_a_person_alone_can_finish_a_project_that_allows_it(new_project: MakeProject) -> None:
    project, _ = new_project(1, independent=False, judgements_to_end=1)
    [ann] = people(project, "Ann")
    for said in (Answer.YES, Answer.YES, Answer.BOX, Answer.DRAWN, Answer.GOOD, Answer.ALL):
        answer(project, ann, said)
    assert next_question(project, ann) is None


def test_a_question_given_back_comes_to_others_and_never_again_to_the_same(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    given = ask(project, ann)
    skip(project, ann, given.token, remark="cannot tell")
    assert next_question(project, ann) is None
    assert ask(project, bob).asked == given.asked


def test_without_a_history_there_are_no_questions_unless_the_owner_vouches(new_project: MakeProject) -> None:
    project, _ = new_project(1, history_items=500, history_accuracy=0.95)
    new, _ = invite(project, "New")
    known, _ = invite(project, "Known", history_items=600, history_accuracy=0.97)
    careless, _ = invite(project, "Careless", history_items=600, history_accuracy=0.9)
    assert next_question(project, new) is None
    assert next_question(project, careless) is None
    assert next_question(project, known) is not None


def test_many_at_once_lose_nothing_and_answer_nothing_twice(new_project: MakeProject) -> None:
    project, _ = new_project(12)
    workers = people(project, *(f"w{number}" for number in range(8)))
    taken: list[tuple[str, str, str]] = []
    trouble: list[BaseException] = []

    def person(worker: str, chance: random.Random) -> None:
        try:
            for _ in range(40):
                given = next_question(project, worker)
                if given is None:
                    continue
                said = {
                    Task.LINK: "yes",
                    Task.VERIFY: "yes",
                    Task.REQUIREMENT: chance.choice(["box", "scene"]),
                    Task.DRAWING: "drawn",
                    Task.QUALITY: "good",
                    Task.COVERAGE: "all",
                }[given.task]
                box = BOX if said == "drawn" else None
                first = record(project, worker, given.token, said, box=box)
                assert record(project, worker, given.token, said, box=box).event == first.event
                taken.append((given.photo, given.task, worker))
        except BaseException as error:
            trouble.append(error)

    threads = [threading.Thread(target=person, args=(w, random.Random(n))) for n, w in enumerate(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trouble == []
    with project.database.reading() as connection:
        for number in range(12):
            folded = project.folds.at(connection, f"dog{number}")
            assert folded.state.finished
            assert folded.state.counted == {event.number for event in folded.events}
    assert len(taken) == sum(len(_events(project, number)) for number in range(12))


def _events(project: Project, number: int) -> tuple[Event, ...]:
    with project.database.reading() as connection:
        return project.folds.at(connection, f"dog{number}").events
