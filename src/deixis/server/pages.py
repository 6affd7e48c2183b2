"""What all servers of ours share: the page that was built, and errors in one clear line. Reads no model."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from deixis.errors import DeixisError, PhotoError, UnavailableError
from deixis.server.guard import refusal
from deixis.server.work import BusyError

STATIC = Path(__file__).parent / "static"
"""Where the page is, once ``web/`` was built."""

# In quotes with whatever is between them, or up to the next colon.
_PATH = re.compile(
    r"""(?<!\S)postgres(?:ql)?://\S*?(?=:?(?:\s|$))|(?P<quote>['"])(?:/|[A-Za-z]:\\).*?(?P=quote)|(?<!\S)(?:/|[A-Za-z]:\\)[^:]*"""
)
_A_YEAR = "public, max-age=31536000, immutable"
_RETRY_S = "5"  # a database takes longer to come back than a queue to get shorter


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


def add_page(app: FastAPI, page_file: str, *also_at: str) -> None:
    """Serve a page that was built from ``web/``, and what it is made of."""

    async def page() -> Response:
        if (STATIC / page_file).is_file():
            return FileResponse(STATIC / page_file, headers={"cache-control": "no-cache"})
        return PlainTextResponse("The page was not built; with Node.js: cd web && npm ci && npm run build\n", 503)

    for path in ("/", *also_at):
        app.add_api_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)

    @app.api_route("/favicon.ico", methods=["GET", "HEAD"], include_in_schema=False)
    async def icon() -> Response:
        return Response(status_code=204)

    app.mount("/assets", _Assets(directory=STATIC / "assets", check_dir=False))


def add_errors(app: FastAPI) -> None:
    """Every error is one clear line, and none tells where a file is."""

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> Response:
        lines = {404: "there is nothing here", 405: "this address does not take that method"}
        return refusal(error.status_code, lines.get(error.status_code, str(error.detail)), dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return refusal(422, _first_mistake(error))

    @app.exception_handler(PhotoError)
    async def bad_photo(_: Request, error: PhotoError) -> Response:
        return refusal(422, without_paths(f"this photo cannot be shown: {error.reason}"))

    @app.exception_handler(DeixisError)
    async def mistake(_: Request, error: DeixisError) -> Response:
        return refusal(400, without_paths(str(error)))

    @app.exception_handler(UnavailableError)
    async def unavailable(_: Request, error: UnavailableError) -> Response:
        return refusal(503, without_paths(str(error)), {"retry-after": _RETRY_S})

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
    >>> without_paths("postgresql://ann@10.0.0.7:5432/photos: the server is gone")
    '…: the server is gone'
    >>> without_paths("[Errno 13] Permission denied: '/home/ann/my photos/a.jpg'")
    '[Errno 13] Permission denied: …'
    """
    return " ".join(_PATH.sub("…", line).split())


def _first_mistake(error: RequestValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("query", "path", "body"))
    said = str(first["msg"]).removeprefix("Value error, ")
    return f"{place}: {said}" if place else said
