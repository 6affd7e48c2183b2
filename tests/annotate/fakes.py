"""Sample photos, a clock that tests set, and workers who answer as the test says."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, insert, select

from deixis.annotate import queue
from deixis.annotate.events import Event, Judged
from deixis.annotate.judgements import JudgementResult, PhotoSnapshot, record_answer, skip_question, undo_event
from deixis.annotate.material import Material, prepare_photo
from deixis.annotate.people import Role, accept_invitation, invite
from deixis.annotate.project import Project
from deixis.annotate.queue import LeasedQuestion
from deixis.annotate.state import PhotoState, derive_state
from deixis.annotate.store import Database, properties
from deixis.annotate.workflow import ANSWERS_WITH_BOX, XYXY, Answer, Question, Rules, Task, allowed_answers
from deixis.data.records import Box, Caption, Chain, Mention, Photo

BOX: XYXY = (10.0, 10.0, 60.0, 50.0)


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def photo(*captions: str, name: str = "7", size: tuple[int, int] = (100, 80)) -> Photo:
    """A photo with these captions and without mentions."""
    return Photo(name, tuple(map(Caption.from_text, captions)), width=size[0], height=size[1])


def dogs(count: int) -> list[Material]:
    """Photos, each with two captions that mention a dog: one link, one verification, then boxes."""
    return [prepare_photo(photo("A dog runs.", "The dog jumps.", name=f"dog{number}")) for number in range(count)]


def gold(name: str = "gold") -> Photo:
    """An annotated photo: two men with a box each, a dog, and a park that is a scene."""
    first = Caption.from_text(
        "A man and a boy walk a dog in the park.",
        (
            Mention(0, 5, "1", ("people",)),
            Mention(10, 15, "2", ("people",)),
            Mention(21, 26, "3", ("animals",)),
            Mention(30, 38, "4", ("scene",)),
        ),
    )
    second = Caption.from_text(
        "Two people with their dog.", (Mention(0, 10, "5", ("people",)), Mention(16, 25, "3", ("animals",)))
    )
    third = Caption.from_text("The man smiles.", (Mention(0, 7, "1", ("people",)),))
    boxes = (
        Box((10, 10, 30, 70), ("1", "5")),
        Box((40, 20, 60, 70), ("2", "5")),
        Box((70, 50, 95, 75), ("3",)),
    )
    chains = (Chain("1"), Chain("2"), Chain("3"), Chain("4", scene=True), Chain("5"))
    return Photo(name, (first, second, third), chains, boxes, width=100, height=80)


def people(project: Project, *names: str, role: Role = Role.WORKER) -> list[str]:
    """Invite vouched workers and return their ids."""
    return [invite(project, name, vouched=True, role=role)[0] for name in names]


def join(project: Project, *names: str, role: Role = Role.WORKER) -> list[str]:
    """Invite workers who accept at once."""
    workers = []
    for name in names:
        worker, token = invite(project, name, vouched=True, role=role)
        accept_invitation(project, token, "hash")
        workers.append(worker)
    return workers


def next_question(project: Project, worker: str, **options: Any) -> LeasedQuestion | None:
    """Lease the next question in a transaction of its own."""
    return project.database.run(lambda connection: queue.next_question(project, connection, worker, **options))


def record(project: Project, worker: str, token: str, answer: str, **details: Any) -> JudgementResult:
    """Answer a question in a transaction of its own."""
    return project.database.run(lambda connection: record_answer(project, connection, worker, token, answer, **details))


def skip(project: Project, worker: str, token: str, **details: Any) -> JudgementResult:
    """Skip a question in a transaction of its own."""
    return project.database.run(lambda connection: skip_question(project, connection, worker, token, **details))


def undo(project: Project, worker: str, event: int) -> JudgementResult:
    """Undo an event in a transaction of its own."""
    return project.database.run(lambda connection: undo_event(project, connection, worker, event))


def ask(project: Project, worker: str, **options: Any) -> LeasedQuestion:
    """Lease the next question, which must exist."""
    question = next_question(project, worker, **options)
    assert question is not None
    return question


def snapshot(project: Project, photo: str = "dog0") -> PhotoSnapshot:
    """Read a photo with its events and its state."""
    return project.read_photo(photo)


def answer(project: Project, worker: str, value: Answer, task: Task | None = None) -> int:
    """Answer the next question and return the number of the event."""
    question = ask(project, worker)
    assert task is None or question.task is task
    return record(project, worker, question.token, value.value, box=answer_box(question, value), seconds=3.0).event


def answer_box(question: LeasedQuestion, value: Answer) -> XYXY | None:
    """Return a box for an answer that needs one."""
    if value is Answer.WRONG_BOX:
        x1, y1, x2, y2 = question.content["boxes"][0]
        return x1, y1, x2, y2
    return BOX if value in ANSWERS_WITH_BOX else None


def link_and_verify(project: Project, worker: str) -> None:
    """Make one chain of the two dogs of a photo, so that the question about a box is next."""
    answer(project, worker, Answer.YES, Task.LINK)
    answer(project, worker, Answer.YES, Task.VERIFY)


def add_property(key: str) -> Callable[[Connection], str]:
    """Make work for a transaction: insert a property and return its key."""

    def work(connection: Connection) -> str:
        connection.execute(insert(properties), {"key": key, "value": ""})
        return key

    return work


def property_keys(database: Database) -> set[str]:
    """Return the keys of the properties that tests have added."""
    with database.reading() as connection:
        return set(connection.scalars(select(properties.c.key))) - {"format", "version"}


class EventLog:
    """Events of one photo, with the answers that a test gives."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self.events: list[Event] = []

    @property
    def state(self) -> PhotoState:
        return derive_state(self.material, self.events, Rules())

    def answer(self, *answers: Answer, workers: Sequence[str] = ()) -> PhotoState:
        """Answer the first open question with each answer in turn, each by a different worker unless named."""
        for index, each in enumerate(answers):
            number = len(self.events) + 1
            self.events.append(
                judge(number, self.state.questions[0], workers[index] if workers else f"w{number}", each)
            )
        return self.state


def judge(number: int, question: Question, worker: str, value: Answer) -> Judged:
    """Make the event of an answer."""
    box = question.boxes[0].xyxy if value is Answer.WRONG_BOX else BOX if value in ANSWERS_WITH_BOX else None
    return Judged(number=number, worker=worker, task=question.task, subject=question.subject, answer=value, box=box)


def judge_at_random(number: int, questions: Sequence[Question], rng: random.Random) -> Judged:
    """Make the event of a random answer to one of the questions, by a worker who may answer it."""
    question = rng.choice(questions)
    worker = rng.choice([name for name in map(str, range(60)) if name not in question.barred])
    return judge(number, question, worker, rng.choice(allowed_answers(question.task)))
