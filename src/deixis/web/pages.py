"""The built page, photos as JPEGs, and error responses, shared by the photo server and the annotation server."""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from PIL.Image import Image
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from deixis.data.images import open_photo
from deixis.errors import DeixisError, PhotoError, UnavailableError
from deixis.search.index.photo_files import make_thumbnail
from deixis.storage.remote import is_remote
from deixis.web.executor import BusyError
from deixis.web.security import busy_response, error_response

STATIC = Path(__file__).parent / "static"
"""The built page, from ``web/``."""

MAX_SIDE = 1600
"""Side of a large JPEG."""

# Addresses, quoted paths, and paths up to the next colon.
_PATH = re.compile(
    r"""(?<!\S)postgres(?:ql)?://\S*?(?=:?(?:\s|$))|(?P<quote>['"])(?:/|[A-Za-z]:\\).*?(?P=quote)|(?<!\S)(?:/|[A-Za-z]:\\)[^:]*"""
)
_CACHE_FOREVER = "public, max-age=31536000, immutable"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_RETRY_S = "5"  # a database needs more time to recover than a queue


class _Assets(StaticFiles):
    """Files whose names contain a hash of their content."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = _CACHE_FOREVER
        return response

    async def get_response(self, path: str, scope: Scope) -> Response:
        with suppress(HTTPException):
            return await super().get_response(path, scope)
        return error_response(404, "not found")


def add_page(app: FastAPI, page_file: str, *also_at: str) -> None:
    """Serve a page built from ``web/``, and its assets."""

    async def page() -> Response:
        if (STATIC / page_file).is_file():
            return FileResponse(STATIC / page_file, headers={"cache-control": "no-cache"})
        return PlainTextResponse("The page has not been built; with Node.js: cd web && npm ci && npm run build\n", 503)

    for path in ("/", *also_at):
        app.add_api_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)

    @app.api_route("/favicon.ico", methods=["GET", "HEAD"], include_in_schema=False)
    async def icon() -> Response:
        return Response(status_code=204)

    app.mount("/assets", page_assets())


def page_assets() -> StaticFiles:
    """Return the application that serves the assets of the pages."""
    return _Assets(directory=STATIC / "assets", check_dir=False)


def open_inside(path: Path, root: Path | None, min_side: int | None = None) -> Image:
    """Decode a photo that must lie below a folder, by default below that of its path.

    A file that is missing, broken or a link to a file elsewhere raises `PhotoError`.
    """
    if root is None and not is_remote(path):
        root = Path(os.path.realpath(path.parent))
    return open_photo(path, min_side=min_side, inside=root)


def encode_jpeg(path: Path, side: int = MAX_SIDE, root: Path | None = None) -> bytes:
    """Return a photo as a new JPEG without metadata, at most `side` pixels long; `root` as of `open_inside`."""
    return make_thumbnail(open_inside(path, root, min_side=side), side)


def add_error_handlers(app: FastAPI) -> None:
    """Respond to errors with one line that does not reveal file paths."""

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> Response:
        messages = {404: "not found", 405: "method not allowed"}
        return error_response(
            error.status_code, messages.get(error.status_code, str(error.detail)), dict(error.headers or {})
        )

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return error_response(422, _first_problem(error))

    @app.exception_handler(PhotoError)
    async def photo_error(_: Request, error: PhotoError) -> Response:
        return error_response(422, without_paths(f"this photo cannot be read: {error.reason}"))

    @app.exception_handler(DeixisError)
    async def user_error(_: Request, error: DeixisError) -> Response:
        return error_response(400, without_paths(str(error)))

    @app.exception_handler(UnavailableError)
    async def unavailable(_: Request, error: UnavailableError) -> Response:
        return error_response(503, without_paths(str(error)), {"retry-after": _RETRY_S})

    @app.exception_handler(OSError)
    async def disk_error(_: Request, error: OSError) -> Response:
        if error.errno not in _NO_ROOM:
            raise error
        return error_response(503, "the disk of the server is full", {"retry-after": _RETRY_S})

    @app.exception_handler(BusyError)
    async def busy(_: Request, error: BusyError) -> Response:
        return busy_response()

    @app.exception_handler(ClientDisconnect)
    async def disconnected(_: Request, error: ClientDisconnect) -> Response:
        return error_response(400, "the client has disconnected")


def without_paths(line: str) -> str:
    """Return an error message in one line, without file paths and database addresses.

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


def _first_problem(error: RequestValidationError) -> str:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"] if part not in ("query", "path", "body"))
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"{field}: {message}" if field else message
