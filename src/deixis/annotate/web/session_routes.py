"""Routes of everybody, logged in or not: sessions, invitations and passwords."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from deixis import __version__
from deixis.annotate.people import (
    Worker,
    accept_invitation,
    csrf_token,
    find_invitation,
    find_password,
    set_password,
    start_session,
)
from deixis.annotate.web.authentication import LoginDelays, hash_password, verify_password
from deixis.annotate.web.context import AppContext, errors
from deixis.annotate.web.external_routes import read_assignment
from deixis.annotate.web.schemas import (
    EmptyRequest,
    EmptyResponse,
    InvitationRequest,
    InvitationResponse,
    JoinRequest,
    LoginRequest,
    PasswordRequest,
    SessionResponse,
    UserInfo,
)
from deixis.annotate.workflow import Task, allowed_answers
from deixis.data.records import ENTITY_TYPES


def add_session_routes(routes: APIRouter, context: AppContext) -> None:
    project, authentication, readers = context.project, context.authentication, context.readers
    delays, by_address = LoginDelays(), context.limits.by_address()

    async def log_in(response: Response, worker: Worker) -> SessionResponse:
        token = await readers.run(start_session, project, worker.id)
        authentication.set_cookie(response, token)
        return _describe_session(context, worker, token)

    def limit_address(request: Request) -> str:
        address = request.client.host if request.client else ""
        by_address.check(address)
        return address

    @routes.get("/session", summary="The user, and what the page needs to know about the project")
    async def session(request: Request) -> SessionResponse:
        user = await authentication.find_user(request)
        if user is None:
            return _describe_session(context, None, None)
        response = _describe_session(context, user.worker, user.token)
        if user.session.assignment is not None:
            response.external = await readers.run(read_assignment, project, user.session.assignment)
        return response

    @routes.post("/login", summary="Log in", responses=errors(401, 429))
    async def login(request: Request, response: Response, body: LoginRequest) -> SessionResponse:
        address = limit_address(request)
        delays.check(address, body.name)
        found = await readers.run(find_password, project, body.name)
        password_hash = found[1] if found else None
        if not await context.password_workers.run(verify_password, password_hash, body.password) or found is None:
            delays.failed(address, body.name)
            raise HTTPException(401, "wrong name or password")
        delays.succeeded(address, body.name)
        refuse_suspended(found[0])
        return await log_in(response, found[0])

    @routes.post("/invitation", summary="The person that an invitation is for", responses=errors(404, 429))
    async def invitation(request: Request, body: InvitationRequest) -> InvitationResponse:
        limit_address(request)
        worker = await readers.run(find_invitation, project, body.token)
        refuse_suspended(worker)
        return InvitationResponse(name=worker.name, role=worker.role, project=context.name)

    @routes.post("/join", summary="Accept an invitation, which can be used once", responses=errors(404, 429))
    async def join(request: Request, response: Response, body: JoinRequest) -> SessionResponse:
        limit_address(request)
        refuse_suspended(await readers.run(find_invitation, project, body.token))
        password_hash = await context.password_workers.run(hash_password, body.password)
        return await log_in(response, await readers.run(accept_invitation, project, body.token, password_hash))

    @routes.post("/logout", summary="Log out", responses=errors(401, 403))
    async def logout(request: Request, response: Response, body: EmptyRequest) -> EmptyResponse:
        await authentication.log_out(response, await authentication.require_user(request))
        return EmptyResponse()

    @routes.post("/password", summary="Change the password and end other sessions", responses=errors(401, 403, 429))
    async def password(request: Request, response: Response, body: PasswordRequest) -> SessionResponse:
        user = await authentication.require_user(request)
        address, name = limit_address(request), user.worker.name or ""
        delays.check(address, name)
        found = await readers.run(find_password, project, name)
        if found is None or not await context.password_workers.run(verify_password, found[1], body.old):
            delays.failed(address, name)
            raise HTTPException(403, "the old password is wrong")
        password_hash = await context.password_workers.run(hash_password, body.new)
        await readers.run(set_password, project, user.id, password_hash)
        authentication.clear_cache()
        return await log_in(response, user.worker)


def refuse_suspended(worker: Worker) -> None:
    if worker.suspended:
        raise HTTPException(403, "the project's owner has suspended you; ask them")


def _describe_session(context: AppContext, worker: Worker | None, token: str | None) -> SessionResponse:
    return SessionResponse(
        project=context.name,
        user=UserInfo(id=worker.id, name=worker.name, role=worker.role) if worker else None,
        csrf=csrf_token(token) if token else None,
        external=None,
        tasks={task: [answer.value for answer in allowed_answers(task)] for task in Task},
        types=list(ENTITY_TYPES),
        photos=context.project.images is not None,
        oidc=context.oidc,
        version=__version__,
    )
