"""Amazon Mechanical Turk: create HITs that show the workbench in a frame, and approve finished assignments.

Support for another workforce needs the same two functions: the page depends on the names of the parameters only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit
from xml.sax.saxutils import escape

from deixis.annotate.database import read_property, write_property
from deixis.annotate.project import Project, read_secret
from deixis.annotate.web.external_routes import EXTERNAL_PAGE, make_items_key
from deixis.annotate.workforce import APPROVED, external_name, list_assignments, mark_approved
from deixis.errors import DeixisError

LIVE = "https://mturk-requester.us-east-1.amazonaws.com"
SANDBOX = "https://mturk-requester-sandbox.us-east-1.amazonaws.com"
_SCHEMA = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd"
_APPROVED_SHARE, _APPROVED_COUNT = "000000000000000000L0", "00000000000000000040"
"""Ids of Mechanical Turk's qualifications for the share and the number of approved assignments."""

_KEY = "hits"
_PAGE_SIZE = 100


@dataclass(frozen=True)
class Hit:
    """A HIT.

    Attributes
    ----------
    url
        The public address of the workbench; browsers show only HTTPS in a frame.
    people
        Number of workers, each for one assignment.
    reward
        Payment for an assignment, in US dollars.
    items
        Questions in an assignment.
    minutes, days
        Time for an assignment, and how long the HIT is available.
    title, description
        What workers read before they accept.
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
        if urlsplit(self.url).scheme != "https" or not urlsplit(self.url).netloc:
            raise DeixisError(f"{self.url}: Mechanical Turk needs an address that starts with https://")
        if min(self.people, self.items, self.minutes, self.days) < 1 or self.reward <= 0:
            raise DeixisError("people, items, minutes, days and reward must be positive")


@dataclass
class Approvals:
    """Submitted assignments: approved, not complete, or unknown to this project."""

    approved: list[str] = field(default_factory=list)
    not_done: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def turk_client(*, live: bool) -> Any:
    """Connect to Mechanical Turk, or to its sandbox, in which nothing is paid."""
    try:
        import boto3
    except ImportError:
        raise DeixisError("Mechanical Turk needs boto3: pip install 'deixis[mturk]'") from None
    return boto3.client("mturk", region_name="us-east-1", endpoint_url=LIVE if live else SANDBOX)


def create_hit(project: Project, client: Any, hit: Hit) -> str:
    """Create a HIT, store its id in the project and return it."""
    settings = project.settings
    made = _call(
        client.create_hit,
        MaxAssignments=hit.people,
        LifetimeInSeconds=hit.days * 86400,
        AssignmentDurationInSeconds=hit.minutes * 60,
        Reward=f"{hit.reward:.2f}",
        Title=hit.title,
        Description=hit.description,
        Keywords="photo, image, annotation, bounding box",
        Question=external_question(hit, read_secret(project)),
        QualificationRequirements=[
            _at_least(_APPROVED_COUNT, settings.history_items),
            _at_least(_APPROVED_SHARE, round(100 * settings.history_accuracy)),
        ],
    )
    hit_id = str(made["HIT"]["HITId"])
    hits = [*list_hits(project), hit_id]
    with project.database.writing() as connection:
        write_property(connection, _KEY, json.dumps(hits))
    return hit_id


def external_question(hit: Hit, secret: bytes) -> str:
    """Return the XML of a HIT: the address of the page, with the signed number of questions."""
    key = make_items_key(secret, hit.items)
    address = f"{hit.url.rstrip('/')}{EXTERNAL_PAGE}?{urlencode({'key': key})}"
    return (
        f'<ExternalQuestion xmlns="{_SCHEMA}"><ExternalURL>{escape(address)}</ExternalURL>'
        "<FrameHeight>0</FrameHeight></ExternalQuestion>"
    )


def approve_assignments(project: Project, client: Any) -> Approvals:
    """Approve complete assignments; the others are left for a person to decide."""
    started = {each.id: each for each in list_assignments(project)}
    approvals = Approvals()
    for hit in list_hits(project):
        for submitted in _list_submitted(client, hit):
            name = str(submitted["AssignmentId"])
            assignment = started.get(name)
            # Anyone can open the page under any name; only the workforce knows who submitted the assignment.
            is_same = (
                assignment is not None
                and assignment.hit == hit
                and external_name(project, assignment.worker) == str(submitted["WorkerId"])
            )
            if assignment is None or not is_same:
                approvals.unknown.append(name)
            elif assignment.done < assignment.items:
                approvals.not_done.append(name)
            elif assignment.state != APPROVED:
                _call(client.approve_assignment, AssignmentId=name)
                mark_approved(project, name)
                approvals.approved.append(name)
    return approvals


def list_hits(project: Project) -> list[str]:
    with project.database.reading() as connection:
        found = read_property(connection, _KEY)
    return list(json.loads(found)) if found else []


def _list_submitted(client: Any, hit: str) -> Iterator[Mapping[str, Any]]:
    parameters: dict[str, Any] = {"HITId": hit, "AssignmentStatuses": ["Submitted"], "MaxResults": _PAGE_SIZE}
    while True:
        page = _call(client.list_assignments_for_hit, **parameters)
        yield from page.get("Assignments", [])
        if not page.get("NextToken"):
            return
        parameters["NextToken"] = page["NextToken"]


def _at_least(qualification: str, value: int) -> dict[str, Any]:
    return {
        "QualificationTypeId": qualification,
        "Comparator": "GreaterThanOrEqualTo",
        "IntegerValues": [value],
        "ActionsGuarded": "Accept",
    }


def _call(function: Any, **parameters: Any) -> Any:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return function(**parameters)
    except (BotoCoreError, ClientError) as error:
        raise DeixisError(f"Mechanical Turk: {' '.join(str(error).split())}") from None
