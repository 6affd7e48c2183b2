"""What the API says, field by field."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from deixis.annotate.guidelines import Guideline
from deixis.annotate.people import Role
from deixis.annotate.standing import Level
from deixis.annotate.walks import Task

Box = tuple[float, float, float, float]


class Nothing(BaseModel):
    """Done, and nothing to say."""


class User(BaseModel):
    """Who is logged in."""

    id: str
    name: str | None
    role: Role


class Submit(BaseModel):
    """The form that tells an outside workforce that its assignment is done."""

    url: str
    fields: dict[str, str]


class External(BaseModel):
    """How far an assignment of an outside workforce is."""

    items: int
    done: int
    submit: Submit | None


class SessionSaid(BaseModel):
    """Where the page is, and who looks at it."""

    project: str
    user: User | None
    csrf: str | None
    external: External | None
    tasks: dict[Task, list[str]]
    types: list[str]
    photos: bool = Field(description="Whether the project has pictures to show.")
    version: str


class InvitationSaid(BaseModel):
    """Who is invited, to what."""

    name: str | None
    role: Role
    project: str


class PhotoSaid(BaseModel):
    """A photo; boxes are in its pixels, whatever the size of the picture."""

    id: str
    width: int
    height: int
    url: str


class Part(BaseModel):
    """A part of a caption; `mention` where it is asked about."""

    text: str
    mention: str | None


class CaptionSaid(BaseModel):
    """A caption, cut where mentions begin and end."""

    number: int
    parts: list[Part]


class MentionSaid(BaseModel):
    """A mention that is asked about."""

    id: str
    text: str
    caption: int


class QuestionSaid(BaseModel):
    """A question with all that is shown."""

    token: str
    task: Task
    test: bool
    until: float
    photo: PhotoSaid
    captions: list[CaptionSaid]
    mentions: list[MentionSaid]
    boxes: list[Box]
    new_box: Box | None
    answers: list[str]
    proposal: dict[str, Any] | None


class TestSaid(BaseModel):
    """How far a test is."""

    done: int
    of: int


class StandingSaid(BaseModel):
    """Where somebody stands in a task."""

    task: Task
    level: Level
    test: TestSaid | None


class NextSaid(BaseModel):
    """The next question, or why there is none."""

    question: QuestionSaid | None
    why: str | None


class TurnSaid(BaseModel):
    """What was recorded, and the next question where one was wanted."""

    event: int
    again: bool
    next: QuestionSaid | None
    why: str | None
    standing: StandingSaid | None
    external: External | None


class UndoSaid(BaseModel):
    """What was recorded, and the question once more."""

    event: int
    again: bool
    question: QuestionSaid | None


class ProjectSaid(BaseModel):
    """How far a project is."""

    name: str
    photos: int
    finished: int


class TaskMine(StandingSaid):
    """Somebody's work in a task."""

    judged: int


class MeSaid(BaseModel):
    """Somebody's own work."""

    project: ProjectSaid
    tasks: list[TaskMine]
    judged: int
    hours: float
    pay: float
    currency: str


class GuidelinesSaid(BaseModel):
    """What workers are told about each task."""

    tasks: dict[Task, Guideline]


class ReviewEntry(BaseModel):
    """Something for a reviewer."""

    photo: PhotoSaid
    mention: str
    phrase: str
    reason: str
    remark: str | None
    event: int
    holds_up: bool
    decisions: list[str]


class ReviewSaid(BaseModel):
    """What waits for a reviewer."""

    total: int
    items: list[ReviewEntry]


class ToldSaid(BaseModel):
    """A judgement and what it led to."""

    event: int
    who: str
    at: str
    said: str
    led_to: str


class ChainSaid(BaseModel):
    """A chain and how it came to be as it is."""

    phrases: list[str]
    mentions: list[str]
    types: list[str]
    place: str
    boxes: list[Box]
    told: list[ToldSaid]


class RemarkSaid(BaseModel):
    """What somebody wrote."""

    event: int
    who: str
    text: str
    seen: bool


class StorySaid(BaseModel):
    """Why everything about a photo is as it is."""

    photo: PhotoSaid
    captions: list[CaptionSaid]
    chains: list[ChainSaid]
    not_counted: list[ToldSaid]
    remarks: list[RemarkSaid]


class EventSaid(BaseModel):
    """What was recorded."""

    event: int


class LevelSaid(BaseModel):
    """What somebody may do now."""

    level: Level


class HourSaid(BaseModel):
    """How many judgements an hour brought."""

    at: float
    judged: int


class TaskSaid(BaseModel):
    """How far a task is."""

    task: Task
    open: int
    judged: int
    seconds: float
    known: int
    agreement: float | None


class WorkerSaid(BaseModel):
    """What somebody did, and how well."""

    worker: str
    name: str | None
    judged: int
    hours: float
    pay: float
    checked: int
    accuracy: float | None
    levels: dict[Task, Level]


class Dashboard(BaseModel):
    """How far a project is, how fast it goes, what it costs, and how good everybody's work is."""

    photos: int
    finished: int
    waiting: int
    judged: int
    hours: float
    cost: float
    currency: str
    per_hour: float
    hours_left: float | None
    tasks: list[TaskSaid]
    workers: list[WorkerSaid]
    pace: list[HourSaid]


class Person(BaseModel):
    """Somebody in the project."""

    worker: str
    name: str | None
    role: Role
    vouched: bool
    joined: bool
    forgotten: bool
    history_items: int
    history_accuracy: float


class PeopleSaid(BaseModel):
    """Everybody."""

    people: list[Person]


class LinkSaid(BaseModel):
    """An invitation, shown once."""

    worker: str
    link: str


class PhotoEntry(BaseModel):
    """A photo of the project."""

    photo: PhotoSaid
    name: str
    begun: bool
    finished: bool
    waiting: int


class PhotosSaid(BaseModel):
    """Some photos of the project."""

    total: int
    photos: list[PhotoEntry]


class CaptionText(CaptionSaid):
    """A caption, whole and in parts."""

    text: str


class PhraseSaid(BaseModel):
    """A phrase that people are asked about."""

    id: str
    text: str
    types: list[str]


class PhrasesSaid(BaseModel):
    """The phrases of a photo."""

    photo: PhotoSaid
    begun: bool
    captions: list[CaptionText]
    phrases: list[PhraseSaid]


class EnteredSaid(BaseModel):
    """Whether somebody from outside may work, and what to show with every request."""

    preview: bool
    session: str | None = None
    items: int = 0
    done: int = 0
    submit: Submit | None = None
