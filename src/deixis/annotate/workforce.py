"""External workers: their assignments, the signed links of their page, and Mechanical Turk.

Support for another workforce needs `create_hit` and `approve_assignments`; the page depends on the names of the
parameters only.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit
from xml.sax.saxutils import escape

from sqlalchemy import Connection, insert, select, update

from deixis.annotate.people import Role, add_worker, read_worker
from deixis.annotate.project import Project, read_secret
from deixis.annotate.store import assignments, read_property, workers, write_property
from deixis.annotate.transactions import RefusedError
from deixis.errors import DeixisError

EXTERNAL_PAGE = "/external"
OPEN, APPROVED = "open", "approved"
_PREFIX = "outside "

LIVE = "https://mturk-requester.us-east-1.amazonaws.com"
SANDBOX = "https://mturk-requester-sandbox.us-east-1.amazonaws.com"
_SCHEMA = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd"
_APPROVED_SHARE, _APPROVED_COUNT = "000000000000000000L0", "00000000000000000040"
"""Ids of Mechanical Turk's qualifications for the share and the number of approved assignments."""

_KEY = "hits"
_PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class Assignment:
    """A batch of `items` questions that one worker accepted; `done` counts the answered ones.

    `id` and `hit` are the names used by the workforce, `worker` the id in the project, and `submit_to` the address to
    which the page submits the finished assignment.
    """

    id: str
    hit: str
    worker: str
    items: int
    done: int
    submit_to: str
    state: str = OPEN

    @property
    def is_done(self) -> bool:
        """Whether it can be submitted."""
        return self.done >= self.items or self.state != OPEN


def start_assignment(
    project: Project, assignment: str, hit: str, external_worker: str, items: int, submit_to: str
) -> Assignment:
    """Start an assignment, or continue one, under the names used by the workforce.

    New workers are added. The workforce has checked their history, so the project vouches for them; tests and hidden
    questions are the same as for other workers.
    """
    with project.database.writing() as connection:
        worker = _find_or_add_worker(project, connection, external_worker)
        found = find_assignment(connection, assignment)
        if found is not None:
            if found.worker != worker or found.hit != hit:
                raise RefusedError("this assignment belongs to another worker")
            return found
        row = {"id": assignment, "hit": hit, "worker": worker, "items": items, "done": 0}
        row |= {"submit_to": submit_to, "begun_at": project.clock(), "state": OPEN}
        connection.execute(insert(assignments), row)
        return Assignment(assignment, hit, worker, items, 0, submit_to)


def _find_or_add_worker(project: Project, connection: Connection, external_worker: str) -> str:
    name = f"{_PREFIX}{external_worker}"
    columns = (workers.c.id, workers.c.role, workers.c.password, workers.c.invitation)
    found = connection.execute(select(*columns).where(workers.c.name == name)).first()
    if found is not None:
        if found.role != Role.WORKER or found.password or found.invitation:  # an invited worker has this name
            raise RefusedError("this name belongs to another worker")
        return str(found.id)
    now = project.clock()
    return add_worker(connection, name, role=Role.WORKER, vouched=True, invited_at=now, joined_at=now)


def find_assignment(connection: Connection, assignment: str) -> Assignment | None:
    row = connection.execute(select(assignments).where(assignments.c.id == assignment)).first()
    return _make_assignment(row) if row is not None else None


def count_item(connection: Connection, assignment: str, change: int = 1) -> Assignment:
    """Change the number of answered questions."""
    changed = update(assignments).where(assignments.c.id == assignment).values(done=assignments.c.done + change)
    return _make_assignment(connection.execute(changed.returning(*assignments.c)).one())


def list_assignments(project: Project) -> list[Assignment]:
    """List all assignments, oldest first."""
    with project.database.reading() as connection:
        rows = connection.execute(select(assignments).order_by(assignments.c.begun_at, assignments.c.id)).all()
    return [_make_assignment(row) for row in rows]


def external_name(project: Project, worker: str) -> str | None:
    """Return the name used by the workforce; None for workers who were invited or forgotten."""
    with project.database.reading() as connection:
        name = read_worker(connection, worker).name or ""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else None


def _make_assignment(row: Any) -> Assignment:
    return Assignment(row.id, row.hit, row.worker, row.items, row.done, row.submit_to, row.state)


def make_items_key(secret: bytes, items: int) -> str:
    """Sign the number of questions that a link asks for."""
    signature = hmac.new(secret, f"outside {items}".encode(), hashlib.sha256).hexdigest()
    return f"{items}.{signature[:32]}"


def parse_items_key(secret: bytes, key: str) -> int | None:
    """Return the number of questions of a key; None if this project has not signed it."""
    items = key.partition(".")[0]
    if not (items.isascii() and items.isdecimal() and len(items) < 6):
        return None
    return int(items) if hmac.compare_digest(key.encode(), make_items_key(secret, int(items)).encode()) else None


@dataclass(frozen=True)
class Hit:
    """A HIT. Browsers show only HTTPS pages in its frame."""

    url: str  # public address of the workbench
    people: int  # each does one assignment
    reward: float  # for an assignment, in US dollars
    items: int = 20  # questions in an assignment
    minutes: int = 60  # time for an assignment
    days: int = 7  # how long the HIT is available
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
                with project.database.writing() as connection:
                    approved = update(assignments).where(assignments.c.id == name).values(state=APPROVED)
                    connection.execute(approved)
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
