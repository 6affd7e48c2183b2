"""Opening a database, and the transactions on it: the same code for SQLite and PostgreSQL."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, make_url, select, update
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from deixis.annotate.store import schema
from deixis.errors import DeixisError, UnavailableError
from deixis.files.sqlite import is_damage, reason_of

_WAIT_S = 30
_EARLIER = frozenset(str(number) for number in range(1, schema.VERSION))

T = TypeVar("T")


class Piece:
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
        connection.exec_driver_sql("SAVEPOINT piece")
        try:
            self.result = self.work(connection)
        except DBAPIError as error:
            self.error = _told(error, _reason(error.orig or error))
        except Exception as error:
            self.error = error
        if self.error is not None:
            connection.exec_driver_sql("ROLLBACK TO piece")
        connection.exec_driver_sql("RELEASE piece")

    def end(self, failure: BaseException | None = None) -> None:
        """After the commit, or what came in its place."""
        self.error = self.error or failure
        if self.error is None and self.then:
            self.then(self.result)
        self.done = True


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
    '2'
    """

    def __init__(self, url: str | URL) -> None:
        try:
            self.url = _with_our_driver(make_url(url))
            self.is_sqlite = self.url.get_backend_name() == "sqlite"
            self.engine = _engine(self.url, self.is_sqlite)
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise DeixisError(f"{_without_password(url)}: cannot be used as a database ({_line(error)})") from None
        self._turn = threading.Lock() if self.is_sqlite else nullcontext()
        self._queue: deque[Piece] = deque()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction: all that is written in the block is kept, or nothing."""
        with self._turn, self.plainly(), self.engine.begin() as connection:
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
        mine = Piece(work, then)
        self._queue.append(mine)
        with self._turn:
            if not mine.done:
                self._do([self._queue.popleft() for _ in range(len(self._queue))])
        if mine.error is not None:
            raise mine.error
        return cast(T, mine.result)

    def _do(self, batch: Sequence[Piece]) -> None:
        failure: BaseException | None = None
        try:
            with self.plainly(), self.engine.begin() as connection:
                for each in batch:
                    each.do(connection, alone=len(batch) == 1)
        except BaseException as error:
            failure = error
        for each in batch:
            each.end(failure)

    def begin(self) -> Transaction:
        """A transaction in steps, for whoever must not wait inside of one: waiting is here and at its end."""
        with ExitStack() as opened:
            opened.enter_context(self._turn)
            with self.plainly():
                connection = opened.enter_context(self.engine.connect())
                connection.begin()
            return Transaction(self, connection, opened.pop_all())

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """What is read in the block is as it was at one moment, and keeps no writer waiting."""
        at_one_moment: dict[str, Any] = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with self.plainly(), self.engine.connect() as connection:
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
        """Refuse a database that is not a project's, or of a later version; an earlier one is brought up to date."""
        with self.reading() as connection:
            version = self._version(connection)
        if version is None:
            raise DeixisError(f"{self.name}: there is no annotation project in this database")
        if version in _EARLIER:
            self._bring_up_to_date()
            return
        if version != str(schema.VERSION):
            raise DeixisError(
                f"{self.name}: written for version {version} of the layout, this deixis reads {schema.VERSION}"
            )

    def _bring_up_to_date(self) -> None:
        """Later versions only have more tables."""
        with self.writing() as connection:
            schema.metadata.create_all(connection)
            is_version = schema.about.c.key == "version"
            connection.execute(update(schema.about).where(is_version).values(value=str(schema.VERSION)))

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
    def plainly(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise _told(error, f"{self.name}: {_reason(error.orig or error)}") from error
        except SQLAlchemyError as error:
            raise UnavailableError(f"{self.name}: {_line(error)}") from error


def _unwritable(url: URL) -> URL:
    """The address of a file that nobody can be changing: SQLite would want to write beside it even to read it."""
    file = Path(url.database or "")
    if not file.is_file() or os.access(file.parent, os.W_OK) or file.with_name(f"{file.name}-wal").exists():
        return url
    query = {"mode": "ro", "immutable": "1", "uri": "true"}
    return url.set(database=f"file:{quote(os.fsencode(file.absolute()))}", query=query)


@dataclass
class Transaction:
    """A transaction that has begun, with the turn to write; `end` gives both back."""

    database: Database
    connection: Connection
    opened: ExitStack

    def end(self, *, keep: bool = True) -> None:
        """Keep all that was written, or nothing."""
        with self.opened, self.database.plainly():
            if keep:
                self.connection.commit()


def _engine(url: URL, is_sqlite: bool) -> Engine:
    if not is_sqlite:
        return create_engine(url, pool_size=16, max_overflow=16, pool_pre_ping=True)
    options: dict[str, Any] = {}
    written, url = url, _unwritable(url)
    if url.database in (None, "", ":memory:"):
        from sqlalchemy.pool import StaticPool

        options = {"poolclass": StaticPool}
    engine = create_engine(
        url, connect_args={"timeout": _WAIT_S, "isolation_level": None, "check_same_thread": False}, **options
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, record: Any) -> None:
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON")[url is not written :]:
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


def _told(error: DBAPIError, line: str) -> DeixisError:
    """A line as an error: what was asked may be wrong; all else is the database's, and asking again may help."""
    return (DeixisError if isinstance(error, (DataError, IntegrityError)) else UnavailableError)(line)


def _reason(error: BaseException) -> str:
    if is_damage(error):
        return f"damaged ({_line(error)}); put a backup in its place, as deixis annotate backup makes them"
    return reason_of(error) or _line(error)


def _line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
