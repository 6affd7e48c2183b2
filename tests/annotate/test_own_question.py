"""The lead's own question: from the settings file through the queue, tests and votes to the export."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from deixis.annotate.export import export_project
from deixis.annotate.gallery import GalleryFilter, assign_photos, find_photos
from deixis.annotate.judgements import ExpiredQuestionError
from deixis.annotate.own_question import ANSWERS_FILE
from deixis.annotate.people import Role, suspend_worker
from deixis.annotate.progress import read_progress
from deixis.annotate.project import (
    PAIRS_PROPERTY,
    Project,
    open_for_work,
    reload_settings,
    requeue_suspended,
    tasks_in_use,
)
from deixis.annotate.quality import Level, lock_worker, reinstate
from deixis.annotate.queue import lease_again
from deixis.annotate.review import ASK_AGAIN, Reassigned, blocked_questions, decide, reassign, review_queue
from deixis.annotate.settings import Settings, read_settings, write_settings
from deixis.annotate.store import RefusedError, checks, known_questions, photos, write_property
from deixis.annotate.workflow import Answer, OwnQuestion, Task
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import answer, ask, join, link_and_verify, next_question, record, skip, snapshot, undo

SHARP = OwnQuestion("sharp", "Is the photo sharp?", choices=("yes", "no", "all"))
CLEAR = OwnQuestion("clear", "How clear is {phrase}?", about="phrase", rating=5, votes=2)
OWN = [Task.OWN]


def set_question(project: Project, question: OwnQuestion | None) -> None:
    """Edit the settings file, as a lead does while the server runs."""
    write_settings(replace(project.settings, question=question), project.folder / "settings.json")
    assert reload_settings(project)


def say(project: Project, worker: str, said: str) -> int:
    return record(project, worker, ask(project, worker, tasks=OWN).token, said).event


def exported(project: Project, out: Path) -> list[dict[str, Any]]:
    export_project(project, "jsonl", out, unfinished=True)
    return list(map(json.loads, (out / ANSWERS_FILE).read_text(encoding="utf-8").splitlines()))


@on_both_databases
def test_people_vote_and_the_answers_are_exported(new_project: MakeProject, tmp_path: Path) -> None:
    project, _ = new_project(1)
    set_question(project, SHARP)
    ann, bob, cy = join(project, "Ann", "Bob", "Cy")
    question = ask(project, ann, tasks=OWN)
    assert (question.content["mentions"], question.content["new_box"]) == ([], None)
    with pytest.raises(RefusedError, match="maybe"):
        record(project, ann, question.token, "maybe")
    first = record(project, ann, question.token, "all").event
    assert next_question(project, ann, tasks=OWN) is None
    say(project, bob, "yes")
    undo(project, ann, first)
    say(project, ann, "no")
    say(project, cy, "yes")
    assert next_question(project, ann, tasks=OWN) is None
    [line] = exported(project, tmp_path / "out")
    assert line == {
        "photo": "dog0",
        "question": "sharp",
        "mention": None,
        "phrase": None,
        "box": None,
        "answer": "yes",
        "answers": ["yes", "no", "yes"],
        "by": [bob, ann, cy],
        "is_open": False,
    }
    task = next(each for each in read_progress(project).tasks if each.task is Task.OWN)
    assert (task.open, task.judged, task.compared, task.votes) == (0, 4, 1, 3)
    assert task.agreeing == pytest.approx(1 / 3)
    shown = find_photos(project, GalleryFilter(disagreement=True))[1][0]
    assert [(each.answer, each.by) for each in shown.answers] == [("yes", ("Bob", "Ann", "Cy"))]
    assert [(each.mention, len(each.answers)) for each in shown.disagreements] == [("", 3)]


def test_a_photo_is_finished_after_its_question(new_project: MakeProject) -> None:
    project, _ = new_project(1, independent=False, judgements_to_end=1)
    set_question(project, replace(SHARP, votes=1))
    [ann] = join(project, "Ann")
    for task, said in ((Task.LINK, "yes"), (Task.VERIFY, "yes"), (Task.REQUIREMENT, "no box")):
        record(project, ann, ask(project, ann, tasks=[task]).token, said)
    assert not snapshot(project).state.finished
    say(project, ann, "all")
    assert snapshot(project).state.finished


def test_ratings_of_phrases_are_averaged_and_agree_like_numbers(new_project: MakeProject, tmp_path: Path) -> None:
    project, _ = new_project(8)
    set_question(project, CLEAR)
    ann, bob = join(project, "Ann", "Bob")
    for number in range(16):
        say(project, ann, str(1 + number % 5))
        say(project, bob, str(min(2 + number % 5, 5)))
    lines = exported(project, tmp_path / "out")
    assert [line["phrase"] for line in lines[:2]] == ["A dog", "The dog"]
    assert lines[0]["answer"] == 1.5
    task = next(each for each in read_progress(project).tasks if each.task is Task.OWN)
    assert task.agreement is not None
    assert task.agreement > 0.5  # as categories, they would disagree more than by chance


def test_boxes_are_asked_about_once_their_chain_is_complete(new_project: MakeProject, tmp_path: Path) -> None:
    project, _ = new_project(1, independent=False, judgements_to_end=1)
    set_question(project, OwnQuestion("breed", "Which breed?", about="box", votes=2))
    [ann] = join(project, "Ann")
    link_and_verify(project, ann)
    for said in (Answer.BOX, Answer.DRAWN, Answer.GOOD):
        assert next_question(project, ann, tasks=OWN) is None
        answer(project, ann, said)
    coverage = answer(project, ann, Answer.ALL, Task.COVERAGE)
    say(project, ann, "  a Poodle ")
    assert next_question(project, ann, tasks=OWN) is None  # who works alone is not asked twice
    [line] = exported(project, tmp_path / "out")
    assert (line["phrase"], line["answer"], line["answers"]) == ("The dog", "a Poodle", ["a Poodle"])
    assert line["box"] == [10, 10, 60, 50]
    undo(project, ann, coverage)
    assert exported(project, tmp_path / "again") == []


def test_known_answers_test_people_and_nobody_else_is_asked_about_them(
    new_project: MakeProject, tmp_path: Path
) -> None:
    project, _ = new_project(6, test_questions=1, first_items=0, test_attempts=1)
    known = tuple((f"dog{number}", "yes") for number in range(4))
    set_question(project, replace(SHARP, known=known))
    ann, bob = join(project, "Ann", "Bob")
    question = ask(project, ann, tasks=OWN)
    assert question.test
    result = record(project, ann, question.token, "no")
    assert result.lesson is not None
    assert (result.lesson.correct, result.lesson.answer) == (False, "yes")
    assert result.qualification is not None
    assert result.qualification.level is Level.FAILED
    assert next_question(project, ann, tasks=OWN) is None
    say(project, bob, "yes")
    photos = set()
    while question := next_question(project, bob, tasks=OWN):
        photos.add(question.photo)
        record(project, bob, question.token, "no")
    assert photos == {"dog4", "dog5"}
    lines = {line["photo"]: (line["answer"], line["by"]) for line in exported(project, tmp_path / "out")}
    assert lines == dict.fromkeys((name for name, _ in known), ("yes", [])) | {
        "dog4": (None, [bob]),
        "dog5": (None, [bob]),
    }


def test_known_answers_follow_the_settings(new_project: MakeProject) -> None:
    project, _ = new_project(4, test_questions=1, first_items=0)
    set_question(project, replace(CLEAR, known=tuple((f"dog{number} 0:0-5", "1") for number in range(4))))
    ann, bob = join(project, "Ann", "Bob")
    question = ask(project, ann, tasks=OWN)
    assert question.content["mentions"] == ["0:0-5"]
    set_question(project, replace(CLEAR, known=tuple((f"dog{number} 0:0-5", "5") for number in range(4))))
    assert say(project, bob, "4")  # may differ by one
    assert not ask(project, bob, tasks=OWN).test
    set_question(project, replace(CLEAR, known=(("dog9 0:0-5", "1"), ("dog0 0:90-95", "1"), ("dog0", "1"))))
    with pytest.raises(ExpiredQuestionError):
        record(project, ann, question.token, "1")
    advice = "\n".join(read_progress(project).advice)
    assert advice.count("is not used") == 3
    assert "dog9" in advice


def test_another_name_makes_another_question_and_other_choices_keep_the_valid_votes(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    set_question(project, SHARP)
    ann, bob = join(project, "Ann", "Bob")
    say(project, ann, "all")
    say(project, bob, "yes")
    set_question(project, replace(SHARP, text="Really sharp?", choices=("yes", "no")))
    assert [vote.answers for vote in snapshot(project).state.votes] == [("yes",)]
    set_question(project, replace(SHARP, name="sharper", choices=("yes", "no")))
    assert [vote.answers for vote in snapshot(project).state.votes] == [()]
    question = ask(project, ann, tasks=OWN)
    set_question(project, None)
    with pytest.raises(ExpiredQuestionError):
        record(project, ann, question.token, "yes")
    with project.database.reading() as connection:
        assert Task.OWN not in tasks_in_use(project, connection)
    assert snapshot(project).state.votes == ()


def test_answers_of_people_who_are_suspended_by_hidden_questions_are_asked_again(new_project: MakeProject) -> None:
    project, _ = new_project(30, test_questions=0, first_items=4, hidden_share=0.0)
    set_question(project, replace(SHARP, known=tuple((f"dog{number}", "yes") for number in range(20))))
    eve, bob = join(project, "Eve", "Bob")
    for _ in range(4):
        say(project, eve, "yes")
    say(project, eve, "no")
    assert snapshot(project, "dog20").state.votes[0].answers == ("no",)
    project.settings = replace(project.settings, hidden_share=1.0)
    while next_question(project, eve, tasks=OWN):
        say(project, eve, "no")
    with project.database.writing() as connection:
        assert lock_worker(project, connection, eve)[1][Task.OWN] is Level.SUSPENDED
    requeue_suspended(project)
    assert snapshot(project, "dog20").state.votes[0].answers == ()
    suspend_worker(project, bob)


def test_a_reviewer_sees_what_nobody_can_answer_and_asks_again(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    set_question(project, SHARP)
    ann, bob = join(project, "Ann", "Bob")
    [lead] = join(project, "Lead", role=Role.REVIEWER)
    skip(project, ann, ask(project, ann, tasks=OWN).token, remark="odd")
    say(project, bob, "no")
    cases = [case for case in review_queue(project) if case.phrase == "the photo"]
    assert [(case.mention, case.decisions) for case in cases] == [("", (ASK_AGAIN,)), ("", ("seen",))]
    decide(project, lead, "dog0", "", ASK_AGAIN)
    say(project, ann, "no")
    assert snapshot(project).state.votes[0].answers == ("no", "no")
    assert [line for line in read_progress(project).advice if "'sharp'" in line]  # three votes, two people


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ({"text": "?"}, "name"),
        ({"name": "two words", "text": "?"}, "name"),
        ({"name": "a", "text": " "}, "text"),
        ({"name": "a", "text": "?", "about": "caption"}, "caption"),
        ({"name": "a", "text": "?", "choices": ["yes"]}, "choices"),
        ({"name": "a", "text": "?", "choices": ["yes", "yes"]}, "choices"),
        ({"name": "a", "text": "?", "choices": ["yes", "no"], "rating": 5}, "rating"),
        ({"name": "a", "text": "?", "rating": 1}, "rating"),
        ({"name": "a", "text": "?", "votes": 0}, "votes"),
        ({"name": "a", "text": "?", "rating": 3, "known": {"dog0": "4"}}, "dog0"),
        ({"name": "a", "text": "?", "known": "all"}, "known"),
        ({"name": "a", "text": "?", "choises": []}, "choises"),
        ({"name": 1, "text": "?"}, "name"),
        ({"name": "a", "text": "?", "rating": "5"}, "rating"),
        ({"name": "a", "text": "?", "choices": [1, 2]}, "choices"),
    ],
)
def test_mistakes_in_the_settings_file_are_named(question: dict[str, Any], named: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"question": question}))
    with pytest.raises(DeixisError, match=f"settings.json.*question.*{named}"):
        read_settings(path)


def test_settings_with_a_question_are_written_and_read(tmp_path: Path) -> None:
    known = (("dog 7", "no"),)
    write_settings(Settings(question=replace(SHARP, known=known)), tmp_path / "settings.json")
    assert read_settings(tmp_path / "settings.json").question == replace(SHARP, known=known)
    assert json.loads((tmp_path / "settings.json").read_text())["question"]["known"] == {"dog 7": "no"}


def test_a_project_is_opened_with_the_question_of_its_settings_file(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    settings = json.loads((project.folder / "settings.json").read_text())
    settings["question"] = {"name": "sharp", "text": "Sharp?", "choices": ["yes", "no"], "known": {"dog0": "no"}}
    (project.folder / "settings.json").write_text(json.dumps(settings))
    opened = open_for_work(project.folder)
    with opened.database.reading() as connection:
        assert tasks_in_use(opened, connection)[-1] is Task.OWN
    assert [each.known for each in read_progress(opened).tasks if each.task is Task.OWN] == [1]
    opened.close()


@pytest.mark.parametrize("said", ["drawn", "adjusted", "wrong box", "photo"])
def test_an_own_answer_may_be_spelled_like_an_answer_of_another_task(new_project: MakeProject, said: str) -> None:
    project, _ = new_project(1)
    set_question(project, replace(SHARP, choices=(said, "none"), votes=1))
    [ann] = join(project, "Ann")
    say(project, ann, said)
    assert snapshot(project).state.votes[0].answers == (said,)
    with project.database.reading() as connection:
        assert connection.execute(select(checks)).all() == []


def test_known_boxes_are_told_apart_by_their_coordinates_and_must_be_in_the_photo(
    new_project: MakeProject, tmp_path: Path
) -> None:
    project, _ = new_project(1)
    breed = OwnQuestion("breed", "Which breed?", about="box")
    good = ("dog0 0:0-5 10,10.0,60,50", "dog0 0:0-5 1,1,9,9")
    wrong = ("0:2-99 1,1,9,9", "0:0-5 60,10,10,50", "0:0-5 10,10,600,50", "0:0-5 nan,10,20,50")
    set_question(project, replace(breed, known=tuple((name, "pug") for name in (*good, *(f"dog0 {w}" for w in wrong)))))
    assert [line["box"] for line in exported(project, tmp_path / "out")] == [[10, 10, 60, 50], [1, 1, 9, 9]]
    assert len(find_photos(project, GalleryFilter())[1][0].answers) == 2
    assert "\n".join(read_progress(project).advice).count("is not used") == len(wrong)
    set_question(project, replace(breed, known=(("dog0 0:0-5 10,10,60,55", "pug"),)))
    with project.database.reading() as connection:
        assert [row.asked["new_box"] for row in connection.execute(select(known_questions))] == [[10, 10, 60, 55]]


def test_a_box_is_known_however_its_coordinates_are_written(new_project: MakeProject) -> None:
    project, _ = new_project(1, independent=False, judgements_to_end=1)
    known = (("dog0 1:0-7  10.0,10,60.00,50", "pug"),)
    set_question(project, OwnQuestion("breed", "Which breed?", about="box", known=known))
    [ann] = join(project, "Ann")
    link_and_verify(project, ann)
    for said in (Answer.BOX, Answer.DRAWN, Answer.GOOD, Answer.ALL):
        answer(project, ann, said)
    state = snapshot(project).state
    assert [box.xyxy for chain in state.chains if chain.workflow for box in chain.workflow.boxes] == [(10, 10, 60, 50)]
    assert (state.votes, state.finished) == ((), True)


def test_a_known_question_that_takes_the_number_of_another_is_asked(new_project: MakeProject) -> None:
    project, _ = new_project(3, test_questions=0, hidden_share=1.0)
    [ann] = join(project, "Ann")
    events = []
    for name in ("dog0", "dog1"):
        set_question(project, SHARP)
        set_question(project, replace(SHARP, known=((name, "yes"),)))
        question = ask(project, ann, tasks=OWN)
        assert question.photo == name
        events.append(record(project, ann, question.token, "yes").event)
    again = [
        project.database.run(lambda connection, event=event: lease_again(project, connection, ann, event))
        for event in events
    ]
    assert [question and question.photo for question in again] == [None, "dog1"]


def test_written_answers_agree_whatever_their_case(new_project: MakeProject, tmp_path: Path) -> None:
    project, _ = new_project(1)
    set_question(project, OwnQuestion("what", "What is it?", votes=2))
    for person, said in zip(join(project, "Ann", "Bob"), ("A Dog", "a dog"), strict=True):
        say(project, person, said)
    [line] = exported(project, tmp_path / "out")
    assert (line["answer"], line["answers"]) == ("A Dog", ["A Dog", "a dog"])
    assert find_photos(project, GalleryFilter(disagreement=True))[1] == []
    assert [each.agreeing for each in read_progress(project).tasks if each.task is Task.OWN] == [1.0]


def test_those_who_worked_before_there_were_known_answers_are_tested(new_project: MakeProject) -> None:
    project, _ = new_project(6, test_questions=1, first_items=0)
    set_question(project, SHARP)
    ann, bob = join(project, "Ann", "Bob")
    say(project, ann, "yes")
    with project.database.writing() as connection:
        reinstate(project, connection, bob, Task.OWN)
    set_question(project, replace(SHARP, known=tuple((f"dog{number}", "yes") for number in range(2, 6))))
    assert ask(project, ann, tasks=OWN).test


def test_a_project_of_pairs_may_have_a_question(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    set_question(project, SHARP)
    with project.database.writing() as connection:
        write_property(connection, PAIRS_PROPERTY, "{}")
        assert tasks_in_use(project, connection)[-2:] == (Task.PAIR, Task.OWN)
        connection.execute(update(photos).values(chains=0))
        assert tasks_in_use(project, connection) == (Task.PAIR, Task.OWN)


def test_a_photo_may_be_assigned_to_a_reviewer(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    set_question(project, replace(SHARP, votes=5))
    join(project, "Ann")
    [eve] = join(project, "Eve", role=Role.REVIEWER)
    assert "5 people" in str(assign_photos(project, None, GalleryFilter(), [eve]).advice)
    assert blocked_questions(project) == []
    say(project, eve, "yes")
    assert [each.answered for each in blocked_questions(project) if each.task is Task.OWN] == [("Eve",)]


def test_what_is_assigned_to_somebody_absent_is_given_to_others(new_project: MakeProject) -> None:
    project, clock = new_project(2, absent_after_h=1.0)
    set_question(project, replace(CLEAR, about="photo"))
    ann, bob, cy = join(project, "Ann", "Bob", "Cy")
    [lead] = join(project, "Lead", role=Role.REVIEWER)
    for person in (ann, bob):
        skip(project, person, ask(project, person, tasks=[Task.LINK]).token)
    assign_photos(project, None, GalleryFilter(), [cy])
    clock.now += 3601
    for person in (ann, bob):
        assert next_question(project, person) is None
    waiting = blocked_questions(project)
    assert {each.absent for each in waiting} == {(cy,)}
    assert reassign(project, lead, cy) == Reassigned(released=0, asked_again=len(waiting), for_review=0)
    assert blocked_questions(project) == []
    assert next_question(project, ann) is not None
