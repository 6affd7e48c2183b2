"""Logging in and out, and taking an invitation."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from deixis import __version__
from deixis.annotate.people import Worker, accept, invited, password_of, read_worker, set_password
from deixis.annotate.sessions import begin_session, csrf_of
from deixis.annotate.walks import Task
from deixis.annotate.workflow import answers_to
from deixis.data.records import ENTITY_TYPES
from deixis.errors import DeixisError, UnavailableError
from deixis.server.annotate.asking import Asked, Invited, Join, Login, NewPassword
from deixis.server.annotate.desk import Desk, errors, login_paces
from deixis.server.annotate.passwords import hash_password, is_password
from deixis.server.annotate.saying import InvitationSaid, Nothing, SessionSaid, User
from deixis.server.annotate.visitors import refuse_haste


def add_entry(routes: APIRouter, desk: Desk) -> None:
    """The routes of everybody, logged in or not."""
    by_name, by_address = login_paces(desk.limits)

    async def enter(response: Response, worker: Worker) -> SessionSaid:
        token = await desk.reading.run(begin_session, desk.project, worker.id)
        desk.reception.enter(response, token)
        return _session(desk, worker, token)

    @routes.get("/session", summary="Who is logged in, and what the project asks")
    async def session(request: Request) -> SessionSaid:
        found = await desk.reception.visitor(request)
        if found is None:
            return _session(desk, None, None)
        said = _session(desk, found.worker, found.token)
        if found.session.assignment is not None:
            said.external = await desk.reading.run(desk.external, found)
        return said

    @routes.post("/login", summary="Log in", responses=errors(401, 429))
    async def login(request: Request, response: Response, asked: Login) -> SessionSaid:
        refuse_haste(by_name, asked.name.strip().casefold())
        refuse_haste(by_address, request.client.host if request.client else "")
        found = await desk.reading.run(password_of, desk.project, asked.name)
        if not await desk.passwords.run(is_password, found[1] if found else None, asked.password) or found is None:
            raise HTTPException(401, "the name or the password is wrong")
        by_name.forgive(asked.name.strip().casefold())
        return await enter(response, await desk.reading.run(_worker, desk, found[0]))

    @routes.post("/invitation", summary="Whom an invitation is for", responses=errors(404, 429))
    async def invitation(request: Request, asked: Invited) -> InvitationSaid:
        refuse_haste(by_address, request.client.host if request.client else "")
        worker = await desk.reading.run(_invited, desk, asked.token)
        return InvitationSaid(name=worker.name, role=worker.role, project=desk.name)

    @routes.post("/join", summary="Take an invitation, which is used up with it", responses=errors(404, 429))
    async def join(request: Request, response: Response, asked: Join) -> SessionSaid:
        refuse_haste(by_address, request.client.host if request.client else "")
        await desk.reading.run(_invited, desk, asked.token)
        kept = await desk.passwords.run(hash_password, asked.password)
        worker = await desk.reading.run(_accepted, desk, asked.token, kept)
        return await enter(response, worker)

    @routes.post("/logout", summary="Log out", responses=errors(401, 403))
    async def logout(request: Request, response: Response, asked: Asked) -> Nothing:
        await desk.reception.leave(response, await desk.reception.worker(request))
        return Nothing()

    @routes.post("/password", summary="Change one's password; other sessions end", responses=errors(401, 403, 429))
    async def password(request: Request, response: Response, asked: NewPassword) -> SessionSaid:
        visitor = await desk.reception.worker(request)
        name = visitor.worker.name or ""
        refuse_haste(by_name, name.casefold())
        found = await desk.reading.run(password_of, desk.project, name)
        if found is None or not await desk.passwords.run(is_password, found[1], asked.old):
            raise HTTPException(403, "the old password is wrong")
        kept = await desk.passwords.run(hash_password, asked.new)
        await desk.reading.run(set_password, desk.project, visitor.id, kept)
        desk.reception.forget_all()
        return await enter(response, visitor.worker)


def _session(desk: Desk, worker: Worker | None, token: str | None) -> SessionSaid:
    return SessionSaid(
        project=desk.name,
        user=User(id=worker.id, name=worker.name, role=worker.role) if worker else None,
        csrf=csrf_of(token) if token else None,
        external=None,
        tasks={task: [answer.value for answer in answers_to(task)] for task in Task},
        types=list(ENTITY_TYPES),
        photos=desk.project.images is not None,
        version=__version__,
    )


def _worker(desk: Desk, worker: str) -> Worker:
    with desk.project.database.reading() as connection:
        return read_worker(connection, worker)


def _invited(desk: Desk, token: str) -> Worker:
    try:
        return invited(desk.project, token)
    except UnavailableError:
        raise
    except DeixisError as error:
        raise HTTPException(404, str(error)) from None


def _accepted(desk: Desk, token: str, password: str) -> Worker:
    try:
        return accept(desk.project, token, password)
    except UnavailableError:
        raise
    except DeixisError as error:
        raise HTTPException(404, str(error)) from None
