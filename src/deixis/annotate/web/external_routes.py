"""Routes of an external workforce: its page enters with an assignment and shows the workbench in a frame."""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deixis.annotate.people import start_session
from deixis.annotate.project import Project
from deixis.annotate.web.context import AppContext, errors
from deixis.annotate.web.schemas import ExternalProgress, ExternalRequest, ExternalResponse, SubmitForm
from deixis.annotate.workforce import (
    EXTERNAL_PAGE,
    Assignment,
    find_assignment,
    parse_items_key,
    start_assignment,
)

WORKFORCE_HOSTS = ("https://www.mturk.com", "https://workersandbox.mturk.com")
"""Sites that may show the page in a frame and receive its form."""

PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
"""What Mechanical Turk sends instead of an assignment while a worker previews the page."""

_SUBMIT_PATH = "/mturk/externalSubmit"
_SESSION_SECONDS = 86400.0
_POLICY = "content-security-policy"


def add_external_routes(routes: APIRouter, context: AppContext) -> None:
    limiter = context.limits.by_address()

    @routes.post("/external/enter", summary="Enter with an assignment", responses=errors(403, 429))
    async def enter(request: Request, body: ExternalRequest) -> ExternalResponse:
        if body.assignmentId in ("", PREVIEW):
            return ExternalResponse(preview=True)
        limiter.check(request.client.host if request.client else "")

        def start() -> tuple[Assignment, str]:
            items = parse_items_key(context.secret, body.key)
            if items is None:
                raise HTTPException(403, "this link was not made by this project")
            if not (body.assignmentId and body.hitId and body.workerId):
                raise HTTPException(422, "assignmentId, hitId and workerId are required")
            url = _submit_url(body.turkSubmitTo, context.workforce_hosts)
            names = (body.assignmentId, body.hitId, body.workerId)
            started = start_assignment(context.project, *names, items, url)
            return started, start_session(
                context.project, started.worker, seconds=_SESSION_SECONDS, assignment=started.id
            )

        assignment, token = await context.readers.run(start)
        return ExternalResponse(preview=False, session=token, **describe_assignment(assignment).model_dump())


def _submit_url(submit_to: str, hosts: tuple[str, ...]) -> str:
    try:
        parts = urlsplit(submit_to)
        host = f"{parts.scheme}://{parts.netloc}"
    except ValueError:
        host = ""
    if host not in hosts:
        raise HTTPException(422, f"turkSubmitTo is not one of {', '.join(hosts)}")
    return host + _SUBMIT_PATH


def read_assignment(project: Project, assignment: str) -> ExternalProgress:
    with project.database.reading() as connection:
        found = find_assignment(connection, assignment)
    if found is None:
        raise HTTPException(404, "unknown assignment")
    return describe_assignment(found)


def describe_assignment(assignment: Assignment, *, no_questions: bool = False) -> ExternalProgress:
    """Describe the progress of an assignment, with the form to submit once it is done or no questions are left."""
    fields = {"assignmentId": assignment.id, "answered": str(assignment.done)}
    form = SubmitForm(url=assignment.submit_to, fields=fields) if assignment.is_done or no_questions else None
    return ExternalProgress(items=assignment.items, done=assignment.done, submit=form)


class FrameMiddleware:
    """ASGI middleware: lets the workforce's sites show one page in a frame and receive its form."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...]) -> None:
        self.app = app
        self._hosts = " ".join(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != EXTERNAL_PAGE:
            await self.app(scope, receive, send)
            return

        async def send_framed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                policy = headers.get(_POLICY, "")
                policy = policy.replace("frame-ancestors 'none'", f"frame-ancestors {self._hosts}")
                headers[_POLICY] = policy.replace("form-action 'self'", f"form-action {self._hosts}")
                del headers["x-frame-options"]
                headers["cross-origin-resource-policy"] = "cross-origin"
            await send(message)

        # The guard would refuse a request that comes from a frame on another site.
        kept = [(name, value) for name, value in scope["headers"] if not name.startswith(b"sec-fetch-")]
        await self.app({**scope, "headers": kept}, receive, send_framed)
