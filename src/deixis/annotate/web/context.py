"""Context of the routes of the workbench: the project, its photos, the queue of transactions, and the users.

Routes take what they need as parameters: `Context`, the user with the role that they require (`User`, `Reviewer`,
`Owner`), and `Address` where attempts are limited.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import wraps
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

from fastapi import Depends
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from deixis.annotate.people import SESSION_SECONDS, Role, Session, Worker, end_session, find_session
from deixis.annotate.progress import read_pace, read_progress
from deixis.annotate.project import Project, read_secret
from deixis.annotate.queue import LeasedQuestion
from deixis.annotate.store import AFTER_COMMIT, Database, translate_error
from deixis.annotate.web.photos import PhotoLibrary, describe_photo, describe_question
from deixis.annotate.web.schemas import Dashboard, PhotoInfo
from deixis.storage.remote import split_url
from deixis.web.executor import BoundedExecutor, BusyError
from deixis.web.rates import LoginDelays, RateLimiter
from deixis.web.responses import Error

if TYPE_CHECKING:
    from deixis.annotate.web.oidc import Provider

T = TypeVar("T")
Parameters = ParamSpec("Parameters")
_MAX_WAITING = 2000
_MAX_BATCH = 100
_THREADS = 8
_TOLERANCE_S = 2.0
_RECENT_ANSWERS = 100
_MAX_ENTRIES = 10_000
_CACHE_S = 10.0


@dataclass
class _PendingWork:
    """Work for a transaction that several share, each behind a savepoint of its own."""

    work: Callable[[Connection], Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None

    def execute(self, connection: Connection) -> None:
        """Do the work. If it fails, only its own changes are rolled back."""
        after_commit = connection.info[AFTER_COMMIT]
        waiting = len(after_commit)
        connection.exec_driver_sql("SAVEPOINT work")
        try:
            self.result = self.work(connection)
        except DBAPIError as error:
            self.error = translate_error(error)
        except Exception as error:
            self.error = error
        if self.error is not None:
            connection.exec_driver_sql("ROLLBACK TO work")
            del after_commit[waiting:]
        connection.exec_driver_sql("RELEASE work")

    def finish(self, failure: BaseException | None) -> None:
        """Finish after the commit, or after the failure of the whole transaction."""
        self.error = self.error or failure
        if self.future.done():  # the client has disconnected
            return
        if self.error is not None:
            self.future.set_exception(self.error)
            self.future.exception()  # retrieved, so that asyncio does not warn if the client has disconnected
        else:
            self.future.set_result(self.result)


class TransactionQueue:
    """Runs transactions for the event loop. A request is answered after its changes are on the disk.

    On SQLite, the work runs on the event loop, about a millisecond at a time, because a computing thread would compete
    with the loop for the interpreter; only waiting for the lock and for the disk happens in a thread. On PostgreSQL,
    each transaction runs in a thread.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[_PendingWork] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._disk: ThreadPoolExecutor | None = None
        self._threads = BoundedExecutor("writing", _THREADS, _MAX_WAITING)

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Do what `deixis.annotate.store.Database.run` does, for the event loop."""
        if not self._database.is_sqlite:
            return await self._threads.run(self._database.run, work)
        if len(self._waiting) >= _MAX_WAITING:
            raise BusyError
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append(_PendingWork(work, future))
        if self._disk is None:
            self._disk = ThreadPoolExecutor(1, thread_name_prefix="deixis-disk")
        if self._writing is None:
            self._writing = loop.create_task(self._write())
        return await asyncio.shield(future)

    async def close(self) -> None:
        """Finish waiting work and end the threads; a later call of `run` starts new ones."""
        if self._writing is not None:
            await self._writing
        if self._disk is not None:
            self._disk.shutdown()
            self._disk = None
        self._threads.close()

    async def _write(self) -> None:
        while self._waiting:
            batch: list[_PendingWork] = []
            failure: BaseException | None = None
            try:
                await self._write_batch(batch)
            except Exception as error:
                failure = error
                if not batch:  # the transaction could not begin
                    batch += self._waiting
                    self._waiting.clear()
            for pending in batch:
                pending.finish(failure)
        self._writing = None

    async def _write_batch(self, batch: list[_PendingWork]) -> None:
        """Do all waiting work, and work that arrives meanwhile, in one transaction."""
        loop = asyncio.get_running_loop()
        writing = self._database.writing()
        connection = await loop.run_in_executor(self._disk, writing.__enter__)
        try:
            while self._waiting and len(batch) < _MAX_BATCH:
                batch.append(self._waiting.popleft())
                batch[-1].execute(connection)
                await asyncio.sleep(0)  # let the loop handle other requests
        finally:
            await loop.run_in_executor(self._disk, writing.__exit__, *sys.exc_info())


@dataclass(frozen=True)
class Limits:
    """Rate limits: questions and answers of a user, and attempts to enter (passwords, invitations) of one address."""

    answers_per_second: float = 5.0
    answers_at_once: float = 40.0
    attempts_per_minute: float = 60.0
    attempts_at_once: float = 80.0


class WorkTime:
    """Bounds the seconds that pages claim by the clock of the server.

    In the time from the lease of a question to its answer, the seconds of all answers of a worker count at most once:
    pages fetch questions ahead, and send answers late after the connection was lost.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._recent: OrderedDict[str, deque[tuple[float, float]]] = OrderedDict()

    def bound(self, worker: str) -> Callable[[float, float], float]:
        """Return a function of the time of a lease and the claimed seconds."""

        def bounded(leased_at: float, seconds: float) -> float:
            counted = sum(each for at, each in self._recent.get(worker, ()) if at >= leased_at)
            left = self._clock() - leased_at - counted + _TOLERANCE_S
            return min(seconds, max(left, 0.0))

        return bounded

    def add(self, worker: str, seconds: float) -> None:
        """Remember the seconds of an answer that was recorded."""
        answers = self._recent.pop(worker, deque(maxlen=_RECENT_ANSWERS))
        answers.append((self._clock(), seconds))
        self._recent[worker] = answers
        while len(self._recent) > _MAX_ENTRIES:
            self._recent.popitem(last=False)


class DashboardCache:
    """Computes the dashboard at most once in ten seconds."""

    def __init__(self, project: Project) -> None:
        self._project, self._lock = project, Lock()
        self._cached: Dashboard | None = None
        self._read_at = 0.0

    def read(self) -> Dashboard:
        with self._lock:
            if self._cached is None or time.monotonic() - self._read_at > _CACHE_S:
                progress = read_progress(self._project)
                found = {each.name: getattr(progress, each.name) for each in fields(progress)}
                self._cached = Dashboard(**found, pace=read_pace(self._project))
                self._read_at = time.monotonic()
            return self._cached


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """A worker who is logged in, and the session token of the request."""

    session: Session
    token: str
    by_cookie: bool

    @property
    def worker(self) -> Worker:
        return self.session.worker

    @property
    def id(self) -> str:
        return self.session.worker.id


class Authentication:
    """Finds the user of a request. Not thread-safe: for the event loop only.

    Browsers send the cookie with requests of our own pages only (SameSite), and `deixis.web.security` refuses requests
    of other sites by Sec-Fetch-Site or Origin, so forms carry no CSRF token.
    """

    def __init__(self, project: Project, readers: BoundedExecutor, cookie: str, secure: bool) -> None:
        self._project, self._readers = project, readers
        self._cookie, self._secure = cookie, secure
        self._sessions: OrderedDict[str, tuple[Session, float]] = OrderedDict()

    async def find_user(self, request: Request) -> AuthenticatedUser | None:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        by_cookie = scheme.casefold() != "bearer"
        token = request.cookies.get(self._cookie, "") if by_cookie else bearer.strip()
        if not token or len(token) > 100:
            return None
        session, read_at = self._sessions.get(token, (None, 0.0))
        if session is None or time.monotonic() - read_at > _CACHE_S or session.until <= self._project.clock():
            session = await self._readers.run(find_session, self._project, token)
            self._sessions.pop(token, None)
            if session is None:
                return None
            self._sessions[token] = (session, time.monotonic())
            while len(self._sessions) > _MAX_ENTRIES:
                self._sessions.popitem(last=False)
        return AuthenticatedUser(session, token, by_cookie)

    def set_cookie(self, response: Response, token: str) -> None:
        response.set_cookie(
            self._cookie, token, max_age=int(SESSION_SECONDS), httponly=True, samesite="strict", secure=self._secure
        )

    async def log_out(self, response: Response, user: AuthenticatedUser) -> None:
        self._sessions.pop(user.token, None)
        await self._readers.run(end_session, self._project, user.token)
        response.delete_cookie(self._cookie, httponly=True, samesite="strict", secure=self._secure)

    def clear_cache(self) -> None:
        """Read all sessions again, because the rights of a user have changed."""
        self._sessions.clear()


class AppContext:
    """Shared state of the routes.

    `link` is the address of the page, with which invitations start; `secure` says whether browsers use HTTPS. The sites
    of `workforce_hosts` may show the page of an external workforce. `provider` is that of sign-in by OpenID Connect.
    """

    def __init__(
        self,
        project: Project,
        link: str,
        limits: Limits,
        *,
        secure: bool = False,
        workforce_hosts: tuple[str, ...] = (),
        provider: Provider | None = None,
    ) -> None:
        self.project, self.link, self.provider = project, link, provider
        self.base = split_url(link).path.rstrip("/")  # of one of several projects of the server
        self.siblings: list[AppContext] = [self]  # all projects of the server
        self.workforce_hosts = workforce_hosts
        self.name = project.folder.absolute().name
        self.secret = read_secret(project)
        self.transactions = TransactionQueue(project.database)
        self.library = PhotoLibrary(project, self.secret, self.base)
        self.work_time = WorkTime(project.clock)
        self.dashboard = DashboardCache(project)
        self.answers = RateLimiter(limits.answers_per_second, limits.answers_at_once)
        self.attempts = RateLimiter(limits.attempts_per_minute / 60, limits.attempts_at_once)
        self.delays = LoginDelays()
        self.readers = BoundedExecutor("reading", 4, 400)
        # A disk that does not answer must not stop the questions.
        self.pictures = BoundedExecutor("pictures", 4, 400, 2.0)
        # Password hashes are slow by design.
        self.password_workers = BoundedExecutor("passwords", 1, 300)
        # Requests to the provider of sign-in must not hold up others; exports run one at a time, beside the questions.
        self.sign_ins = BoundedExecutor("oidc", 4, 100)
        self.exports = BoundedExecutor("exports", 1, 4)
        self.authentication = Authentication(project, self.readers, cookie_name(project), secure)

    async def describe_question(
        self, question: LeasedQuestion | None, user: AuthenticatedUser
    ) -> dict[str, Any] | None:
        """Return a question as the page shows it."""
        if question is None:
            return None
        view = self.library.cached_view(question.photo)
        if view is None:
            view = await self.readers.run(self.library.read_view, question.photo)
        key = None if user.by_cookie else self.library.make_key(view.id)
        guideline = self.project.guideline_versions.get(question.task, 0)
        return describe_question(question, view, self.project.settings, key, guideline)

    def describe_photo(self, photo: str) -> PhotoInfo:
        return PhotoInfo(**describe_photo(self.library.read_view(photo)))

    def join_link(self, token: str) -> str:
        """Return the link of an invitation; servers and logs never see the part after #."""
        return f"{self.link}#/join/{token}"

    async def close(self) -> None:
        await self.transactions.close()
        for executor in (self.readers, self.pictures, self.password_workers, self.sign_ins, self.exports):
            executor.close()


def cookie_name(project: Project) -> str:
    """Return the name of the session cookie: one per project and copy, because ports share their cookies."""
    secret = read_secret(project) + project.folder.absolute().name.encode()
    return f"deixis-{hashlib.sha256(b'cookie' + secret).hexdigest()[:12]}"


# Dependencies take the request itself, not each other: FastAPI resolves each level again, in every answer.


async def context_of(request: Request) -> AppContext:
    context: AppContext = request.app.state.context
    return context


async def limit_address(request: Request) -> str:
    """Limit the attempts of an address, and return it."""
    address = request.client.host if request.client else ""
    (await context_of(request)).attempts.check(address)
    return address


async def require_user(request: Request) -> AuthenticatedUser:
    user = await (await context_of(request)).authentication.find_user(request)
    if user is None:
        raise HTTPException(401, "you are not logged in")
    return user


async def _limit_user(request: Request) -> AuthenticatedUser:
    user = await require_user(request)
    (await context_of(request)).answers.check(user.id)
    return user


async def _require_person(request: Request) -> AuthenticatedUser:
    """Refuse API tokens: a stolen one must not make others, or outlive its own end."""
    user = await require_user(request)
    if not user.by_cookie:
        raise HTTPException(403, "log in with a browser to manage API tokens")
    return user


async def _require_reviewer(request: Request) -> AuthenticatedUser:
    user = await require_user(request)
    if not user.worker.can_review:
        raise HTTPException(403, "only reviewers and owners can do this")
    return user


async def _require_owner(request: Request) -> AuthenticatedUser:
    user = await require_user(request)
    if user.worker.role is not Role.OWNER:
        raise HTTPException(403, "only owners can do this")
    return user


Context = Annotated[AppContext, Depends(context_of)]
Address = Annotated[str, Depends(limit_address)]
User = Annotated[AuthenticatedUser, Depends(require_user)]
LimitedUser = Annotated[AuthenticatedUser, Depends(_limit_user)]
PersonWithBrowser = Annotated[AuthenticatedUser, Depends(_require_person)]
Reviewer = Annotated[AuthenticatedUser, Depends(_require_reviewer)]
Owner = Annotated[AuthenticatedUser, Depends(_require_owner)]


def in_thread(route: Callable[Parameters, T]) -> Callable[Parameters, Coroutine[Any, Any, T]]:
    """Let a route with the parameter `context` run in a thread for readers of the database."""

    @wraps(route)
    async def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> T:
        context: Any = kwargs["context"]
        found: T = await context.readers.run(route, *args, **kwargs)
        return found

    run.__signature__ = inspect.signature(route, eval_str=True)  # type: ignore[attr-defined]
    return run


def errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Describe error responses for OpenAPI."""
    return {code: {"model": Error} for code in codes}
