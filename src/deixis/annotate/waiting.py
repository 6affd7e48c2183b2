"""The questions that wait for an answer: the table of them follows the states of photos."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, delete

from deixis.annotate.questions import Question
from deixis.annotate.state import PhotoState
from deixis.annotate.store import statements
from deixis.annotate.store.schema import barred
from deixis.annotate.walks import Task


def update_questions(connection: Connection, photo: str, place: int, state: PhotoState) -> None:
    """Make the waiting questions of a photo those of its state; whoever holds one that is gone loses it."""
    rows = connection.execute(statements.QUESTIONS_OF_PHOTO, {"its_photo": photo})
    there = {(task, subject): number for number, task, subject in rows}
    wanted = {(question.task.value, question.subject): question for question in state.questions}
    if gone := [number for asked, number in there.items() if asked not in wanted]:
        connection.execute(statements.LEASES_GONE, {"gone": gone})
        connection.execute(statements.QUESTIONS_GONE, {"gone": gone})
    told: dict[int, set[str]] = defaultdict(set)
    for number, worker in connection.execute(statements.BARRED_OF_PHOTO, {"its_photo": photo}):
        told[number].add(worker)
    for asked, question in wanted.items():
        number = there.get(asked)
        if number is None:
            _add(connection, place, question)
        else:
            _bar(connection, number, told[number], question.barred)


def follow_questions(
    connection: Connection, photo: str, place: int, before: PhotoState, after: PhotoState, answered: int | None
) -> None:
    """The same, where the waiting questions are those of the state before: most changes are of one question or two.

    Parameters
    ----------
    connection, photo, place
        Where.
    before, after
        The states.
    answered
        The number of the question whose answer made the difference; nobody holds it any more.
    """
    old = {(question.task, question.subject): question for question in before.questions}
    new = {(question.task, question.subject): question for question in after.questions}
    for asked in old.keys() - new.keys():
        number = connection.execute(statements.QUESTION_GONE, _named(photo, *asked)).scalar()
        if number is not None and number != answered:
            connection.execute(statements.LEASES_GONE, {"gone": [number]})
        answered = None if number == answered else answered
    if answered is not None:  # it is still asked, of others
        connection.execute(statements.QUESTION_LEASED, {"its_number": answered, "until": 0.0})
    for asked, question in new.items():
        if asked not in old:
            _add(connection, place, question)
        elif question.barred != old[asked].barred:
            number = connection.execute(statements.QUESTION_NUMBER, _named(photo, *asked)).scalar_one()
            _bar(connection, number, old[asked].barred, question.barred)


def _named(photo: str, task: Task, subject: str) -> dict[str, str]:
    return {"its_photo": photo, "its_task": task.value, "its_subject": subject}


def _add(connection: Connection, place: int, question: Question) -> None:
    values = {"photo": question.photo, "place": place, "task": question.task.value, "subject": question.subject}
    values |= {"asked": question.as_json(), "leased_until": 0.0}
    made = connection.execute(statements.NEW_QUESTION, values)
    if question.barred:
        _bar(connection, int(made.inserted_primary_key[0]), frozenset(), question.barred)  # type: ignore[index]


def _bar(connection: Connection, number: int, before: Collection[str], now: Collection[str]) -> None:
    """Make those who are barred from a question those who are to be now."""
    if new := sorted(set(now) - set(before)):
        connection.execute(statements.NEW_BARRED, [{"question": number, "worker": worker} for worker in new])
    if free := sorted(set(before) - set(now)):
        connection.execute(delete(barred).where(barred.c.question == number, barred.c.worker.in_(free)))


def summary(state: PhotoState) -> dict[str, Any]:
    """What the table of photos says of a state."""
    return {"chains": len(state.chains), "waiting": len(state.review), "finished": state.finished}
