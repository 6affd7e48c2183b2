"""Request and response bodies of the API, with the limits of their fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from deixis.annotate.gallery import (
    CorrectionEntry,
    Disagreement,
    GalleryChain,
    PhotoStage,
)
from deixis.annotate.guidelines import MAX_EXAMPLE_LENGTH, MAX_EXAMPLES, MAX_TEXT_LENGTH, Guideline
from deixis.annotate.judgements import MAX_REMARK_LENGTH
from deixis.annotate.own_question import OwnAnswer
from deixis.annotate.people import MAX_NAME_LENGTH, ApiToken, Person, Role
from deixis.annotate.progress import Hour, Progress
from deixis.annotate.quality import Lesson, Level, QualificationTest
from deixis.annotate.queue import Stay
from deixis.annotate.review import MAX_PHRASES, ChainHistory, HistoryEntry, RemarkInfo
from deixis.annotate.workflow import MAX_ANSWER_LENGTH, XYXY, Task
from deixis.data.records import ENTITY_TYPES

MAX_NUMBER = 2**63 - 1
"""Largest integer that the databases can store."""


def _check_storable(text: str) -> str:
    """Refuse text that databases cannot store."""
    if "\0" in text:
        raise ValueError("a NUL character cannot be stored")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("an unpaired surrogate cannot be stored") from None
    return text


StoredText = Annotated[str, AfterValidator(_check_storable)]
Token = Annotated[str, Field(max_length=100), AfterValidator(_check_storable)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME_LENGTH), AfterValidator(_check_storable)]
Password = Annotated[str, Field(max_length=1000)]
WorkerId = Annotated[str, Field(pattern=r"^w[0-9a-f]{12}$")]
PhotoId = Annotated[str, Field(pattern=r"^p[0-9a-f]{24}$")]
MentionId = Annotated[str, Field(pattern=r"^[0-9]{1,4}:[0-9]{1,5}-[0-9]{1,5}$")]
MentionOrPhoto = Annotated[str, Field(pattern=r"^([0-9]{1,4}:[0-9]{1,5}-[0-9]{1,5})?$")]
EventNumber = Annotated[int, Field(ge=1, le=MAX_NUMBER)]
Remark = Annotated[str, Field(max_length=MAX_REMARK_LENGTH), AfterValidator(_check_storable)]
Word = Annotated[str, Field(max_length=60), AfterValidator(_check_storable)]
TypeName = Annotated[str, Field(max_length=20, json_schema_extra={"enum": list(ENTITY_TYPES)})]


class EmptyRequest(BaseModel):
    """A request without fields, and the base of the others."""

    model_config = ConfigDict(extra="ignore")


class LoginRequest(EmptyRequest):
    name: Name
    password: Password


class InvitationRequest(EmptyRequest):
    token: Token


class JoinRequest(InvitationRequest):
    password: Password


class SignInRequest(EmptyRequest):
    invitation: Token = ""


class PasswordRequest(EmptyRequest):
    old: Password
    new: Password


class NextRequest(EmptyRequest):
    besides: list[Token] = Field([], max_length=20, description="Tokens of questions that the page has loaded.")
    tasks: list[Task] | None = Field(None, max_length=len(Task), description="Restrict the question to these tasks.")
    stay: Stay | None = Field(None, description="Prefer the photo, or the task, of the last question.")


class AnswerRequest(EmptyRequest):
    token: Token
    answer: Annotated[str, Field(max_length=MAX_ANSWER_LENGTH), AfterValidator(_check_storable)]
    box: XYXY | None = None
    groups: list[Annotated[list[MentionId], Field(max_length=MAX_PHRASES)]] = Field(
        [], max_length=MAX_PHRASES, description='With the answer "grouped".'
    )
    seconds: float = 0.0
    remark: Remark = ""
    guideline: int | None = Field(None, ge=0, le=2**31, description="Version of the guideline that was shown.")
    next: NextRequest | None = None


class SkipRequest(EmptyRequest):
    token: Token
    bad_phrase: MentionId | None = None
    seconds: float = 0.0
    remark: Remark = ""
    next: NextRequest | None = None


class UndoRequest(EmptyRequest):
    event: EventNumber


class ExampleText(EmptyRequest):
    shown: Annotated[StoredText, Field(max_length=MAX_EXAMPLE_LENGTH)]
    answer: Annotated[StoredText, Field(max_length=MAX_ANSWER_LENGTH)]
    why: Annotated[StoredText, Field(max_length=MAX_EXAMPLE_LENGTH)]


class GuidelineText(EmptyRequest):
    text: Annotated[StoredText, Field(max_length=MAX_TEXT_LENGTH)]
    examples: list[ExampleText] = Field([], max_length=MAX_EXAMPLES)


class DecisionRequest(EmptyRequest):
    photo: PhotoId
    mention: MentionOrPhoto = Field(description="Empty for a question about the whole photo.")
    decision: Annotated[StoredText, Field(max_length=40)]
    types: list[TypeName] = Field([], max_length=len(ENTITY_TYPES))
    remark: Remark = ""


class SeenRequest(EmptyRequest):
    photo: PhotoId


class ReinstateRequest(EmptyRequest):
    worker: WorkerId
    task: Task


class ReassignRequest(EmptyRequest):
    worker: WorkerId


class InviteRequest(EmptyRequest):
    name: Name
    role: Role = Role.WORKER
    vouched: bool = False
    history_items: int = Field(0, ge=0, le=10**9)
    history_accuracy: float = Field(0.0, ge=0, le=1)


class WorkerChangeRequest(EmptyRequest):
    vouched: bool | None = None
    role: Role | None = None
    suspended: bool | None = None


class TokenRequest(EmptyRequest):
    name: Name
    days: int = Field(365, ge=1, le=3650)


class PhraseItem(EmptyRequest):
    id: MentionId
    types: list[TypeName] = Field([], max_length=len(ENTITY_TYPES))


class PhrasesRequest(EmptyRequest):
    phrases: list[PhraseItem] = Field(max_length=MAX_PHRASES)


class AssignRequest(EmptyRequest):
    """The people, and the photos as in the search of the gallery; without people, everybody is asked again."""

    people: list[WorkerId] = Field([], max_length=1000)
    stage: PhotoStage | None = None
    person: WorkerId | None = None
    disagreement: bool = False
    changed: bool = False
    assigned: Annotated[str, Field(pattern=r"^(w[0-9a-f]{12})?$")] | None = None
    words: Annotated[StoredText, Field(max_length=200)] = ""
    type: TypeName | Literal[""] = ""


class CorrectionRequest(EmptyRequest):
    """A correction; `deixis.annotate.gallery.Correction` describes the fields."""

    seen: int = Field(ge=0, le=MAX_NUMBER, description="The last event of the photo that the page knows.")
    action: Word
    mention: MentionId
    box: XYXY | None = None
    box_id: Word = ""
    mentions: list[MentionId] = Field([], max_length=MAX_PHRASES)
    other: MentionId | None = None
    types: list[TypeName] = Field([], max_length=len(ENTITY_TYPES))
    ending: Word = ""


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


class ProjectLink(BaseModel):
    """A project of the server, and whether the user is logged in there."""

    name: str
    url: str
    is_in: bool


class SessionResponse(BaseModel):
    """The user, and what the page needs to know about the project."""

    project: str
    user: UserInfo | None
    external: ExternalProgress | None
    tasks: dict[Task, list[str]]
    types: list[str]
    formats: list[str] = Field(description="Of exports.")
    photos: bool = Field(description="Whether the project has image files.")
    oidc: str | None = Field(description="The provider of sign-in by OpenID Connect.")
    version: str
    projects: list[ProjectLink] = Field(
        [], description="Projects of the server that the user is logged in to, if it has several."
    )


class SignInResponse(BaseModel):
    """Where the browser goes to sign in."""

    url: str


class InvitationResponse(BaseModel):
    name: str | None
    role: Role
    project: str
    known: bool = Field(description="Logged in to another project under this name, so no new password is needed.")


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


class OwnQuestionInfo(BaseModel):
    """The wording of the lead's own question; without answers to choose from, people write a text."""

    text: str
    hint: str
    is_rating: bool


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
    answers: list[str] = Field(description="Empty if people write a text.")
    own: OwnQuestionInfo | None
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
    can_split: bool = Field(description="The phrases of the chain may mean different things.")


class ReviewResponse(BaseModel):
    total: int
    items: list[ReviewInfo]


class HistoryResponse(BaseModel):
    photo: PhotoInfo
    captions: list[CaptionInfo]
    chains: list[ChainHistory]
    not_counted: list[HistoryEntry]
    remarks: list[RemarkInfo]


class GalleryEntry(BaseModel):
    """A photo with all that the gallery shows."""

    photo: PhotoInfo
    name: str
    stage: PhotoStage
    captions: list[CaptionInfo]
    chains: list[GalleryChain]
    people: list[str]
    disagreements: list[Disagreement]
    corrections: list[CorrectionEntry]
    can_redo: bool
    last_event: int
    answers: list[OwnAnswer] = Field(description="To the lead's own question.")
    assigned: list[str] = Field(description="Names of those who are asked about it; empty for everybody.")


class PersonName(BaseModel):
    worker: str
    name: str


class GalleryResponse(BaseModel):
    total: int
    people: list[PersonName]
    photos: list[GalleryEntry]


class EventResponse(BaseModel):
    event: int


class LevelResponse(BaseModel):
    level: Level


@dataclass(frozen=True, slots=True)
class Dashboard(Progress):
    """Progress of the project, with the pace of the last hours."""

    blocked: Annotated[dict[str, int], Field(description="Questions that nobody can answer, by what they wait for.")]
    pace: list[Hour]


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
