"""The questions that wait for an answer: the table of them follows the states of photos."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import Connection, delete, insert

from deixis.annotate.state import PhotoState
from deixis.annotate.store import statements
from deixis.annotate.store.schema import barred


def update_questions(connection: Connection, photo: str, place: int, state: PhotoState) -> None:
    """Make the waiting questions of a photo those of its state; whoever holds one that is gone loses it."""
    rows = connection.execute(statements.QUESTIONS_OF_PHOTO, {"its_photo": photo})
    there = {(task, subject): number for number, task, subject in rows}
    wanted = {(question.task.value, question.subject): question for question in state.questions}
    if gone := [number for asked, number in there.items() if asked not in wanted]:
        connection.execute(statements.LEASES_GONE, {"gone": gone})
        connection.execute(statements.BARRED_GONE, {"gone": gone})
        connection.execute(statements.QUESTIONS_GONE, {"gone": gone})
    told: dict[int, set[str]] = defaultdict(set)
    for number, worker in connection.execute(statements.BARRED_OF_PHOTO, {"its_photo": photo}):
        told[number].add(worker)
    for asked, question in wanted.items():
        number = there.get(asked)
        if number is None:
            values = {"photo": photo, "place": place, "task": question.task.value, "subject": question.subject}
            made = connection.execute(
                statements.NEW_QUESTION, values | {"asked": question.as_json(), "leased_until": 0.0}
            )
            number = int(made.inserted_primary_key[0])  # type: ignore[index]
        before = told[number]
        if new := sorted(question.barred - before):
            connection.execute(insert(barred), [{"question": number, "worker": worker} for worker in new])
        if free := sorted(before - question.barred):
            connection.execute(delete(barred).where(barred.c.question == number, barred.c.worker.in_(free)))


def summary(state: PhotoState) -> dict[str, Any]:
    """What the table of photos says of a state."""
    return {"chains": len(state.chains), "waiting": len(state.review), "finished": state.finished}
