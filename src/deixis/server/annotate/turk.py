"""Amazon Mechanical Turk: HITs that show the workbench in a frame, and paying for what was done in them.

Whoever wants another workforce writes the same two functions for it: the page knows only the names of the parameters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit
from xml.sax.saxutils import escape

from sqlalchemy import delete, insert, select

from deixis.annotate.project import Project
from deixis.annotate.store.schema import about
from deixis.annotate.workforce import APPROVED, all_assignments, note_approval, outside_name
from deixis.errors import DeixisError
from deixis.server.annotate.outside import Workforce
from deixis.server.annotate.outside_routes import PAGE

LIVE = "https://mturk-requester.us-east-1.amazonaws.com"
SANDBOX = "https://mturk-requester-sandbox.us-east-1.amazonaws.com"
_SCHEMA = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd"
_APPROVED_SHARE, _APPROVED_COUNT = "000000000000000000L0", "00000000000000000040"
"""Mechanical Turk's own qualifications: the share, and the number, of a worker's assignments that were approved."""

_KEY = "hits"
_A_PAGE = 100


@dataclass(frozen=True)
class Offer:
    """What is offered.

    Attributes
    ----------
    url
        Where the workbench is, as the world reaches it; browsers show only HTTPS in a frame.
    people
        How many may take it, each once.
    items
        How many questions each answers.
    reward
        For each, in US dollars.
    minutes, days
        How long each has, and how long it is offered.
    title, description
        What workers read before they take it.
    """

    url: str
    people: int
    reward: float
    items: int = 20
    minutes: int = 60
    days: int = 7
    title: str = "Say what is in photos"
    description: str = "Answer small questions about photos and their captions, and draw boxes."

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if urlsplit(self.url).scheme != "https" or not urlsplit(self.url).netloc:
            raise DeixisError(f"{self.url}: Mechanical Turk shows only pages that begin with https://")
        if min(self.people, self.items, self.minutes, self.days) < 1 or self.reward <= 0:
            raise DeixisError("people, items, minutes, days and the reward must be more than 0")


@dataclass
class Settled:
    """What came of paying: assignments by what was done with them."""

    approved: list[str] = field(default_factory=list)
    not_done: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def turk_client(*, live: bool) -> Any:
    """A connection to Mechanical Turk: its sandbox, where nothing is paid, or in earnest."""
    try:
        import boto3
    except ImportError:
        raise DeixisError("Mechanical Turk needs boto3: pip install 'deixis[mturk]'") from None
    return boto3.client("mturk", region_name="us-east-1", endpoint_url=LIVE if live else SANDBOX)


def offer(project: Project, client: Any, wanted: Offer, secret: bytes) -> str:
    """Make a HIT; its id, which the project remembers."""
    settings = project.settings
    made = _called(
        client.create_hit,
        MaxAssignments=wanted.people,
        LifetimeInSeconds=wanted.days * 86400,
        AssignmentDurationInSeconds=wanted.minutes * 60,
        Reward=f"{wanted.reward:.2f}",
        Title=wanted.title,
        Description=wanted.description,
        Keywords="photo, image, annotation, bounding box",
        Question=external_question(wanted, secret),
        QualificationRequirements=[
            _at_least(_APPROVED_COUNT, settings.history_items),
            _at_least(_APPROVED_SHARE, round(100 * settings.history_accuracy)),
        ],
    )
    hit = str(made["HIT"]["HITId"])
    _remember(project, [*known_hits(project), hit])
    return hit


def external_question(wanted: Offer, secret: bytes) -> str:
    """The question of a HIT: our page, with the key that says how many questions are asked for.

    Examples
    --------
    >>> "https://dogs.example.org/external?key=20." in external_question(Offer("https://dogs.example.org", 5, 0.5), b"")
    True
    """
    key = Workforce(secret).key_for(wanted.items)
    address = f"{wanted.url.rstrip('/')}{PAGE}?{urlencode({'key': key})}"
    return (
        f'<ExternalQuestion xmlns="{_SCHEMA}"><ExternalURL>{escape(address)}</ExternalURL>'
        "<FrameHeight>0</FrameHeight></ExternalQuestion>"
    )


def settle(project: Project, client: Any) -> Settled:
    """Approve what was done; what was not, or what is not known here, is left for a person to decide."""
    ours = {each.id: each for each in all_assignments(project)}
    done = Settled()
    for hit in known_hits(project):
        for handed_in in _handed_in(client, hit):
            name = str(handed_in["AssignmentId"])
            mine = ours.get(name)
            if mine is None or mine.hit != hit or not _is_theirs(project, mine.worker, handed_in):
                done.unknown.append(name)
            elif mine.done < mine.items:
                done.not_done.append(name)
            elif mine.state != APPROVED:
                _called(client.approve_assignment, AssignmentId=name)
                note_approval(project, name)
                done.approved.append(name)
    return done


def known_hits(project: Project) -> list[str]:
    """The HITs of a project."""
    with project.database.reading() as connection:
        found = connection.scalar(select(about.c.value).where(about.c.key == _KEY))
    return list(json.loads(found)) if found else []


def _remember(project: Project, hits: list[str]) -> None:
    with project.database.writing() as connection:
        connection.execute(delete(about).where(about.c.key == _KEY))
        connection.execute(insert(about), {"key": _KEY, "value": json.dumps(hits)})


def _handed_in(client: Any, hit: str) -> Iterator[Mapping[str, Any]]:
    asked: dict[str, Any] = {"HITId": hit, "AssignmentStatuses": ["Submitted"], "MaxResults": _A_PAGE}
    while True:
        page = _called(client.list_assignments_for_hit, **asked)
        yield from page.get("Assignments", [])
        if not page.get("NextToken"):
            return
        asked["NextToken"] = page["NextToken"]


def _is_theirs(project: Project, worker: str, handed_in: Mapping[str, Any]) -> bool:
    """Anybody can open our page under any name; who handed it in is known only to the workforce."""
    return outside_name(project, worker) == str(handed_in["WorkerId"])


def _at_least(qualification: str, value: int) -> dict[str, Any]:
    return {
        "QualificationTypeId": qualification,
        "Comparator": "GreaterThanOrEqualTo",
        "IntegerValues": [value],
        "ActionsGuarded": "Accept",
    }


def _called(call: Any, **named: Any) -> Any:
    """What Mechanical Turk answers; what it refuses is one line."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return call(**named)
    except (BotoCoreError, ClientError) as error:
        raise DeixisError(f"Mechanical Turk: {' '.join(str(error).split())}") from None
