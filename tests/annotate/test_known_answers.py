"""Questions whose answer is known."""

from __future__ import annotations

import random
from collections import Counter

from simulated_crowd import Truth

from deixis import geometry
from deixis.annotate.known_answers import add_known_photos, make_known_questions
from deixis.annotate.material import prepare_photo
from deixis.annotate.workflow import Answer, Task, allowed_answers
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import gold


def test_every_task_has_questions_and_every_answer_is_among_them() -> None:
    photo = gold()
    made = list(make_known_questions(photo, prepare_photo(photo), random.Random(0)))
    answers = {task: {known.answer for known in made if known.question.task is task} for task in Task}
    assert answers[Task.DRAWING] == {Answer.DRAWN}
    assert answers[Task.REQUIREMENT] == {Answer.BOX, Answer.SCENE}
    for task in (Task.LINK, Task.VERIFY, Task.QUALITY, Task.COVERAGE):
        assert answers[task] == set(allowed_answers(task)) - {Answer.ADJUSTED, Answer.WRONG_BOX}


def test_the_answers_are_those_of_the_gold() -> None:
    photo = gold()
    truth = Truth(photo)
    made = list(make_known_questions(photo, prepare_photo(photo), random.Random(1)))
    wrong = Counter(known.question.task for known in made if truth.answer(known.question.as_json()) is not known.answer)
    assert wrong == {}


def test_a_bad_box_is_inside_the_photo_and_clearly_wrong() -> None:
    photo = gold()
    for seed in range(30):
        for known in make_known_questions(photo, prepare_photo(photo), random.Random(seed)):
            if known.answer is Answer.BAD and known.question.new_box:
                box = known.question.new_box.xyxy
                assert (geometry.clip(box, 100, 80) == box).all()
                assert geometry.iou([box], Truth(photo).boxes_of(known.question.mentions[0])).max() < 0.4


def test_a_photo_that_is_annotated_gives_no_known_answers(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    assert add_known_photos(project, [gold("dog0")]) == 0
    assert add_known_photos(project, [gold("new")]) > 10
    assert add_known_photos(project, [gold("new")]) == 0
