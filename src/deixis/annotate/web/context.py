"""Context of the routes of the workbench: the project, its photos, users and the queue of transactions."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from deixis.annotate.project import Project
from deixis.annotate.queue import LeasedQuestion
from deixis.annotate.store import Database, translate_error
from deixis.annotate.web.authentication import AuthenticatedUser, Authentication
from deixis.annotate.web.photos import PhotoLibrary, describe_photo, describe_question
from deixis.annotate.web.schemas import PhotoInfo
from deixis.web.executor import BoundedExecutor, BusyError
from deixis.web.rates import RateLimiter
from deixis.web.responses import Error

T = TypeVar("T")
_MAX_WAITING = 2000
_MAX_BATCH = 100
_THREADS = 8
_TOLERANCE_S = 2.0
_RECENT_ANSWERS = 100
_MAX_WORKERS = 10_000


@dataclass
class _PendingWork:
    """Work for a transaction that several share, each behind a savepoint of its own."""

    work: Callable[[Connection], Any]
    after_commit: Callable[[Any], None] | None
    future: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None

    def execute(self, connection: Connection) -> None:
        """Do the work. If it fails, only its own changes are rolled back."""
        connection.exec_driver_sql("SAVEPOINT work")
        try:
            self.result = self.work(connection)
        except DBAPIError as error:
            self.error = translate_error(error)
        except Exception as error:
            self.error = error
        if self.error is not None:
            connection.exec_driver_sql("ROLLBACK TO work")
        connection.exec_driver_sql("RELEASE work")

    def finish(self, failure: BaseException | None) -> None:
        """Finish after the commit, or after the failure of the whole transaction."""
        self.error = self.error or failure
        if self.error is None and self.after_commit:
            self.after_commit(self.result)
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

    async def run(self, work: Callable[[Connection], T], after_commit: Callable[[T], None] | None = None) -> T:
        """Do what `deixis.annotate.store.Database.run` does, for the event loop."""
        if not self._database.is_sqlite:
            return await self._threads.run(self._database.run, work, after_commit)
        if len(self._waiting) >= _MAX_WAITING:
            raise BusyError
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append(_PendingWork(work, after_commit, future))
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
        transaction = await loop.run_in_executor(self._disk, self._database.begin)
        complete = False
        try:
            while self._waiting and len(batch) < _MAX_BATCH:
                batch.append(self._waiting.popleft())
                batch[-1].execute(transaction.connection)
                await asyncio.sleep(0)  # let the loop handle other requests
            complete = True
        finally:
            await loop.run_in_executor(self._disk, lambda: transaction.end(commit=complete))


@dataclass(frozen=True)
class Limits:
    """Rate limits: questions and answers of a user, and attempts with a password or an invitation from one address."""

    answers_per_second: float = 5.0
    answers_at_once: float = 40.0
    attempts_per_minute: float = 60.0
    attempts_at_once: float = 80.0

    def by_address(self) -> RateLimiter:
        return RateLimiter(self.attempts_per_minute / 60, self.attempts_at_once)


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
        while len(self._recent) > _MAX_WORKERS:
            self._recent.popitem(last=False)


@dataclass(frozen=True)
class AppContext:
    """Shared state of the routes."""

    project: Project
    name: str
    transactions: TransactionQueue
    library: PhotoLibrary
    authentication: Authentication
    secret: bytes  # signs links for an external workforce
    workforce_hosts: tuple[str, ...]
    link: str  # the address of the page, with which invitations start
    limits: Limits
    readers: BoundedExecutor
    work_time: WorkTime
    oidc: str | None = None  # the provider of sign-in by OpenID Connect
    # A disk that does not answer must not stop the questions.
    pictures: BoundedExecutor = field(default_factory=lambda: BoundedExecutor("pictures", 4, 400, 2.0))
    # Password hashes are slow by design.
    password_workers: BoundedExecutor = field(default_factory=lambda: BoundedExecutor("passwords", 1, 300))

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
        return describe_question(question, view, key, self.project.guideline_versions.get(question.task, 0))

    def describe_photo(self, photo: str) -> PhotoInfo:
        return PhotoInfo(**describe_photo(self.library.read_view(photo)))

    def join_link(self, token: str) -> str:
        """Return the link of an invitation; servers and logs never see the part after #."""
        return f"{self.link}#/join/{token}"

    async def close(self) -> None:
        await self.transactions.close()
        self.readers.close()
        self.pictures.close()
        self.password_workers.close()


def errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Describe error responses for OpenAPI."""
    return {code: {"model": Error} for code in codes}
