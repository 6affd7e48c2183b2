"""Request bodies of the API, with the limits of their fields."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from deixis.annotate.guidelines import MAX_EXAMPLE_LENGTH, MAX_EXAMPLES, MAX_TEXT_LENGTH
from deixis.annotate.people import MAX_NAME_LENGTH, Role
from deixis.annotate.queue import Stay
from deixis.annotate.review import MAX_PHRASES
from deixis.annotate.transactions import MAX_REMARK_LENGTH
from deixis.annotate.workflow import XYXY, Task
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
EventNumber = Annotated[int, Field(ge=1, le=MAX_NUMBER)]
Remark = Annotated[str, Field(max_length=MAX_REMARK_LENGTH), AfterValidator(_check_storable)]
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
    answer: Annotated[str, Field(max_length=40), AfterValidator(_check_storable)]
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
    answer: Annotated[StoredText, Field(max_length=40)]
    why: Annotated[StoredText, Field(max_length=MAX_EXAMPLE_LENGTH)]


class GuidelineText(EmptyRequest):
    text: Annotated[StoredText, Field(max_length=MAX_TEXT_LENGTH)]
    examples: list[ExampleText] = Field([], max_length=MAX_EXAMPLES)


class DecisionRequest(EmptyRequest):
    photo: PhotoId
    mention: MentionId
    decision: Annotated[StoredText, Field(max_length=40)]
    types: list[TypeName] = Field([], max_length=len(ENTITY_TYPES))
    remark: Remark = ""


class SeenRequest(EmptyRequest):
    photo: PhotoId


class ReinstateRequest(EmptyRequest):
    worker: WorkerId
    task: Task


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


class ExternalRequest(EmptyRequest):
    """The parameters that Mechanical Turk adds to the address of the page."""

    key: Token = ""
    assignmentId: Annotated[StoredText, Field(max_length=200)] = ""  # noqa: N815 - names of Mechanical Turk
    hitId: Annotated[StoredText, Field(max_length=200)] = ""  # noqa: N815
    workerId: Annotated[StoredText, Field(max_length=200)] = ""  # noqa: N815
    turkSubmitTo: Annotated[StoredText, Field(max_length=500)] = ""  # noqa: N815
