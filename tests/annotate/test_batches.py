"""Batches: workers stay with a photo, or with a task."""

from __future__ import annotations

from deixis.annotate.project import Project
from deixis.annotate.queue import Stay
from deixis.annotate.workflow import Answer, Task
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import ask, people, record

ANSWERS = {Task.LINK: Answer.YES, Task.VERIFY: Answer.YES, Task.REQUIREMENT: Answer.NO_BOX}


def work(project: Project, worker: str, count: int, stay: Stay | None) -> list[tuple[str, Task]]:
    """Answer questions, and return their photos and tasks."""
    seen = []
    for _ in range(count):
        question = ask(project, worker, stay=stay)
        record(project, worker, question.token, ANSWERS[question.task])
        seen.append((question.photo, question.task))
    return seen


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
