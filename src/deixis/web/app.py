"""The ASGI application and its server."""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from socket import socket

from fastapi import FastAPI, Request
from starlette.responses import Response

from deixis import __version__
from deixis.runtime.devices import return_large_blocks
from deixis.search.collection import PhotoCollection
from deixis.storage.remote import is_loopback
from deixis.web.inference import InferenceService
from deixis.web.pages import add_error_handlers, add_page
from deixis.web.routes import MODEL_PATHS, PhotoNotFoundError, RouteContext, router
from deixis.web.security import AccessPolicy, SecurityMiddleware, ServerLimits, error_response
from deixis.web.server import ServerAddress, open_in_browser, run_server

_SWITCH_INTERVAL_S = 0.0002
"""How long a computing thread may block the event loop: refusals should not wait for searches."""


def make_app(
    photos: PhotoCollection,
    *,
    inference: InferenceService | None = None,
    policy: AccessPolicy | None = None,
    limits: ServerLimits | None = None,
) -> FastAPI:
    """Return the web app and the HTTP API for an index of photos; by default, only this machine has access."""
    limits = limits or ServerLimits()
    inference = inference or InferenceService(limits.cached_photos, photos.encoder.region_model)
    policy = policy or AccessPolicy(upload_bytes=limits.upload_bytes)
    context = RouteContext(photos, inference, limits, is_loopback(policy.host))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        context.close()

    app = FastAPI(
        title="deixis",
        version=__version__,
        description="Search, ground, caption and describe photos.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # these pages would load scripts from other sites
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.context = context
    app.include_router(router, prefix="/api")
    add_page(app, "index.html")
    add_error_handlers(app)

    @app.exception_handler(PhotoNotFoundError)
    async def photo_not_found(_: Request, error: PhotoNotFoundError) -> Response:
        return error_response(404, "photo not found")

    app.add_middleware(SecurityMiddleware, policy=policy, is_busy=context.is_busy, upload_paths=MODEL_PATHS)
    return app


def serve(
    photos: PhotoCollection,
    address: ServerAddress,
    listening: socket,
    *,
    inference: InferenceService | None = None,
    on_ready: Callable[[str], None] = print,
    open_browser: bool = False,
    needs_token: bool = True,
) -> None:
    """Serve the web app on a socket of `listen` until Ctrl-C; `on_ready` is called with the URL once it works.

    Without `needs_token`, all users of this machine have access; other machines always need the token.
    """
    return_large_blocks()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    limits, address = ServerLimits(), address.with_token(on_loopback=needs_token)
    inference = inference or InferenceService(limits.cached_photos, photos.encoder.region_model)
    ticket = secrets.token_urlsafe(24) if open_browser and address.token else ""
    policy = AccessPolicy(address.host, address.token, limits.upload_bytes, ticket=ticket)
    app = make_app(photos, inference=inference, limits=limits, policy=policy)
    port = listening.getsockname()[1]
    try:
        on_ready(address.url(port))
        # Not a daemon thread: one that is stopped while it loads a model crashes the process.
        threading.Thread(target=inference.warm_up).start()
        if open_browser:
            open_in_browser(replace(address, token=ticket).url(port))
        run_server(app, listening, proxy_headers=False)
    finally:
        inference.close()
        listening.close()
