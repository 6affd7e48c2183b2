"""Routes of log-in: sessions, invitations, passwords and API tokens."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Annotated
from unicodedata import normalize

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from fastapi import APIRouter, Depends, Path, Request, Response
from starlette.exceptions import HTTPException

from deixis import __version__
from deixis.annotate.people import (
    Worker,
    accept_invitation,
    create_token,
    find_invitation,
    find_password,
    list_tokens,
    normal_name,
    revoke_token,
    set_password,
    start_session,
)
from deixis.annotate.web import schemas
from deixis.annotate.web.context import (
    Address,
    AppContext,
    Context,
    PersonWithBrowser,
    User,
    errors,
    in_thread,
    limit_address,
)
from deixis.annotate.web.work import describe_assignment
from deixis.annotate.workflow import Task
from deixis.annotate.workforce import read_assignment
from deixis.data.formats import WRITERS
from deixis.data.records import ENTITY_TYPES
from deixis.errors import DeixisError

MIN_PASSWORD_LENGTH, MAX_PASSWORD_LENGTH = 10, 200

router = APIRouter()


@cache
def _hasher() -> PasswordHasher:
    return PasswordHasher()


@cache
def _dummy_hash() -> str:
    return _hasher().hash("nobody has this password")


def hash_password(password: str) -> str:
    """Hash a password in one form of Unicode: the keyboard of another device may write é in another way."""
    password = normalize("NFC", password)
    if not MIN_PASSWORD_LENGTH <= len(password) <= MAX_PASSWORD_LENGTH:
        raise DeixisError(f"a password has {MIN_PASSWORD_LENGTH} to {MAX_PASSWORD_LENGTH} characters")
    return _hasher().hash(password.encode(errors="replace"))


def verify_password(password_hash: str | None, password: str) -> bool:
    """Compare a password with a hash; None takes as long and is never right, so that names cannot be guessed."""
    for form in dict.fromkeys((normalize("NFC", password), password)):  # older versions hashed it as it was typed
        with suppress(Argon2Error, InvalidHashError):
            _hasher().verify(password_hash or _dummy_hash(), form.encode(errors="replace"))
            return password_hash is not None
    return False


@router.get("/session", summary="The user, and what the page needs to know about the project")
async def session(request: Request, context: Context) -> schemas.SessionResponse:
    user = await context.authentication.find_user(request)
    response = _describe_session(context, user.worker if user else None)
    if len(context.siblings) > 1:
        for other in context.siblings:
            if await other.authentication.find_user(request) is not None:
                response.projects.append(schemas.ProjectLink(name=other.name, url=f"{other.base}/", is_in=True))
    if user is None:
        return response
    if user.session.assignment is not None:
        found = await context.readers.run(read_assignment, context.project, user.session.assignment)
        response.external = describe_assignment(found)
    return response


@router.post("/login", summary="Log in", responses=errors(401, 429))
async def login(
    response: Response, body: schemas.LoginRequest, context: Context, address: Address
) -> schemas.SessionResponse:
    """Log in, also to the other projects of the server in which this name has this password."""
    name = normal_name(body.name)
    context.delays.check(address, name)
    entered = await _find_everywhere(context, body.name, body.password)
    if not entered:
        context.delays.failed(address, name)
        raise HTTPException(401, "wrong name or password")
    context.delays.succeeded(address, name)
    if all(worker.suspended for _, worker in entered):
        _refuse_suspended(entered[0][1])
    described = _describe_session(context, None)
    for project, worker in entered:
        if not worker.suspended:
            in_project = await _log_in(project, response, worker)
            described = in_project if project is context else described
            described.projects.append(schemas.ProjectLink(name=project.name, url=f"{project.base}/", is_in=True))
    return described


@router.post(
    "/invitation",
    summary="The person that an invitation is for",
    responses=errors(404, 429),
    dependencies=[Depends(limit_address)],
)
async def invitation(request: Request, body: schemas.InvitationRequest, context: Context) -> schemas.InvitationResponse:
    worker = await context.readers.run(find_invitation, context.project, body.token)
    _refuse_suspended(worker)
    known = await _find_known(context, request, worker)
    return schemas.InvitationResponse(name=worker.name, role=worker.role, project=context.name, known=known is not None)


@router.post(
    "/join",
    summary="Accept an invitation, which can be used once",
    responses=errors(404, 429),
    dependencies=[Depends(limit_address)],
)
async def join(
    request: Request, response: Response, body: schemas.JoinRequest, context: Context
) -> schemas.SessionResponse:
    """Join with a new password; whoever is logged in to another project under this name keeps theirs without one."""
    invited = await context.readers.run(find_invitation, context.project, body.token)
    _refuse_suspended(invited)
    password_hash = "" if body.password else await _find_known(context, request, invited) or ""
    if not password_hash:
        password_hash = await context.password_workers.run(hash_password, body.password)
    worker = await context.readers.run(accept_invitation, context.project, body.token, password_hash)
    return await _log_in(context, response, worker)


@router.post("/logout", summary="Log out", responses=errors(401, 403))
async def logout(
    request: Request, response: Response, body: schemas.EmptyRequest, context: Context, user: User
) -> schemas.EmptyResponse:
    """Log out, of all projects of the server."""
    for project in context.siblings if user.by_cookie else [context]:
        if (found := await project.authentication.find_user(request)) is not None:
            await project.authentication.log_out(response, found)
    return schemas.EmptyResponse()


@router.post("/password", summary="Change the password and end other sessions", responses=errors(401, 403, 429))
async def password(
    response: Response, body: schemas.PasswordRequest, context: Context, user: User, address: Address
) -> schemas.SessionResponse:
    name = user.worker.name or ""
    context.delays.check(address, name)
    entered = await _find_everywhere(context, name, body.old)
    if user.id not in {worker.id for project, worker in entered if project is context}:
        context.delays.failed(address, name)
        raise HTTPException(403, "the old password is wrong")
    password_hash = await context.password_workers.run(hash_password, body.new)
    for project, worker in entered:
        await project.readers.run(set_password, project.project, worker.id, password_hash)
        project.authentication.clear_cache()
        if project is not context and not worker.suspended:
            await _log_in(project, response, worker)
    return await _log_in(context, response, user.worker)


@router.get("/tokens", summary="One's own API tokens", responses=errors(401, 403))
@in_thread
def tokens(context: Context, user: PersonWithBrowser) -> schemas.TokensResponse:
    return schemas.TokensResponse(tokens=list_tokens(context.project, user.id))


@router.post("/tokens", summary="Make an API token, which is shown once", responses=errors(401, 403))
@in_thread
def new_token(body: schemas.TokenRequest, context: Context, user: PersonWithBrowser) -> schemas.NewTokenResponse:
    number, secret = create_token(context.project, user.id, body.name, days=body.days)
    return schemas.NewTokenResponse(id=number, token=secret)


@router.delete("/tokens/{token}", summary="Revoke an API token", responses=errors(401, 403, 404))
async def revoke(
    token: Annotated[str, Path(pattern=r"^[0-9a-f]{8}$")], context: Context, user: PersonWithBrowser
) -> schemas.EmptyResponse:
    await context.readers.run(revoke_token, context.project, token, user.id)
    context.authentication.clear_cache()
    return schemas.EmptyResponse()


async def _find_everywhere(context: AppContext, name: str, password: str) -> list[tuple[AppContext, Worker]]:
    """Find the projects of the server in which a name has a password."""
    entered = []
    for project in context.siblings:
        found = await project.readers.run(find_password, project.project, name)
        hashed = found[1] if found else None
        if await context.password_workers.run(verify_password, hashed, password) and found is not None:
            entered.append((project, found[0]))
    return entered


async def _find_known(context: AppContext, request: Request, invited: Worker) -> str | None:
    """Return the password hash of somebody of this name who is logged in to another project of the server."""
    for project in context.siblings:
        user = await project.authentication.find_user(request) if project is not context else None
        if user and user.by_cookie and normal_name(user.worker.name or "") == normal_name(invited.name or ""):
            found = await project.readers.run(find_password, project.project, user.worker.name or "")
            if found is not None and found[0].id == user.id:
                return found[1]
    return None


async def _log_in(context: AppContext, response: Response, worker: Worker) -> schemas.SessionResponse:
    token = await context.readers.run(start_session, context.project, worker.id)
    context.authentication.set_cookie(response, token)
    return _describe_session(context, worker)


def _refuse_suspended(worker: Worker) -> None:
    if worker.suspended:
        raise HTTPException(403, "the project's owner has suspended you; ask them")


def _describe_session(context: AppContext, worker: Worker | None) -> schemas.SessionResponse:
    return schemas.SessionResponse(
        project=context.name,
        user=schemas.UserInfo(id=worker.id, name=worker.name, role=worker.role) if worker else None,
        external=None,
        tasks={task: list(context.project.settings.answers_of(task)) for task in Task},
        types=list(ENTITY_TYPES),
        formats=list(WRITERS),
        photos=context.project.images is not None,
        oidc=context.provider.settings.label if context.provider else None,
        version=__version__,
        projects=[],
    )
