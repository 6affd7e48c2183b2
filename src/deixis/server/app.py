"""The application: the page, the API and what guards them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from deixis import __version__
from deixis.errors import DeixisError, PhotoError
from deixis.server.eyes import Eyes, NotInstalledError
from deixis.server.guard import Door, Guard, refusal
from deixis.server.library import Library
from deixis.server.limits import Limits
from deixis.server.routes import Desk, NoSuchPhotoError, api_routes
from deixis.server.work import BusyError, Workers

STATIC = Path(__file__).parent / "static"
"""Where the page is, once ``web/`` was built."""

# In quotes with whatever is between them, or up to the next colon.
_PATH = re.compile(r"""(?P<quote>['"])(?:/|[A-Za-z]:\\).*?(?P=quote)|(?<!\S)(?:/|[A-Za-z]:\\)[^:]*""")
_A_YEAR = "public, max-age=31536000, immutable"


def make_app(
    library: Library, *, eyes: Eyes | None = None, door: Door | None = None, limits: Limits | None = None
) -> FastAPI:
    """The web app and the HTTP API on an index of photos.

    Parameters
    ----------
    library
        From `deixis.open_index`.
    eyes
        The models that look at photos.
    door
        Who is let in; only this machine where nothing is said.
    limits
        On what may be asked.
    """
    limits = limits or Limits()
    quick = Workers("quick", limits.quick_threads, limits.quick_waiting, limits.quick_patience_s)
    looking = Workers("looking", limits.model_threads, limits.model_waiting, limits.model_patience_s)
    desk = Desk(library, eyes or Eyes(limits.looks), quick, looking, limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        quick.close()
        looking.close()

    app = FastAPI(
        title="deixis",
        version=__version__,
        description="Search, point, caption and describe photos.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # their pages would load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    app.include_router(api_routes(desk), prefix="/api")
    _add_page(app)
    _add_errors(app)
    app.add_middleware(Guard, door=door or Door(upload_bytes=limits.upload_bytes))
    return app


class _Assets(StaticFiles):
    """Files whose names change with their content."""

    def file_response(self, *given: Any, **named: Any) -> Response:
        response = super().file_response(*given, **named)
        response.headers["cache-control"] = _A_YEAR
        return response

    async def get_response(self, path: str, scope: Scope) -> Response:
        with suppress(HTTPException):
            return await super().get_response(path, scope)
        return refusal(404, "there is nothing here")


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        if (STATIC / "index.html").is_file():
            return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})
        return PlainTextResponse("The page was not built; with Node.js: cd web && npm ci && npm run build\n", 503)

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return Response(status_code=204)

    app.mount("/assets", _Assets(directory=STATIC / "assets", check_dir=False))


def _add_errors(app: FastAPI) -> None:
    """Every error is one clear line, and none tells where a file is."""

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> Response:
        lines = {404: "there is nothing here", 405: "this address does not take that method"}
        return refusal(error.status_code, lines.get(error.status_code, str(error.detail)), dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return refusal(422, _first_mistake(error))

    @app.exception_handler(NoSuchPhotoError)
    async def no_such_photo(_: Request, error: NoSuchPhotoError) -> Response:
        return refusal(404, "there is no such photo")

    @app.exception_handler(NotInstalledError)
    async def not_installed(_: Request, error: NotInstalledError) -> Response:
        return refusal(409, str(error))

    @app.exception_handler(PhotoError)
    async def bad_photo(_: Request, error: PhotoError) -> Response:
        return refusal(422, without_paths(f"this photo cannot be shown: {error.reason}"))

    @app.exception_handler(DeixisError)
    async def mistake(_: Request, error: DeixisError) -> Response:
        return refusal(400, without_paths(str(error)))

    @app.exception_handler(BusyError)
    async def busy(_: Request, error: BusyError) -> Response:
        return refusal(503, "too much is asked for at once; try again in a moment", {"retry-after": "1"})

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, error: ClientDisconnect) -> Response:
        return refusal(400, "nobody waits for the answer any more")


def without_paths(line: str) -> str:
    """An error in one line that does not tell where files are.

    Examples
    --------
    >>> without_paths("/home/ann/photos.deixis/index.sqlite: damaged")
    '…: damaged'
    >>> without_paths("[Errno 13] Permission denied: '/home/ann/my photos/a.jpg'")
    '[Errno 13] Permission denied: …'
    """
    return " ".join(_PATH.sub("…", line).split())


def _first_mistake(error: RequestValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("query", "path", "body"))
    said = str(first["msg"]).removeprefix("Value error, ")
    return f"{place}: {said}" if place else said
