"""The web application of the workbench, and its server."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI, Request
from sqlalchemy import select
from starlette.exceptions import HTTPException
from starlette.responses import Response

from deixis import __version__
from deixis.annotate.guidelines import keep_default_guidelines, read_guidelines
from deixis.annotate.help.order import UncertaintyOrder
from deixis.annotate.judgements import ExpiredQuestionError, UnknownQuestionError
from deixis.annotate.people import InvitationError, NameTakenError, Role, UnknownTokenError, invite, renew_invitation
from deixis.annotate.project import Project, read_secret, reload_settings, requeue_suspended, write_link
from deixis.annotate.store import workers
from deixis.annotate.transactions import RefusedError
from deixis.annotate.web.authentication import Authentication
from deixis.annotate.web.context import AppContext, Limits, TransactionQueue, WorkTime, errors
from deixis.annotate.web.export_routes import add_export_routes
from deixis.annotate.web.external_routes import WORKFORCE_HOSTS, FrameMiddleware, add_external_routes
from deixis.annotate.web.gallery_routes import add_gallery_routes
from deixis.annotate.web.oidc import OidcSettings, Provider
from deixis.annotate.web.oidc_routes import CALLBACK, add_oidc_routes
from deixis.annotate.web.owner_routes import add_owner_routes
from deixis.annotate.web.photos import NoPictureError, PhotoLibrary, UnknownPhotoError
from deixis.annotate.web.review_routes import add_review_routes
from deixis.annotate.web.session_routes import add_session_routes
from deixis.annotate.web.token_routes import add_token_routes
from deixis.annotate.web.work_routes import add_work_routes
from deixis.annotate.webhooks import read_webhooks, send_due_messages
from deixis.annotate.workforce import EXTERNAL_PAGE
from deixis.errors import DeixisError, UnavailableError
from deixis.web.address import ServerAddress, listen, open_in_browser
from deixis.web.executor import BoundedExecutor
from deixis.web.pages import add_error_handlers, add_page
from deixis.web.rates import RateLimiter
from deixis.web.security import AccessPolicy, SecurityMiddleware, error_response

PORT = 7861
"""The default port; if it is taken, another one is used."""

_LOG = logging.getLogger("uvicorn.error")
_MAINTENANCE_S = 2.0
_KEEP_ALIVE_S = 75
"""Workers need time between two answers; their connection stays open."""

_SWITCH_INTERVAL_S = 0.001
"""How long a computing thread may block the event loop: answers should not wait for pictures."""

_STATUS_CODES: dict[type[Exception], int] = {
    UnknownQuestionError: 404,
    UnknownPhotoError: 404,
    NoPictureError: 404,
    InvitationError: 404,
    UnknownTokenError: 404,
    NameTakenError: 409,
    ExpiredQuestionError: 410,
    RefusedError: 422,
}


@dataclass(frozen=True)
class WorkbenchPolicy(AccessPolicy):
    """Access rules of the workbench; `url` is its public address behind a reverse proxy."""

    url: str = ""

    def allows_host(self, header: str) -> bool:
        """Return whether a Host header names this server."""
        return (bool(self.url) and header == urlsplit(self.url).netloc) or super().allows_host(header)


def make_app(
    project: Project,
    *,
    policy: WorkbenchPolicy | None = None,
    link: str = "http://127.0.0.1/",
    limits: Limits | None = None,
    workforce_hosts: tuple[str, ...] = WORKFORCE_HOSTS,
    oidc: OidcSettings | None = None,
) -> FastAPI:
    """Make the web application of a project from `deixis.annotate.project.open_for_work`.

    By default, only this machine has access. Invitations start with `link`, the address of the page; the sites of
    `workforce_hosts` may show one page in a frame. `oidc` is the provider of sign-in by OpenID Connect.
    """
    policy = policy or WorkbenchPolicy()
    keep_default_guidelines(project)
    context = _make_context(project, policy, link, limits or Limits(), workforce_hosts)
    provider: Provider | None = None
    if oidc is not None:
        if policy.token:
            raise DeixisError(
                "--oidc-issuer: needs --url, or an address of this machine; the page has a token otherwise"
            )
        provider = Provider(oidc, link.rstrip("/") + CALLBACK, project.clock)
        context = replace(context, oidc=oidc.label)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        threading.Thread(target=_check_rows, args=(project, app.state.damage), daemon=True).start()
        background = [asyncio.create_task(_maintain(context)), asyncio.create_task(_send_messages(context))]
        yield
        for task in background:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await context.close()

    app = FastAPI(
        title="deixis annotate",
        version=__version__,
        description="The annotation workbench: questions and answers, review, people and progress.",
        openapi_url="/api/openapi.json",
        docs_url=None,  # these pages would load scripts from other sites
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.damage = list[DeixisError]()
    routes = APIRouter(responses=errors(400, 403, 413, 421, 422, 500, 503))
    # Routes are tried in this order: the busiest first.
    for add_routes in (
        add_work_routes,
        add_session_routes,
        add_review_routes,
        add_gallery_routes,
        add_owner_routes,
        add_token_routes,
        add_export_routes,
        add_external_routes,
    ):
        add_routes(routes, context)
    if provider is not None:
        add_oidc_routes(routes, context, provider)
    app.include_router(routes, prefix="/api")
    add_page(app, "annotate.html", EXTERNAL_PAGE)
    add_error_handlers(app)
    _add_workbench_error_handlers(app)
    app.add_middleware(SecurityMiddleware, policy=policy)
    app.add_middleware(FrameMiddleware, hosts=workforce_hosts)
    return app


def _make_context(
    project: Project, policy: WorkbenchPolicy, link: str, limits: Limits, workforce_hosts: tuple[str, ...]
) -> AppContext:
    secret = read_secret(project)
    read_guidelines(project)  # so that questions name their versions
    readers = BoundedExecutor("reading", 4, 400)
    limiter = RateLimiter(limits.answers_per_second, limits.answers_at_once)
    return AppContext(
        project=project,
        name=project.folder.absolute().name,
        transactions=TransactionQueue(project.database),
        library=PhotoLibrary(project, secret),
        authentication=Authentication(project, readers, cookie_name(secret), policy.url.startswith("https:"), limiter),
        secret=secret,
        workforce_hosts=workforce_hosts,
        link=link,
        limits=limits,
        readers=readers,
        work_time=WorkTime(project.clock),
    )


def cookie_name(secret: bytes) -> str:
    """Return the name of the session cookie: one per project, because cookies do not depend on the port."""
    return f"deixis-{hashlib.sha256(b'cookie' + secret).hexdigest()[:12]}"


async def _maintain(context: AppContext) -> None:
    """Every two seconds, apply edited settings, exclude suspended workers, and let the order follow the answers."""
    order = UncertaintyOrder(context.project)
    while True:
        try:
            await context.readers.run(reload_settings, context.project)
            while await context.readers.run(requeue_suspended, context.project, 20):
                await asyncio.sleep(0.05)  # requests come first
            await context.readers.run(order.refresh_if_due)
        except DeixisError as error:
            _LOG.error("%s", error)
        await asyncio.sleep(_MAINTENANCE_S)


async def _send_messages(context: AppContext) -> None:
    """Send the messages of webhooks in a thread of their own, so that no judgement waits for them."""
    sender = BoundedExecutor("webhooks", 1, 1)
    try:
        while True:
            try:
                await context.readers.run(read_webhooks, context.project)
                while await sender.run(send_due_messages, context.project):
                    pass
            except DeixisError as error:
                _LOG.error("%s", error)
            await asyncio.sleep(_MAINTENANCE_S)
    finally:
        sender.close()


def _add_workbench_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> Response:
        lines = {404: "there is no such page", 405: "this address does not support that method"}
        is_default = error.detail == HTTPStatus(error.status_code).phrase
        line = lines.get(error.status_code, error.detail) if is_default else error.detail
        return error_response(error.status_code, str(line), dict(error.headers or {}))

    async def refused(_: Request, error: Exception) -> Response:
        status = next(_STATUS_CODES[kind] for kind in type(error).__mro__ if kind in _STATUS_CODES)
        return error_response(status, str(error))

    for kind in _STATUS_CODES:
        app.add_exception_handler(kind, refused)


def serve_project(
    project: Project,
    address: ServerAddress,
    *,
    url: str = "",
    oidc: OidcSettings | None = None,
    on_start: Callable[[str], None] = print,
    open_browser: bool = False,
) -> None:
    """Serve a project from `deixis.annotate.project.open_for_work` until Ctrl-C.

    `url` is the public address, if an HTTPS reverse proxy forwards requests. `on_start` is called with the link of the
    page, or with the invitation of the owner, if the project has none yet.
    """
    from deixis.web.server import run_server

    url = check_url(url)
    # Behind HTTPS, users log in; at an open address they also need the token of the link.
    address = address if url else address.with_token()
    listening = listen(address, PORT)
    link = f"{url}/" if url else address.url(listening.getsockname()[1])
    try:
        policy = WorkbenchPolicy(address.host, address.token, url=url)
        app = make_app(project, policy=policy, link=link, oidc=oidc)
    except DeixisError:
        listening.close()
        raise
    write_link(project, link)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        start_link = invite_owner(project, link) or link
        on_start(start_link)
        if open_browser:
            open_in_browser(start_link)
        run_server(
            app,
            listening,
            proxy_headers=bool(url),
            forwarded_allow_ips="127.0.0.1",
            timeout_keep_alive=_KEEP_ALIVE_S,
        )
    finally:
        listening.close()
    if app.state.damage:
        raise app.state.damage[0]


def _check_rows(project: Project, damage: list[DeixisError]) -> None:
    """Check all rows beside the work, and end the server if any are damaged."""
    try:
        project.database.check_rows()
    except UnavailableError:  # the database is gone, which requests report
        pass
    except DeixisError as error:
        damage.append(error)
        signal.raise_signal(signal.SIGINT)


def check_url(url: str) -> str:
    """Return a public address without its final slash."""
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/") or parts.query):
        raise DeixisError(f"--url {url}: use an address such as https://dogs.example.org")
    return url.rstrip("/")


def invite_owner(project: Project, link: str) -> str | None:
    """Return an invitation for the first owner; None once an owner has joined."""
    owners = select(workers.c.id, workers.c.joined_at).where(workers.c.role == Role.OWNER.value)
    with project.database.reading() as connection:
        found = connection.execute(owners.order_by(workers.c.invited_at)).all()
    if any(row.joined_at is not None for row in found):
        return None
    if found:
        token = renew_invitation(project, found[0].id)
    else:
        _, token = invite(project, "owner", role=Role.OWNER, vouched=True)
    return f"{link}#/join/{token}"
