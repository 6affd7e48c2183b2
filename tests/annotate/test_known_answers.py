"""Questions whose answer is known."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from simulated_crowd import Truth
from sqlalchemy import delete, update

from deixis import geometry
from deixis.annotate.known_answers import BAD_BOX, LOOSE_BOX, add_known_photos, make_known_questions
from deixis.annotate.material import prepare_photo
from deixis.annotate.quality import REVIEWED, follow_test
from deixis.annotate.settings import Settings
from deixis.annotate.store import RefusedError, known_questions
from deixis.annotate.workflow import Answer, Task, allowed_answers
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import ask, gold, people, record, undo


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


def test_a_bad_box_is_inside_the_photo_and_elsewhere_or_not_tight() -> None:
    photo, reasons = gold(), set[str]()
    for seed in range(30):
        for known in make_known_questions(photo, prepare_photo(photo), random.Random(seed)):
            if known.answer is Answer.BAD and known.question.new_box:
                box = known.question.new_box.xyxy
                assert (geometry.clip(box, 100, 80) == box).all()
                overlap = geometry.iou([box], Truth(photo).boxes_of(known.question.mentions[0])).max()
                assert overlap < 0.4 if known.why == BAD_BOX else 0.3 <= overlap < 0.5
                reasons.add(known.why)
    assert reasons == {BAD_BOX, LOOSE_BOX}


def test_a_photo_that_is_annotated_gives_no_known_answers(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    assert add_known_photos(project, [gold("dog0")]) == 0
    assert add_known_photos(project, [gold("new")]) > 10
    assert add_known_photos(project, [gold("new")]) == 0


GOLD = {name: gold(name) for name in ("gold0", "gold1", "gold2")}


def test_every_known_question_has_an_explanation_and_its_boxes_are_those_of_the_annotators() -> None:
    photo = gold()
    for known in make_known_questions(photo, prepare_photo(photo), random.Random(0)):
        assert known.why.endswith((".", "marked."))
        gold_boxes = set(Truth(photo).boxes_of(known.question.mentions[0]))
        assert set(known.right_boxes) <= gold_boxes
        if known.answer in (Answer.BAD, Answer.MORE, Answer.DRAWN):
            assert known.right_boxes


def test_an_explanation_names_the_other_phrases() -> None:
    photo = gold()
    made = list(make_known_questions(photo, prepare_photo(photo), random.Random(0)))
    different = [known.why for known in made if known.question.task is Task.LINK and known.answer is Answer.NO]
    wanted = ("“A man” names the same as “The man”", "“The man” names the same as “A man”")
    assert any(each in why for each in wanted for why in different)
    strangers = [known for known in made if known.question.task is Task.VERIFY and known.answer is Answer.NO]
    for known in strangers:
        caption, _, span = known.question.mentions[-1].partition(":")
        start, end = map(int, span.split("-"))
        assert f"“{photo.sentences[int(caption)].text[start:end]}”, in caption {int(caption) + 1}," in known.why


@on_both_databases
def test_a_test_answer_is_explained_and_cannot_be_taken_back(new_project: MakeProject) -> None:
    project, _ = new_project(2, test_questions=2, first_items=3, test_accuracy=0.5)
    add_known_photos(project, GOLD.values())
    [ann] = people(project, "Ann")
    question = ask(project, ann, tasks=[Task.LINK])
    truth = Truth(GOLD[question.photo]).answer(question.content)
    wrong = Answer.NO if truth is Answer.YES else Answer.YES
    told = record(project, ann, question.token, wrong)
    assert told.lesson is not None
    assert (told.lesson.correct, told.lesson.answer) == (False, truth)
    assert told.lesson.why
    assert told.qualification is not None
    assert told.qualification.test is not None
    assert (told.qualification.test.done, told.qualification.test.wrong, told.qualification.test.allowed) == (1, 1, 1)
    with pytest.raises(RefusedError):
        undo(project, ann, told.event)
    second = ask(project, ann, tasks=[Task.LINK])
    right = record(project, ann, second.token, Truth(GOLD[second.photo]).answer(second.content))
    assert right.lesson is not None
    assert right.lesson.correct
    first_item = ask(project, ann, tasks=[Task.LINK])
    assert not first_item.test
    said = record(project, ann, first_item.token, Answer.YES)
    assert said.lesson is None
    undo(project, ann, said.event)


def test_a_drawn_box_is_compared_with_the_closest_right_one(new_project: MakeProject) -> None:
    project, _ = new_project(2, test_questions=2, first_items=0, independent=False)
    add_known_photos(project, GOLD.values())
    with project.database.writing() as connection:  # the only task that is asked about
        connection.execute(delete(known_questions).where(known_questions.c.task != "drawing"))
    [ann] = people(project, "Ann")
    for value in ("yes", "yes", "box"):
        record(project, ann, ask(project, ann).token, value)
    question = ask(project, ann)
    assert (question.task, question.test) == (Task.DRAWING, True)
    truth = Truth(GOLD[question.photo]).boxes_of(question.content["mentions"][0])
    x1, y1, x2, y2 = truth[0]
    told = record(project, ann, question.token, "drawn", box=(x1, y1, x1 + (x2 - x1) / 4, y2))
    assert told.lesson is not None
    assert not told.lesson.correct
    assert "overlaps 25%" in told.lesson.why
    assert told.lesson.boxes == truth


def test_a_project_of_an_older_version_has_answers_but_no_explanations(new_project: MakeProject) -> None:
    project, _ = new_project(2, test_questions=2)
    add_known_photos(project, GOLD.values())
    with project.database.writing() as connection:
        connection.execute(update(known_questions).values(lesson=None, reviewed=True))
    [ann] = people(project, "Ann")
    told = record(project, ann, ask(project, ann).token, "yes")
    assert told.lesson is not None
    assert told.lesson.why == REVIEWED


def test_attempts_and_mistakes_are_counted() -> None:
    settings = Settings(test_accuracy=0.5, test_attempts=2)
    state = follow_test([True, False], 4, settings)[1]
    assert (state.done, state.of, state.wrong, state.allowed, state.attempt, state.attempts) == (2, 4, 1, 2, 1, 2)
    second = follow_test([False, False, False, True], 4, settings)[1]
    assert (second.done, second.wrong, second.attempt) == (1, 0, 2)
