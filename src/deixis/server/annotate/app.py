"""The application of the annotation workbench: its pages, its API and what guards them."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI, Request
from sqlalchemy import insert, select
from starlette.exceptions import HTTPException
from starlette.responses import Response

from deixis import __version__
from deixis.annotate.changing import RefusedError
from deixis.annotate.opening import refresh
from deixis.annotate.people import NameTakenError
from deixis.annotate.project import Project
from deixis.annotate.recording import NeverGivenError, TakenBackError
from deixis.annotate.reviewing import requeue_suspended
from deixis.annotate.store.schema import about
from deixis.errors import DeixisError
from deixis.server.annotate.desk import Desk, Limits, errors
from deixis.server.annotate.entry_routes import add_entry
from deixis.server.annotate.outside import HOSTS, Workforce
from deixis.server.annotate.outside_routes import PAGE, Framed, add_outside
from deixis.server.annotate.owner_routes import add_ownership
from deixis.server.annotate.pace import Pace
from deixis.server.annotate.photos import Gallery, NoPictureError, UnknownPhotoError
from deixis.server.annotate.review_routes import add_review
from deixis.server.annotate.visitors import Reception
from deixis.server.annotate.work_routes import add_work
from deixis.server.annotate.writer import Writer
from deixis.server.guard import Door, Guard, refusal
from deixis.server.pages import add_errors, add_page
from deixis.server.work import Workers

_LOG = logging.getLogger("uvicorn.error")
_TIDY_EVERY_S = 2.0


@dataclass(frozen=True)
class WorkbenchDoor(Door):
    """Who is let in; `url` is where people find the server, if something stands before it.

    Examples
    --------
    >>> WorkbenchDoor(url="https://dogs.example.org").knows_host("dogs.example.org")
    True
    """

    url: str = ""

    def knows_host(self, header: str) -> bool:
        """Whether a Host header names this server."""
        return (bool(self.url) and header == urlsplit(self.url).netloc) or super().knows_host(header)


def make_app(
    project: Project,
    *,
    door: WorkbenchDoor | None = None,
    link: str = "http://127.0.0.1/",
    limits: Limits | None = None,
    workforce_hosts: tuple[str, ...] = HOSTS,
) -> FastAPI:
    """The annotation workbench on a project.

    Parameters
    ----------
    project
        From `deixis.annotate.opening.open_to_work`.
    door
        Who is let in; only this machine where nothing is said.
    link
        Where people find the page; invitations begin with it.
    limits
        How often things may be tried.
    workforce_hosts
        Of an outside workforce, which may show one page in a frame.
    """
    door, limits = door or WorkbenchDoor(), limits or Limits()
    desk = _desk(project, door, link, limits, workforce_hosts)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        tidying = asyncio.create_task(_tidy(desk))
        yield
        tidying.cancel()
        with suppress(asyncio.CancelledError):
            await tidying
        await desk.close()

    app = FastAPI(
        title="deixis annotate",
        version=__version__,
        description="Making grounded data: questions and answers, review, people and progress.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # their pages would load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    routes = APIRouter(responses=errors(400, 403, 413, 421, 422, 500, 503))
    # They are tried in this order: the busiest first.
    for add in (add_work, add_entry, add_review, add_ownership, add_outside):
        add(routes, desk)
    app.include_router(routes, prefix="/api")
    add_page(app, "annotate.html", PAGE)
    add_errors(app)
    _add_refusals(app)
    app.add_middleware(Guard, door=door)
    app.add_middleware(Framed, hosts=workforce_hosts)
    return app


def _desk(project: Project, door: WorkbenchDoor, link: str, limits: Limits, workforce_hosts: tuple[str, ...]) -> Desk:
    secret = project_secret(project)
    reading = Workers("reading", 4, 400)
    answers = Pace(limits.answers_per_second, limits.answers_at_once)
    secure = door.url.startswith("https:")
    return Desk(
        project=project,
        name=project.folder.absolute().name,
        writer=Writer(project.database),
        gallery=Gallery(project, secret),
        reception=Reception(project, reading, cookie_name(secret), secure, answers),
        workforce=Workforce(secret, workforce_hosts),
        link=link,
        limits=limits,
        reading=reading,
    )


def cookie_name(secret: bytes) -> str:
    """The name of the cookie: one for each project, as browsers do not tell the ports of a machine apart."""
    return f"deixis-{hashlib.sha256(b'cookie' + secret).hexdigest()[:12]}"


def project_secret(project: Project) -> bytes:
    """What signs the ids and keys of a project; made when it is first asked for."""
    chosen = select(about.c.value).where(about.c.key == "secret")
    with project.database.writing() as connection:
        found = connection.scalar(chosen)
        if found is None:
            found = secrets.token_hex(32)
            connection.execute(insert(about), {"key": "secret", "value": found})
    return bytes.fromhex(found)


async def _tidy(desk: Desk) -> None:
    """Queue again what suspended workers did, and follow settings that were edited, now and then."""
    while True:
        try:
            await desk.reading.run(refresh, desk.project)
            while await desk.reading.run(requeue_suspended, desk.project, 20):
                await asyncio.sleep(0.05)  # others come first
        except DeixisError as error:
            _LOG.error("%s", error)
        await asyncio.sleep(_TIDY_EVERY_S)


def _add_refusals(app: FastAPI) -> None:
    """What the workbench refuses, besides what every server of ours does."""

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> Response:
        lines = {404: "there is nothing here", 405: "this address does not take that method"}
        said_nothing = error.detail == HTTPStatus(error.status_code).phrase
        line = lines.get(error.status_code, error.detail) if said_nothing else error.detail
        return refusal(error.status_code, str(line), dict(error.headers or {}))

    statuses: dict[type[Exception], int] = {
        NeverGivenError: 404,
        UnknownPhotoError: 404,
        NoPictureError: 404,
        NameTakenError: 409,
        TakenBackError: 410,
        RefusedError: 422,
    }
    for kind, status in statuses.items():
        app.add_exception_handler(kind, _refused_with(status))


def _refused_with(status: int):  # type: ignore[no-untyped-def]
    async def refused(_: Request, error: Exception) -> Response:
        return refusal(status, str(error))

    return refused
