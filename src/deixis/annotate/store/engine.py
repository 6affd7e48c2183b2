"""Opening a database, and the transactions on it: the same code for SQLite and PostgreSQL."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar, cast

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from deixis.annotate.store import schema
from deixis.errors import DeixisError

_WAIT_S = 30

T = TypeVar("T")


class _Work:
    """A piece of work on its way through `Database.run`."""

    def __init__(self, work: Callable[[Connection], Any], then: Callable[[Any], None] | None) -> None:
        self.work, self.then = work, then
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False

    def do(self, connection: Connection, *, alone: bool) -> None:
        """Do it, or leave no trace of it: alone the whole transaction fails, among others only this part of it."""
        if alone:
            self.result = self.work(connection)
            return
        try:
            with connection.begin_nested():
                self.result = self.work(connection)
        except DBAPIError as error:
            self.error = DeixisError(_line(error.orig or error))
        except Exception as error:
            self.error = error


class Database:
    """A database that is open.

    SQLite takes one writer at a time. Threads of this process wait for each other at a lock of ours, in the order in
    which they come; only another process makes SQLite itself wait. PostgreSQL locks rows.

    Examples
    --------
    >>> database = Database("sqlite://")
    >>> database.make()
    >>> with database.reading() as connection:
    ...     connection.execute(select(schema.about.c.value).where(schema.about.c.key == "version")).scalar()
    '1'
    """

    def __init__(self, url: str | URL) -> None:
        try:
            self.url = _with_our_driver(make_url(url))
            self.is_sqlite = self.url.get_backend_name() == "sqlite"
            self.engine = _engine(self.url, self.is_sqlite)
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise DeixisError(f"{_without_password(url)}: cannot be used as a database ({_line(error)})") from None
        self._turn = threading.Lock() if self.is_sqlite else nullcontext()
        self._queue: deque[_Work] = deque()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction: all that is written in the block is kept, or nothing."""
        with self._turn, self._plainly(), self.engine.begin() as connection:
            yield connection

    def run(self, work: Callable[[Connection], T], then: Callable[[T], None] | None = None) -> T:
        """Do `work` in a transaction; on SQLite, together with whatever other threads have brought meanwhile.

        One write to the disk then keeps the work of all of them: whoever gets the turn does all that waits, each piece
        whole or not at all, and commits once. Nobody returns before what they did is committed.

        Parameters
        ----------
        work
            Reads and writes; must not keep anything in memory that a failed commit would make untrue.
        then
            Told what `work` returned, once it is committed, before anybody's next piece of work.
        """
        if not self.is_sqlite:
            with self.writing() as connection:
                result = work(connection)
            if then:
                then(result)
            return result
        mine = _Work(work, then)
        self._queue.append(mine)
        with self._turn:
            if not mine.done:
                self._do_all_that_waits()
        if mine.error is not None:
            raise mine.error
        return cast(T, mine.result)

    def _do_all_that_waits(self) -> None:
        batch = [self._queue.popleft() for _ in range(len(self._queue))]
        try:
            with self._plainly(), self.engine.begin() as connection:
                for each in batch:
                    each.do(connection, alone=len(batch) == 1)
        except BaseException as error:
            for each in batch:
                each.error = each.error or error
        for each in batch:
            if each.error is None and each.then:
                each.then(each.result)
            each.done = True

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """What is read in the block is as it was at one moment, and keeps no writer waiting."""
        at_one_moment: dict[str, Any] = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with self._plainly(), self.engine.connect() as connection:
            connection = connection.execution_options(reads=True, **at_one_moment)
            with connection.begin():
                yield connection

    def make(self) -> None:
        """Make the tables; refuses a database that has them."""
        with self.writing() as connection:
            if self._version(connection) is not None:
                raise DeixisError(f"{self.name}: there is a project in this database already")
            schema.metadata.create_all(connection)
            said = {"format": schema.FORMAT, "version": str(schema.VERSION)}
            connection.execute(insert(schema.about), [{"key": key, "value": value} for key, value in said.items()])

    def check(self) -> None:
        """Refuse a database that is not a project's, or of another version."""
        with self.reading() as connection:
            version = self._version(connection)
        if version is None:
            raise DeixisError(f"{self.name}: there is no annotation project in this database")
        if version != str(schema.VERSION):
            raise DeixisError(
                f"{self.name}: written for version {version} of the layout, this deixis reads {schema.VERSION}"
            )

    @property
    def name(self) -> str:
        """For people: the file, or the address without its password."""
        return (self.url.database or "memory") if self.is_sqlite else _without_password(self.url)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def _version(self, connection: Connection) -> str | None:
        if not self.engine.dialect.has_table(connection, "about"):
            return None
        said = dict(connection.execute(select(schema.about.c.key, schema.about.c.value)).all())
        return said.get("version") if said.get("format") == schema.FORMAT else None

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise DeixisError(f"{self.name}: {_line(error.orig or error)}") from error
        except SQLAlchemyError as error:
            raise DeixisError(f"{self.name}: {_line(error)}") from error


def _engine(url: URL, is_sqlite: bool) -> Engine:
    if not is_sqlite:
        return create_engine(url, pool_size=16, max_overflow=16, pool_pre_ping=True)
    options: dict[str, Any] = {}
    if url.database in (None, "", ":memory:"):
        from sqlalchemy.pool import StaticPool

        options["poolclass"] = StaticPool
    engine = create_engine(
        url, connect_args={"timeout": _WAIT_S, "isolation_level": None, "check_same_thread": False}, **options
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, record: Any) -> None:
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # Asking for the write lock at once: a reader that turns writer can be refused, one that waits cannot.
        reads = connection.get_execution_options().get("reads")
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _with_our_driver(url: URL) -> URL:
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgres", "postgresql") else url


def _without_password(url: str | URL) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return str(url)


def _line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
