"""What requests bring, field by field, within limits."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from deixis.annotate.changing import LONGEST_REMARK
from deixis.annotate.guidelines import LONGEST_EXAMPLE, LONGEST_TEXT, MOST_EXAMPLES
from deixis.annotate.people import LONGEST_NAME, Role
from deixis.annotate.phrases import MOST_PHRASES
from deixis.annotate.walks import Task
from deixis.data.records import ENTITY_TYPES

LARGEST_NUMBER = 2**63 - 1
"""What the databases can count to."""


def _storable(text: str) -> str:
    """Text that every database can hold."""
    if "\0" in text:
        raise ValueError("a NUL character cannot be stored")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half a character cannot be stored") from None
    return text


Words = Annotated[str, AfterValidator(_storable)]
Token = Annotated[str, Field(max_length=100), AfterValidator(_storable)]
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_storable)]
Password = Annotated[str, Field(max_length=1000)]
WorkerId = Annotated[str, Field(pattern=r"^w[0-9a-f]{12}$")]
PhotoId = Annotated[str, Field(pattern=r"^p[0-9a-f]{24}$")]
MentionId = Annotated[str, Field(pattern=r"^[0-9]{1,4}:[0-9]{1,5}-[0-9]{1,5}$")]
EventNumber = Annotated[int, Field(ge=1, le=LARGEST_NUMBER)]
Remark = Annotated[str, Field(max_length=LONGEST_REMARK), AfterValidator(_storable)]
TypeName = Annotated[str, Field(max_length=20, json_schema_extra={"enum": list(ENTITY_TYPES)})]


class Asked(BaseModel):
    """What all requests have."""

    model_config = ConfigDict(extra="ignore")


class Login(Asked):
    """Who wants to enter."""

    name: Name
    password: Password


class Invited(Asked):
    """Who was invited."""

    token: Token


class Join(Invited):
    """Who takes an invitation."""

    password: Password


class NewPassword(Asked):
    """A password for another."""

    old: Password
    new: Password


class Next(Asked):
    """The question that is wanted."""

    besides: list[Token] = Field([], max_length=20, description="Tokens of questions that the page holds.")
    tasks: list[Task] | None = Field(None, max_length=6, description="Only these.")


class Answered(Asked):
    """An answer, and whether the next question is wanted with it."""

    token: Token
    answer: Annotated[str, Field(max_length=40), AfterValidator(_storable)]
    box: tuple[float, float, float, float] | None = None
    seconds: float = 0.0
    remark: Remark = ""
    next: Next | None = None


class GivenBack(Asked):
    """A question that is given back."""

    token: Token
    bad_phrase: MentionId | None = None
    seconds: float = 0.0
    remark: Remark = ""
    next: Next | None = None


class Undo(Asked):
    """An event to take back."""

    event: EventNumber


class ExampleText(Asked):
    """An example in a guideline."""

    shown: Annotated[Words, Field(max_length=LONGEST_EXAMPLE)]
    answer: Annotated[Words, Field(max_length=40)]
    why: Annotated[Words, Field(max_length=LONGEST_EXAMPLE)]


class GuidelineText(Asked):
    """What the owner writes about a task."""

    text: Annotated[Words, Field(max_length=LONGEST_TEXT)]
    examples: list[ExampleText] = Field([], max_length=MOST_EXAMPLES)


class Decision(Asked):
    """What a reviewer decides."""

    photo: PhotoId
    mention: MentionId
    decision: Annotated[Words, Field(max_length=40)]
    types: list[TypeName] = Field([], max_length=len(ENTITY_TYPES))
    remark: Remark = ""


class Seen(Asked):
    """A photo whose remarks were read."""

    photo: PhotoId


class Reinstated(Asked):
    """Who may try again, in which task."""

    worker: WorkerId
    task: Task


class Invitation(Asked):
    """Whom to invite."""

    name: Name
    role: Role = Role.WORKER
    vouched: bool = False
    history_items: int = Field(0, ge=0, le=10**9)
    history_accuracy: float = Field(0.0, ge=0, le=1)


class PersonChange(Asked):
    """What is to change about somebody."""

    vouched: bool | None = None
    role: Role | None = None


class PhrasePlace(Asked):
    """A phrase, by its place, and its types."""

    id: MentionId
    types: list[TypeName] = Field([], max_length=len(ENTITY_TYPES))


class PhraseList(Asked):
    """All phrases that a photo shall have."""

    phrases: list[PhrasePlace] = Field(max_length=MOST_PHRASES)


class Entering(Asked):
    """Who comes from an outside workforce, as its page says."""

    key: Token = ""
    assignmentId: Annotated[Words, Field(max_length=200)] = ""  # noqa: N815 - the workforce's own names
    hitId: Annotated[Words, Field(max_length=200)] = ""  # noqa: N815
    workerId: Annotated[Words, Field(max_length=200)] = ""  # noqa: N815
    turkSubmitTo: Annotated[Words, Field(max_length=500)] = ""  # noqa: N815
