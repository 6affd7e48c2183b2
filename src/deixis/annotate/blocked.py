"""Questions that no worker can answer: what they wait for, and the decisions that a reviewer can take instead."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from deixis.annotate.events import Skipped, effective_events
from deixis.annotate.people import MODEL_ROLE, Role
from deixis.annotate.quality import NO_WORK, Level
from deixis.annotate.schema import barred, photos, qualifications, questions, workers
from deixis.annotate.workflow import ANSWERS_WITH_BOX, TASK_NAMES, XYXY, Answer, Task, allowed_answers

if TYPE_CHECKING:
    from deixis.annotate.project import Project

ASK_AGAIN = "ask again"
"""The decision that lets those who skipped a question answer it after all."""

_MAX_FILES = 5000
"""Number of unfinished photos whose files are looked for."""


class WaitsFor(StrEnum):
    """What a blocked question waits for."""

    ANOTHER_PERSON = "another person"
    QUALIFIED_PERSON = "somebody who is qualified"
    PICTURE = "the file of the photo"


@dataclass(frozen=True, slots=True)
class BlockedQuestion:
    """An open question that nobody can answer. `answered` and `skipped` are names of workers."""

    photo: str
    mentions: tuple[str, ...]  # of the question
    task: Task
    waits_for: WaitsFor
    answered: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    boxes: int = 0
    region: XYXY | None = None  # of a phrase–region pair

    @property
    def mention(self) -> str:
        """The mention by which a decision names the question."""
        return self.mentions[0]

    @property
    def reason(self) -> str:
        """One line for a reviewer."""
        if self.waits_for is WaitsFor.PICTURE:
            return "waits for the file of the photo, which does not open"
        line = f"“{TASK_NAMES[self.task]}” waits for {self.waits_for.value}"
        said = [
            f"{_join_names(names)} {what}"
            for names, what in ((self.answered, "worked on it already"), (self.skipped, "skipped it"))
            if names
        ]
        return f"{line}: {'; '.join(said)}" if said else line

    @property
    def decisions(self) -> tuple[str, ...]:
        """The decisions that a reviewer can take; boxes are drawn and groups sorted in the gallery."""
        if self.waits_for is WaitsFor.PICTURE:
            return ()
        answers = () if self.task is Task.GROUP else decidable_answers(self.task)
        if self.task is Task.DRAWING:
            answers = (Answer.ALL, Answer.MORE) if self.boxes else (Answer.SCENE, Answer.NO_BOX, Answer.BOX)
        return (*(answer.value for answer in answers), *((ASK_AGAIN,) if self.skipped else ()))


def decidable_answers(task: Task) -> tuple[Answer, ...]:
    """List the answers that are complete without a box."""
    return tuple(answer for answer in allowed_answers(task) if answer not in ANSWERS_WITH_BOX)


def _join_names(names: tuple[str, ...]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def blocked_questions(project: Project) -> list[BlockedQuestion]:
    """List the open questions that nobody can answer, in the order of the photos.

    Reviewers and owners count only if there are no workers: they decide instead.
    """
    with project.database.reading() as connection:
        able = _able_workers(project, connection)
        if not any(able.values()):
            return []
        rows = connection.execute(
            select(
                questions.c.number, questions.c.photo, questions.c.task, questions.c.subject, questions.c.asked
            ).order_by(questions.c.place, questions.c.number)
        ).all()
        barred_from: dict[int, set[str]] = defaultdict(set)
        for number, worker in connection.execute(select(barred.c.question, barred.c.worker)):
            barred_from[number].add(worker)
        names = {row.id: row.name or row.id for row in connection.execute(select(workers.c.id, workers.c.name))}
        missing = _photos_without_file(project, connection)
        found = []
        for row in rows:
            mentions, boxes = tuple(row.asked["mentions"]), len(row.asked["boxes"])
            if row.photo in missing:
                missing.discard(row.photo)
                found.append(BlockedQuestion(row.photo, mentions, Task(row.task), WaitsFor.PICTURE))
                continue
            qualified = able[Task(row.task)]
            if qualified - barred_from[row.number]:
                continue
            waits_for = WaitsFor.ANOTHER_PERSON if qualified else WaitsFor.QUALIFIED_PERSON
            skipped = _skipped_by(project, connection, row.photo, row.task, row.subject)
            answered = sorted(names[worker] for worker in barred_from[row.number] - skipped)
            who_skipped = sorted(names[worker] for worker in skipped)
            about = (row.photo, mentions, Task(row.task), waits_for)
            region = tuple(row.asked["new_box"]) if row.task == Task.PAIR else None
            found.append(BlockedQuestion(*about, tuple(answered), tuple(who_skipped), boxes, region))
    return found


def _able_workers(project: Project, connection: Connection) -> Mapping[Task, set[str]]:
    """Return the workers who have joined and may work on each task."""
    settings = project.settings
    chosen = (workers.c.role != MODEL_ROLE, workers.c.joined_at.is_not(None), workers.c.forgotten.is_(False))
    joined = connection.execute(select(workers).where(*chosen, workers.c.suspended_at.is_(None))).all()
    asked = [row for row in joined if row.role == Role.WORKER] or joined
    levels = {(row.worker, row.task): Level(row.level) for row in connection.execute(select(qualifications))}
    able: dict[Task, set[str]] = {task: set() for task in Task}
    for row in asked:
        short = row.history_items < settings.history_items or row.history_accuracy < settings.history_accuracy
        if short and not row.vouched and row.role == Role.WORKER:
            continue
        for task in Task:
            if levels.get((row.id, task.value)) not in NO_WORK:
                able[task].add(row.id)
    return able


def _skipped_by(project: Project, connection: Connection, photo: str, task: str, subject: str) -> set[str]:
    events = effective_events(project.snapshots.read(connection, photo).events)
    return {
        event.worker
        for event in events
        if isinstance(event, Skipped) and event.task == task and event.subject == subject
    }


def _photos_without_file(project: Project, connection: Connection) -> set[str]:
    """Return the unfinished photos whose files are not there any more."""
    chosen = select(photos.c.id, photos.c.material).where(photos.c.known.is_(False), photos.c.finished.is_(False))
    missing = set()
    for row in connection.execute(chosen.order_by(photos.c.place).limit(_MAX_FILES)):
        folder, file = project.image_folder(row.material.get("folder", 0)), row.material["file"]
        if folder is not None and file is not None and not (folder / file).is_file():
            missing.add(row.id)
    return missing
