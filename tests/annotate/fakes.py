"""Photos of a dog, a clock that tests turn, and workers who answer as they are told."""

from __future__ import annotations

from collections.abc import Sequence

from deixis.annotate.assigning import Given, next_question
from deixis.annotate.events import Event, Judged
from deixis.annotate.material import Material, material_of
from deixis.annotate.people import Role, invite
from deixis.annotate.project import Project
from deixis.annotate.recording import record
from deixis.annotate.state import PhotoState, photo_state
from deixis.annotate.walks import XYXY, Answer, Rules, Task
from deixis.data.records import Box, Caption, Chain, Mention, Photo

BOX: XYXY = (10.0, 10.0, 60.0, 50.0)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def photo(*captions: str, name: str = "7", size: tuple[int, int] = (100, 80)) -> Photo:
    """A photo with these captions, no mentions marked."""
    return Photo(name, tuple(map(Caption.from_text, captions)), width=size[0], height=size[1])


def dogs(count: int) -> list[Material]:
    """Photos, each with two captions that mention a dog: one link, one verification, then boxes."""
    return [material_of(photo("A dog runs.", "The dog jumps.", name=f"dog{number}")) for number in range(count)]


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
    """Invite some, vouched for."""
    return [invite(project, name, vouched=True, role=role)[0] for name in names]


def ask(project: Project, worker: str) -> Given:
    """The next question, which must be there."""
    given = next_question(project, worker)
    assert given is not None
    return given


def answer(project: Project, worker: str, said: Answer, task: Task | None = None, box: XYXY | None = None) -> int:
    """Take the next question and answer it; the number of the event."""
    given = ask(project, worker)
    assert task is None or given.task is task
    chosen = box or (BOX if said is Answer.DRAWN else None)
    return record(project, worker, given.token, said.value, box=chosen, seconds=3.0).event


class Told:
    """Events of one photo that answer its questions as a test says."""

    def __init__(self, material: Material, rules: Rules | None = None) -> None:
        self.material, self.rules = material, rules or Rules()
        self.events: list[Event] = []

    @property
    def state(self) -> PhotoState:
        return photo_state(self.material, self.events, self.rules)

    def say(self, *said: Answer, workers: Sequence[str] = ()) -> PhotoState:
        """Answer the first open question, once for each answer, everybody another worker unless named."""
        for place, each in enumerate(said):
            number = len(self.events) + 1
            worker = workers[place] if workers else f"w{number}"
            question = self.state.questions[0]
            box = BOX if each is Answer.DRAWN else None
            self.events.append(
                Judged(number=number, worker=worker, task=question.task, subject=question.subject, answer=each, box=box)
            )
        return self.state
