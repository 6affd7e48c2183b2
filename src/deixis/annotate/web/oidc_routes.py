"""Routes of sign-in by OpenID Connect; only if the server was started with a provider."""

from __future__ import annotations

import hmac
import logging
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from deixis.annotate.people import (
    InvitationError,
    Worker,
    accept_by_subject,
    find_invitation,
    find_subject,
    start_session,
)
from deixis.annotate.web.context import AppContext, errors
from deixis.annotate.web.oidc import PENDING_SECONDS, Provider
from deixis.annotate.web.schemas import SignInRequest, SignInResponse
from deixis.errors import DeixisError
from deixis.web.executor import BoundedExecutor

CALLBACK = "/api/oidc/callback"
_COOKIE = "deixis-oidc"
_LOG = logging.getLogger("uvicorn.error")


def add_oidc_routes(routes: APIRouter, context: AppContext, provider: Provider) -> None:
    project, readers = context.project, context.readers
    # Requests to the provider must not hold up others.
    requests = BoundedExecutor("oidc", 4, 100)
    by_address = context.limits.by_address()
    secure = context.link.startswith("https:")

    @routes.post("/oidc/start", summary="Begin a sign-in by OpenID Connect", responses=errors(404, 429))
    async def start(request: Request, response: Response, body: SignInRequest) -> SignInResponse:
        by_address.check(request.client.host if request.client else "")
        if body.invitation:
            await readers.run(find_invitation, project, body.invitation)
        state, url = await requests.run(provider.begin, body.invitation)
        # Lax: the browser comes back from another site. It ties the sign-in to this browser.
        age = int(PENDING_SECONDS)
        response.set_cookie(_COOKIE, state, max_age=age, path=CALLBACK, httponly=True, samesite="lax", secure=secure)
        return SignInResponse(url=url)

    @routes.get("/oidc/callback", summary="The return from the provider", response_class=RedirectResponse)
    async def callback(
        request: Request,
        state: Annotated[str, Query(max_length=200)] = "",
        code: Annotated[str, Query(max_length=4000)] = "",
    ) -> Response:
        by_address.check(request.client.host if request.client else "")
        worker: Worker | None = None
        result = "failed"
        if code and hmac.compare_digest(request.cookies.get(_COOKIE, "").encode(), state.encode()):
            try:
                subject, invitation = await requests.run(provider.finish, state, code)
                worker = await readers.run(_find_or_join, context, subject, invitation)
                result = "unknown" if worker is None else "suspended" if worker.suspended else "done"
            except InvitationError:
                result = "invitation"
            except DeixisError as error:
                _LOG.warning("%s", error)
        # The page itself needs no cookie, and the requests that it sends come from this site.
        response = RedirectResponse("/" if result == "done" else f"/?sign-in={result}", status_code=303)
        response.delete_cookie(_COOKIE, path=CALLBACK, httponly=True, samesite="lax", secure=secure)
        if worker is not None and result == "done":
            token = await readers.run(start_session, project, worker.id)
            context.authentication.set_cookie(response, token)
        return response


def _find_or_join(context: AppContext, subject: str, invitation: str) -> Worker | None:
    """Find the worker of a subject; somebody new needs an invitation."""
    if invitation:
        return accept_by_subject(context.project, invitation, subject)
    return find_subject(context.project, subject)
