"""What a page does in one go: an answer and the next question, or an answer taken back and its question again."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sqlalchemy import Connection

from deixis.annotate.assigning import Given, give_again, give_next, why_none
from deixis.annotate.project import Project
from deixis.annotate.recording import Done, Recorded, keep, take_answer, take_back, take_undo
from deixis.annotate.walks import XYXY, Task

Take = Callable[[Connection], Done]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The question that a page wants next: one it does not hold yet, of these tasks."""

    besides: tuple[str, ...] = ()
    only: Collection[Task] = tuple(Task)


@dataclass(frozen=True, slots=True)
class Turn:
    """What came of it: what was recorded, the next question, and why there is none."""

    done: Done | None = None
    given: Given | None = None
    why: str | None = None

    @property
    def recorded(self) -> Recorded | None:
        """What was recorded."""
        return self.done.recorded if self.done else None


def answering(
    project: Project, worker: str, token: str, answer: str, box: XYXY | None, seconds: float, remark: str
) -> Take:
    """Recording an answer, as part of a turn."""
    return lambda connection: take_answer(project, connection, worker, token, answer, box, seconds, remark)


def giving_back(project: Project, worker: str, token: str, bad_phrase: str | None, seconds: float, remark: str) -> Take:
    """Giving a question back, as part of a turn."""
    return lambda connection: take_back(project, connection, worker, token, bad_phrase, seconds, remark)


def next_turn(project: Project, connection: Connection, worker: str, done: Done | None, wanted: Wanted | None) -> Turn:
    """Find the next question, in the transaction that has recorded the answer before it."""
    if wanted is None:
        return Turn(done)
    given = give_next(project, connection, worker, wanted.besides, wanted.only)
    return Turn(done, given, why_none(project, connection, worker) if given is None else None)


def take_undo_turn(project: Project, connection: Connection, worker: str, event: int) -> Turn:
    """Take an event back, and give its question again to whoever had answered it."""
    done = take_undo(project, connection, worker, event)
    given = give_again(project, connection, worker, event) if not done.recorded.again else None
    return Turn(done, given)


def keep_turn(turn: Turn) -> None:
    """Remember what was changed; after the commit."""
    if turn.done is not None:
        keep(turn.done)
