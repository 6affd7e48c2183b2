"""The way in for people whom an outside workforce sends."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deixis.annotate.sessions import begin_session
from deixis.server.annotate.asking import Entering
from deixis.server.annotate.desk import Desk, errors, login_paces
from deixis.server.annotate.outside import NOT_YET, progress_said
from deixis.server.annotate.saying import EnteredSaid
from deixis.server.annotate.visitors import refuse_haste

PAGE = "/external"
_LASTS_S = 86400.0
_POLICY = "content-security-policy"


def add_outside(routes: APIRouter, desk: Desk) -> None:
    """The routes of an outside workforce."""
    _, by_address = login_paces(desk.limits)

    @routes.post("/external/enter", summary="Enter with an assignment", responses=errors(403, 429))
    async def enter(request: Request, asked: Entering) -> EnteredSaid:
        if asked.assignmentId in ("", NOT_YET):
            return EnteredSaid(preview=True)
        refuse_haste(by_address, request.client.host if request.client else "")
        assignment = await desk.reading.run(desk.workforce.enter, desk.project, asked)
        token = await desk.reading.run(
            lambda: begin_session(desk.project, assignment.worker, lasts_s=_LASTS_S, assignment=assignment.id)
        )
        said = progress_said(assignment)
        return EnteredSaid(preview=False, session=token, **said.model_dump())


class Framed:
    """ASGI middleware: one page may be shown in a frame of the workforce's, and send its form there.

    It stands outside the guard, whose rules are for all other pages.
    """

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...]) -> None:
        self.app = app
        self._hosts = " ".join(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; what browsers say of a frame on another site's page is no reason to refuse this page."""
        if scope["type"] != "http" or scope["path"] != PAGE:
            await self.app(scope, receive, send)
            return

        async def send_framed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                policy = headers.get(_POLICY, "")
                policy = policy.replace("frame-ancestors 'none'", f"frame-ancestors {self._hosts}")
                headers[_POLICY] = policy.replace("form-action 'none'", f"form-action {self._hosts}")
                del headers["x-frame-options"]
                headers["cross-origin-resource-policy"] = "cross-origin"
            await send(message)

        kept = [(name, value) for name, value in scope["headers"] if not name.startswith(b"sec-fetch-")]
        await self.app({**scope, "headers": kept}, receive, send_framed)
