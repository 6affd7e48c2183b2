"""Mechanical Turk, a plugin of the workbench: its page in the workers' frame, HITs, and approvals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import urlencode
from xml.sax.saxutils import escape

from fastapi import APIRouter, Request
from pydantic import Field
from sqlalchemy import update
from starlette.exceptions import HTTPException

from deixis.annotate.people import find_session, start_session
from deixis.annotate.project import Project, read_secret
from deixis.annotate.store import assignments, read_property, write_property
from deixis.annotate.web.context import Context, errors, limit_address
from deixis.annotate.web.schemas import EmptyRequest, ExternalResponse, StoredText, Token
from deixis.annotate.web.work import describe_assignment
from deixis.annotate.workforce import (
    APPROVED,
    EXTERNAL_PAGE,
    Approvals,
    Assignment,
    Offer,
    confirm_worker,
    external_name,
    list_assignments,
    make_items_key,
    parse_items_key,
    read_assignment,
    start_assignment,
)
from deixis.errors import DeixisError
from deixis.storage.remote import split_url

HOSTS = ("https://www.mturk.com", "https://workersandbox.mturk.com")
"""Sites that may show the page in a frame and receive its form."""

PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
"""Value that Mechanical Turk sends instead of an assignment while a worker previews the page."""

_SUBMIT_PATH = "/mturk/externalSubmit"
_SESSION_SECONDS = 86400.0

LIVE = "https://mturk-requester.us-east-1.amazonaws.com"
SANDBOX = "https://mturk-requester-sandbox.us-east-1.amazonaws.com"
_SCHEMA = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd"
_APPROVED_SHARE, _APPROVED_COUNT = "000000000000000000L0", "00000000000000000040"
"""Ids of Mechanical Turk's qualifications for the share and the number of approved assignments."""

_KEY = "hits"
_PAGE_SIZE = 100

router = APIRouter()


class ExternalRequest(EmptyRequest):
    """The parameters that Mechanical Turk adds to the address of the page."""

    key: Token = ""
    assignmentId: Annotated[StoredText, Field(max_length=200)] = ""  # noqa: N815 - names of Mechanical Turk
    hitId: Annotated[StoredText, Field(max_length=200)] = ""  # noqa: N815
    workerId: Annotated[StoredText, Field(max_length=200)] = ""  # noqa: N815
    turkSubmitTo: Annotated[StoredText, Field(max_length=500)] = ""  # noqa: N815
    session: Token = ""  # of this assignment, if the page was loaded again


@router.post("/external/enter", summary="Enter with an assignment", responses=errors(403, 429))
async def enter(request: Request, body: ExternalRequest, context: Context) -> ExternalResponse:
    """Start a session for an assignment, or continue it with the token of the session.

    Mechanical Turk signs nothing and tells about assignments after their submission only, so ids are claims until then.
    """
    if body.assignmentId in ("", PREVIEW):
        return ExternalResponse(preview=True)
    await limit_address(request)

    def start() -> tuple[Assignment, str]:
        items = parse_items_key(context.secret, body.key)
        if items is None:
            raise HTTPException(403, "this link was not made by this project")
        if not (body.assignmentId and body.hitId and body.workerId):
            raise HTTPException(422, "assignmentId, hitId and workerId are required")
        url = _submit_url(body.turkSubmitTo, context.workforce_hosts)
        names = (body.assignmentId, body.hitId, body.workerId)
        if (session := find_session(context.project, body.session)) and session.assignment == body.assignmentId:
            return read_assignment(context.project, session.assignment), body.session
        started = start_assignment(context.project, *names, items, url)
        return started, start_session(context.project, started.worker, seconds=_SESSION_SECONDS, assignment=started.id)

    assignment, token = await context.readers.run(start)
    return ExternalResponse(preview=False, session=token, **describe_assignment(assignment).model_dump())


def _submit_url(submit_to: str, hosts: tuple[str, ...]) -> str:
    parts = split_url(submit_to)
    host = f"{parts.scheme}://{parts.netloc}"
    if host not in hosts:
        raise HTTPException(422, f"turkSubmitTo is not one of {', '.join(hosts)}")
    return host + _SUBMIT_PATH


def _connect(*, live: bool) -> Any:
    """Connect to Mechanical Turk, or to its sandbox, in which nothing is paid."""
    try:
        import boto3
    except ImportError:
        raise DeixisError("Mechanical Turk needs boto3: pip install 'deixis[mturk]'") from None
    return boto3.client("mturk", region_name="us-east-1", endpoint_url=LIVE if live else SANDBOX)


def hire(project: Project, offer: Offer, *, live: bool) -> str:
    """Create a HIT, store its id in the project and return it."""
    address = split_url(offer.url)
    if address.scheme != "https" or not address.netloc:  # browsers show only HTTPS pages in the frame
        raise DeixisError(f"{offer.url}: Mechanical Turk needs an address that starts with https://")
    settings = project.settings
    if (settings.history_items or settings.history_accuracy) and not settings.claimed_workers:
        raise DeixisError(
            "Mechanical Turk does not say who opens the page, so the ids of its workers are claims; "
            '"claimed_workers": true in settings.json lets them answer nevertheless'
        )
    made = _call(
        _connect(live=live).create_hit,
        MaxAssignments=offer.people,
        LifetimeInSeconds=offer.days * 86400,
        AssignmentDurationInSeconds=offer.minutes * 60,
        Reward=f"{offer.reward:.2f}",
        Title=offer.title,
        Description=offer.description,
        Keywords="photo, image, annotation, bounding box",
        Question=external_question(offer, read_secret(project)),
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


def external_question(offer: Offer, secret: bytes) -> str:
    """Return the XML of a HIT: the address of the page, with the signed number of questions."""
    key = make_items_key(secret, offer.items)
    address = f"{offer.url.rstrip('/')}{EXTERNAL_PAGE}?{urlencode({'key': key})}"
    return (
        f'<ExternalQuestion xmlns="{_SCHEMA}"><ExternalURL>{escape(address)}</ExternalURL>'
        "<FrameHeight>0</FrameHeight></ExternalQuestion>"
    )


def settle(project: Project, *, live: bool) -> Approvals:
    """Approve complete assignments; the others are left for a person to decide."""
    client = _connect(live=live)
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
            if assignment is not None and is_same:
                with project.database.writing() as connection:
                    confirm_worker(connection, assignment.worker)
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
