"""The web application of the workbench, and its server."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus

from fastapi import APIRouter, FastAPI, Request
from sqlalchemy import select
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deixis import __version__
from deixis.annotate.client import is_http_address
from deixis.annotate.guidelines import keep_default_guidelines, read_guidelines
from deixis.annotate.help.order import UncertaintyOrder
from deixis.annotate.judgements import ExpiredQuestionError, UnknownQuestionError
from deixis.annotate.people import InvitationError, NameTakenError, Role, UnknownTokenError, invite, renew_invitation
from deixis.annotate.project import Project, reload_settings, requeue_suspended, write_link
from deixis.annotate.review import announce_blocked
from deixis.annotate.store import RefusedError, workers
from deixis.annotate.web import auth, lead, work
from deixis.annotate.web.context import AppContext, Limits, errors
from deixis.annotate.web.oidc import CALLBACK, OidcSettings, Provider
from deixis.annotate.web.oidc import router as oidc_routes
from deixis.annotate.web.photos import NoPictureError, UnknownPhotoError
from deixis.annotate.webhooks import read_webhooks, send_due_messages
from deixis.annotate.workforce import EXTERNAL_PAGE, Workforce, installed_workforces
from deixis.errors import DeixisError, UnavailableError
from deixis.storage.remote import split_url
from deixis.web.executor import BoundedExecutor
from deixis.web.pages import add_error_handlers, add_page, page_assets
from deixis.web.security import AccessPolicy, SecurityMiddleware, error_response
from deixis.web.server import ServerAddress, listen, open_in_browser, run_server

PORT = 7861
"""The default port; if it is taken, another one is used."""

_LOG = logging.getLogger("uvicorn.error")
_MAINTENANCE_S = 2.0
_ANNOUNCE_S = 20.0
_POLICY = "content-security-policy"
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
        return (bool(self.url) and header == split_url(self.url).netloc) or super().allows_host(header)


def make_app(
    project: Project,
    *,
    policy: WorkbenchPolicy | None = None,
    link: str = "http://127.0.0.1/",
    limits: Limits | None = None,
    workforces: Sequence[Workforce] | None = None,
    oidc: OidcSettings | None = None,
    is_guarded: bool = True,
) -> FastAPI:
    """Make the web application of a project from `deixis.annotate.project.open_for_work`.

    By default, only this machine has access. Invitations start with `link`, the address of the page. External workers
    come from `workforces`, by default all that are installed, whose sites may show one page in a frame. `oidc` is the
    provider of sign-in by OpenID Connect. `join_apps` guards the applications of several projects together.
    """
    policy = policy or WorkbenchPolicy()
    keep_default_guidelines(project)
    read_guidelines(project)  # so that questions name their versions
    provider: Provider | None = None
    if oidc is not None:
        if policy.token:
            raise DeixisError(
                "--oidc-issuer: needs --url, or an address of this machine; the page has a token otherwise"
            )
        provider = Provider(oidc, link.rstrip("/") + CALLBACK, project.clock)
    workforces = installed_workforces() if workforces is None else workforces
    workforce_hosts = tuple(host for workforce in workforces for host in workforce.HOSTS)
    context = AppContext(
        project,
        link,
        limits or Limits(),
        secure=policy.url.startswith("https:"),
        workforce_hosts=workforce_hosts,
        provider=provider,
    )

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
    app.state.context, app.state.damage = context, list[DeixisError]()
    routes = APIRouter(responses=errors(400, 403, 413, 421, 422, 500, 503))
    # Routes are tried in this order: the busiest first.
    for router in (work.router, auth.router, lead.router, *(workforce.router for workforce in workforces)):
        routes.include_router(router)
    if provider is not None:
        routes.include_router(oidc_routes)
    app.include_router(routes, prefix="/api")
    add_page(app, "annotate.html", EXTERNAL_PAGE)
    add_error_handlers(app)
    _add_workbench_error_handlers(app)
    if is_guarded:
        app.add_middleware(SecurityMiddleware, policy=policy)
        app.add_middleware(FrameMiddleware, hosts=workforce_hosts)
    return app


def join_apps(apps: Mapping[str, FastAPI], policy: WorkbenchPolicy) -> Starlette:
    """Serve several projects below their names, with one sign-in."""
    contexts: list[AppContext] = [app.state.context for app in apps.values()]
    for context in contexts:
        context.siblings = contexts
        context.delays, context.attempts = contexts[0].delays, contexts[0].attempts

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as opened:
            for app in apps.values():
                await opened.enter_async_context(app.router.lifespan_context(app))
            yield

    async def choose(request: Request) -> Response:
        """Open the first project in which somebody is logged in."""
        entered = [each for each in contexts if await each.authentication.find_user(request)]
        return RedirectResponse(f"{(entered or contexts)[0].base}/", status_code=303)

    projects = [Mount(f"/{name}", app) for name, app in apps.items()]
    joined = Starlette(routes=[Route("/", choose), Mount("/assets", page_assets()), *projects], lifespan=lifespan)
    joined.add_middleware(SecurityMiddleware, policy=policy)
    joined.add_middleware(FrameMiddleware, hosts=contexts[0].workforce_hosts)
    return joined


class FrameMiddleware:
    """ASGI middleware: lets the workforce's sites show one page in a frame and receive its form."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...]) -> None:
        self.app = app
        self._hosts = " ".join(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].endswith(EXTERNAL_PAGE):
            await self.app(scope, receive, send)
            return

        async def send_framed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                policy = headers.get(_POLICY, "")
                policy = policy.replace("frame-ancestors 'none'", f"frame-ancestors {self._hosts}")
                headers[_POLICY] = policy.replace("form-action 'self'", f"form-action {self._hosts}")
                del headers["x-frame-options"]
                headers["cross-origin-resource-policy"] = "cross-origin"
            await send(message)

        # The guard would refuse a request that comes from a frame on another site.
        kept = [(name, value) for name, value in scope["headers"] if not name.startswith(b"sec-fetch-")]
        await self.app({**scope, "headers": kept}, receive, send_framed)


async def _repeat(work: Callable[[], Awaitable[None]]) -> None:
    """Do something every two seconds. What fails is logged and tried again: without a log, nobody would notice."""
    while True:
        try:
            await work()
        except DeixisError as error:
            _LOG.error("%s", error)
        except Exception:
            _LOG.exception("work in the background failed")
        await asyncio.sleep(_MAINTENANCE_S)


async def _maintain(context: AppContext) -> None:
    """Apply edited settings, exclude suspended workers, and let the order follow the answers."""
    order = UncertaintyOrder(context.project)

    async def maintain() -> None:
        await context.readers.run(reload_settings, context.project)
        while await context.readers.run(requeue_suspended, context.project, 20):
            await asyncio.sleep(0.05)  # requests come first
        await context.readers.run(order.refresh_if_due)

    await _repeat(maintain)


async def _send_messages(context: AppContext) -> None:
    """Send the messages of webhooks in a thread of their own, so that no judgement waits for them."""
    sender, announce_at = BoundedExecutor("webhooks", 1, 1), 0.0

    async def send() -> None:
        nonlocal announce_at
        await context.readers.run(read_webhooks, context.project)
        if time.monotonic() >= announce_at:
            await context.readers.run(announce_blocked, context.project)
            announce_at = time.monotonic() + _ANNOUNCE_S
        while await sender.run(send_due_messages, context.project):
            pass

    try:
        await _repeat(send)
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


def serve_projects(
    projects: Mapping[str, Project],
    address: ServerAddress,
    *,
    url: str = "",
    oidc: OidcSettings | None = None,
    on_start: Callable[[str], None] = print,
    open_browser: bool = False,
) -> None:
    """Serve projects from `deixis.annotate.project.open_for_work`, by their names, until Ctrl-C.

    A single project is at the root of the server, several are below their names. `url` is the public address, if an
    HTTPS reverse proxy forwards requests. `on_start` is called for each project with the link of the page, or with the
    invitation of the owner, if the project has none yet.
    """
    url, is_single = check_url(url), len(projects) == 1
    # Behind HTTPS, users log in; at an open address they also need the token of the link.
    address = address if url else address.with_token()
    listening = listen(address, PORT)
    root = split_url(f"{url}/" if url else address.url(listening.getsockname()[1]))
    links = {name: root._replace(path="/" if is_single else f"/{name}/").geturl() for name in projects}
    policy = WorkbenchPolicy(address.host, address.token, url=url)
    try:
        apps = {
            name: make_app(project, policy=policy, link=links[name], oidc=oidc, is_guarded=is_single)
            for name, project in projects.items()
        }
    except DeixisError:
        listening.close()
        raise
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        start_links = []
        for name, project in projects.items():
            write_link(project, links[name])
            start_links.append(invite_owner(project, links[name]) or links[name])
            on_start(start_links[-1])
        if open_browser:
            open_in_browser(start_links[0])
        run_server(
            next(iter(apps.values())) if is_single else join_apps(apps, policy),
            listening,
            proxy_headers=bool(url),
            forwarded_allow_ips="127.0.0.1",
            timeout_keep_alive=_KEEP_ALIVE_S,
        )
    finally:
        listening.close()
    for app in apps.values():
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
    parts = split_url(url)
    if url and (not is_http_address(url) or parts.path.strip("/") or parts.query):
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
