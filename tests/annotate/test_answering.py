"""An answer and the next question in one transaction, and questions that follow their states."""

from __future__ import annotations

import random

from sqlalchemy import select

from deixis.annotate.answering import Turn, Wanted, answering, keep_turn, next_turn, take_undo_turn
from deixis.annotate.assigning import next_question
from deixis.annotate.known import add_known
from deixis.annotate.project import Project, add_photos
from deixis.annotate.recording import skip, undo
from deixis.annotate.store.schema import barred, checks, questions
from deixis.annotate.walks import Answer, Task
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import BOX, ask, dogs, gold, people


def turn(project: Project, worker: str, token: str, said: str, box: object = None) -> Turn:
    take = answering(project, worker, token, said, box, 1.0, "")  # type: ignore[arg-type]
    return project.database.run(
        lambda connection: next_turn(project, connection, worker, take(connection), Wanted()), keep_turn
    )


def test_an_answer_and_the_next_question_are_one_step(new_project: MakeProject) -> None:
    project, _ = new_project(photos=2)
    [ann] = people(project, "ann")
    given = ask(project, ann)
    done = turn(project, ann, given.token, "yes")
    assert done.recorded is not None
    assert done.given is not None
    assert done.given.task is Task.VERIFY
    assert ask(project, ann).token == done.given.token


def test_an_answer_that_is_refused_gives_no_question(new_project: MakeProject) -> None:
    project, _ = new_project(photos=2)
    ann, bob = people(project, "ann", "bob")
    given = ask(project, ann)
    for worker, said in ((ann, "maybe"), (bob, "yes")):
        try:
            turn(project, worker, given.token, said)
        except Exception as error:
            assert type(error).__name__ in ("RefusedError", "NeverGivenError")
    assert next_question(project, ann, besides=[given.token]) is not None
    assert turn(project, ann, given.token, "yes").recorded is not None, "it is still open"


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
    """The same from all events, folded anew."""
    with project.database.reading() as connection:
        folded = project.folds.at(connection, photo)
    state = project.folds.fold(folded.material, folded.events).state
    return {(question.task.value, question.subject): set(question.barred) for question in state.questions}


def test_the_questions_that_wait_are_always_those_of_the_states(new_project: MakeProject) -> None:
    project, clock = new_project(photos=3, lease_s=50.0)
    dice = random.Random(4)
    crowd = people(project, *(f"w{number}" for number in range(6)))
    done: list[tuple[str, int]] = []
    for _ in range(100):
        worker = dice.choice(crowd)
        clock.now += dice.choice([1.0, 60.0])
        given = next_question(project, worker)
        if given is None:
            continue
        if dice.random() < 0.1:
            skip(project, worker, given.token)
        elif done and dice.random() < 0.15:
            undo(project, *done.pop(dice.randrange(len(done))))
        else:
            said = dice.choice(sorted({"link": ["yes", "no"], "verify": ["yes", "no"], "quality": ["good", "bad"],
                "requirement": ["box", "scene", "no box"], "coverage": ["all", "more"],
                "drawing": ["drawn", "no more"]}[given.task.value]))  # fmt: skip
            recorded = turn(project, worker, given.token, said, BOX if said == Answer.DRAWN else None).recorded
            assert recorded is not None
            done.append((worker, recorded.event))
        assert waiting(project, given.photo) == asked_by_state(project, given.photo)


def test_a_known_question_that_was_taken_back_comes_again_and_counts_again(new_project: MakeProject) -> None:
    project, _ = new_project(photos=1, test_questions=2, first_items=2)
    add_known(project, [gold()])
    [ann] = people(project, "ann")
    given = ask(project, ann)
    assert given.test
    event = turn(project, ann, given.token, "yes").recorded
    assert event is not None
    again = project.database.run(
        lambda connection: take_undo_turn(project, connection, ann, event.event), keep_turn
    ).given
    assert again is not None
    assert (again.photo, again.asked, again.test) == (given.photo, given.asked, True)
    turn(project, ann, again.token, "no")
    with project.database.reading() as connection:
        right = connection.scalars(select(checks.c.right).order_by(checks.c.number)).all()
    assert right[0] is None
    assert right[1] is not None


def test_a_question_that_another_holds_does_not_come_again(new_project: MakeProject) -> None:
    project, _ = new_project()
    ann, bob = people(project, "ann", "bob")
    event = turn(project, ann, ask(project, ann).token, "no").recorded
    assert event is not None
    add_photos(project, dogs(2))
    undo(project, ann, event.event)
    assert ask(project, bob).task is Task.LINK
    done = project.database.run(lambda connection: take_undo_turn(project, connection, ann, event.event), keep_turn)
    assert done.given is None
