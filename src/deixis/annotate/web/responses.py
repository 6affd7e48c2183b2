"""Response bodies of the API."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from deixis.annotate.api_tokens import ApiToken
from deixis.annotate.gallery import CorrectionSummary
from deixis.annotate.guidelines import Guideline
from deixis.annotate.lessons import Lesson
from deixis.annotate.people import Role
from deixis.annotate.progress import Hour, TaskProgress, WorkerProgress
from deixis.annotate.quality import Level, QualificationTest
from deixis.annotate.review import ChainHistory, HistoryEntry
from deixis.annotate.workflow import XYXY, Task


class EmptyResponse(BaseModel):
    """A response without fields."""


class UserInfo(BaseModel):
    id: str
    name: str | None
    role: Role


class SubmitForm(BaseModel):
    """The form that submits an assignment to the external workforce."""

    url: str
    fields: dict[str, str]


class ExternalProgress(BaseModel):
    """Progress of an assignment of an external workforce."""

    items: int
    done: int
    submit: SubmitForm | None


class SessionResponse(BaseModel):
    """The user, and what the page needs to know about the project."""

    project: str
    user: UserInfo | None
    csrf: str | None
    external: ExternalProgress | None
    tasks: dict[Task, list[str]]
    types: list[str]
    photos: bool = Field(description="Whether the project has image files.")
    oidc: str | None = Field(description="The provider of sign-in by OpenID Connect.")
    version: str


class SignInResponse(BaseModel):
    """Where the browser goes to sign in."""

    url: str


class InvitationResponse(BaseModel):
    name: str | None
    role: Role
    project: str


class PhotoInfo(BaseModel):
    """A photo. Boxes are in its pixels, whatever the size of the picture."""

    id: str
    width: int
    height: int
    url: str


class CaptionPart(BaseModel):
    """A part of a caption; `mention` is set for mentions."""

    text: str
    mention: str | None


class CaptionInfo(BaseModel):
    number: int
    parts: list[CaptionPart]


class MentionInfo(BaseModel):
    id: str
    text: str
    caption: int


class QuestionInfo(BaseModel):
    token: str
    task: Task
    test: bool
    until: float
    photo: PhotoInfo
    captions: list[CaptionInfo]
    mentions: list[MentionInfo]
    boxes: list[XYXY]
    box_models: list[str | None] = Field(description="For each box the model that proposed it; null for people's.")
    new_box: XYXY | None
    answers: list[str]
    proposal: dict[str, Any] | None
    guideline: int = Field(description="Version of the task's guideline.")


class QualificationInfo(BaseModel):
    task: Task
    level: Level
    test: QualificationTest | None


class NextResponse(BaseModel):
    """The next question, or why there is none."""

    question: QuestionInfo | None
    why: str | None


class AnswerResponse(BaseModel):
    """The recorded event, and the next question if requested."""

    event: int
    again: bool
    next: QuestionInfo | None
    why: str | None
    standing: QualificationInfo | None
    lesson: Lesson | None = Field(description="After a question of the test: the right answer and why it is right.")
    external: ExternalProgress | None


class UndoResponse(BaseModel):
    """The recorded event, and the question again."""

    event: int
    again: bool
    question: QuestionInfo | None


class ProjectInfo(BaseModel):
    name: str
    photos: int
    finished: int


class TaskWork(QualificationInfo):
    judged: int


class OwnWorkResponse(BaseModel):
    project: ProjectInfo
    tasks: list[TaskWork]
    judged: int
    hours: float
    pay: float
    currency: str
    guidelines: dict[Task, int] = Field(description="Versions of the guidelines.")


class GuidelinesResponse(BaseModel):
    tasks: dict[Task, Guideline]


class ReviewInfo(BaseModel):
    photo: PhotoInfo
    mention: str
    phrase: str
    reason: str
    remark: str | None
    event: int
    holds_up: bool
    decisions: list[str]
    mentions: list[str] = Field(description="All that an open question is about; empty for other cases.")
    region: XYXY | None = Field(description="Of a phrase–region pair.")


class ReviewResponse(BaseModel):
    total: int
    items: list[ReviewInfo]


class RemarkInfo(BaseModel):
    event: int
    who: str
    text: str
    seen: bool


class HistoryResponse(BaseModel):
    photo: PhotoInfo
    captions: list[CaptionInfo]
    chains: list[ChainHistory]
    not_counted: list[HistoryEntry]
    remarks: list[RemarkInfo]


class EventResponse(BaseModel):
    event: int


class LevelResponse(BaseModel):
    level: Level


class Dashboard(BaseModel):
    photos: int
    finished: int
    waiting: int
    judged: int
    hours: float
    cost: float
    currency: str
    per_hour: float
    hours_left: float | None
    tasks: list[TaskProgress]
    workers: list[WorkerProgress]
    blocked: dict[str, int] = Field(description="Questions that nobody can answer, by what they wait for.")
    corrections: CorrectionSummary
    pace: list[Hour]


class Person(BaseModel):
    worker: str
    name: str | None
    role: Role
    vouched: bool
    joined: bool
    forgotten: bool
    suspended: bool
    history_items: int
    history_accuracy: float


class PeopleResponse(BaseModel):
    people: list[Person]


class TokensResponse(BaseModel):
    tokens: list[ApiToken]


class NewTokenResponse(BaseModel):
    """A new API token, which is shown once."""

    id: str
    token: str


class LinkResponse(BaseModel):
    """The link of an invitation, which is shown once."""

    worker: str
    link: str


class PhotoEntry(BaseModel):
    photo: PhotoInfo
    name: str
    begun: bool
    finished: bool
    waiting: int


class PhotosResponse(BaseModel):
    total: int
    photos: list[PhotoEntry]


class CaptionText(CaptionInfo):
    text: str


class PhraseInfo(BaseModel):
    id: str
    text: str
    types: list[str]


class PhrasesResponse(BaseModel):
    photo: PhotoInfo
    begun: bool
    captions: list[CaptionText]
    phrases: list[PhraseInfo]


class ExternalResponse(BaseModel):
    """The session of an external worker; a preview has none."""

    preview: bool
    session: str | None = None
    items: int = 0
    done: int = 0
    submit: SubmitForm | None = None
