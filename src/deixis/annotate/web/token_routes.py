"""Routes of one's own API tokens."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.exceptions import HTTPException

from deixis.annotate.people import create_token, list_tokens, revoke_token
from deixis.annotate.web.authentication import AuthenticatedUser
from deixis.annotate.web.context import AppContext, errors
from deixis.annotate.web.schemas import EmptyResponse, NewTokenResponse, TokenRequest, TokensResponse


def add_token_routes(routes: APIRouter, context: AppContext) -> None:
    project, readers = context.project, context.readers

    async def require_person(request: Request) -> AuthenticatedUser:
        """Refuse tokens: a stolen one must not make others, or outlive its own end."""
        user = await context.authentication.require_user(request)
        if not user.by_cookie:
            raise HTTPException(403, "log in with a browser to manage API tokens")
        return user

    @routes.get("/tokens", summary="One's own API tokens", responses=errors(401, 403))
    async def tokens(request: Request) -> TokensResponse:
        user = await require_person(request)
        return TokensResponse(tokens=await readers.run(list_tokens, project, user.id))

    @routes.post("/tokens", summary="Make an API token, which is shown once", responses=errors(401, 403))
    async def new_token(request: Request, body: TokenRequest) -> NewTokenResponse:
        user = await require_person(request)
        number, secret = await readers.run(lambda: create_token(project, user.id, body.name, days=body.days))
        return NewTokenResponse(id=number, token=secret)

    @routes.delete("/tokens/{token}", summary="Revoke an API token", responses=errors(401, 403, 404))
    async def revoke(request: Request, token: Annotated[str, Path(pattern=r"^[0-9a-f]{8}$")]) -> EmptyResponse:
        user = await require_person(request)
        await readers.run(revoke_token, project, token, user.id)
        context.authentication.clear_cache()
        return EmptyResponse()
