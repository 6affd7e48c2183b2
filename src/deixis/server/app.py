"""The application: the page, the API and what guards them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from starlette.responses import Response

from deixis import __version__
from deixis.server.eyes import Eyes
from deixis.server.guard import Door, Guard, refusal
from deixis.server.library import Library
from deixis.server.limits import Limits
from deixis.server.pages import add_errors, add_page
from deixis.server.routes import Desk, NoSuchPhotoError, api_routes
from deixis.server.work import Workers


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
    add_page(app, "index.html")
    add_errors(app)

    @app.exception_handler(NoSuchPhotoError)
    async def no_such_photo(_: Request, error: NoSuchPhotoError) -> Response:
        return refusal(404, "there is no such photo")

    app.add_middleware(Guard, door=door or Door(upload_bytes=limits.upload_bytes))
    return app
