"""The tables of a project and its database: transactions with the same code on SQLite and PostgreSQL.

Statements that run for every judgement are built once, beside the functions that execute them. Names of their
parameters start with ``p_``, because SQLAlchemy reserves column names.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from deixis.errors import DeixisError, UnavailableError
from deixis.storage.checksums import (
    find_damaged_rows,
    is_protected,
    protect_tables,
    refuse_foreign_code,
    register_checks,
)
from deixis.storage.commit_record import RECORD_ENDING, count_commit, find_lost_commits, start_counting, write_record
from deixis.storage.remote import is_loopback
from deixis.storage.sql import (
    BEGIN_WRITE,
    SQLITE_PRAGMAS,
    explain_failed_read,
    explain_sql_error,
    find_corruption,
    first_line,
    hide_password,
    is_corruption,
    is_immutable,
    sqlite_uri,
)

SCHEMA_VERSION = 5
"""Raised with every change of the tables; `tests/annotate/test_upgrade.py` has their fingerprint and older projects."""

FORMAT = "deixis-annotate"

metadata = MetaData()

# SQLite autoincrements only plain INTEGER columns; PostgreSQL needs 64 bits.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")


def _running_number() -> Column[int]:
    return Column("number", _NUMBER, primary_key=True, autoincrement=True)


properties = Table("about", metadata, Column("key", String, primary_key=True), Column("value", Text, nullable=False))

photos = Table(
    "photos",
    metadata,
    Column("id", String, primary_key=True),
    Column("place", Integer, nullable=False, unique=True),
    Column("known", Boolean, nullable=False),  # a source of known questions; not annotated
    Column("material", JSON, nullable=False),
    Column("last_event", _NUMBER, nullable=False),
    Column("chains", Integer, nullable=False),
    Column("waiting", Integer, nullable=False),  # number of open reviews
    Column("finished", Boolean, nullable=False),
)

workers = Table(
    "workers",
    metadata,
    Column("id", String, primary_key=True),
    Column("name", Text),  # personal data, which `forget_worker` deletes
    Column("invitation", String, unique=True),  # hash of the token in the link
    Column("password", Text),
    Column("role", String, nullable=False),
    Column("invited_at", Float, nullable=False),
    Column("joined_at", Float),
    Column("vouched", Boolean, nullable=False),
    Column("history_items", Integer, nullable=False),
    Column("history_accuracy", Float, nullable=False),
    Column("forgotten", Boolean, nullable=False),
    Column("suspended_at", Float),  # by an owner; null for others
    Column("subject", String),  # issuer and subject of a sign-in by OpenID Connect
    Column("seen_at", Float),  # when they last asked for a question, to the minute
)

events = Table(
    "events",
    metadata,
    _running_number(),
    Column("key", String, nullable=False, unique=True),  # makes repeated requests idempotent
    Column("photo", String, ForeignKey("photos.id"), nullable=False),
    Column("worker", String, ForeignKey("workers.id"), nullable=False),
    Column("at", Float, nullable=False),
    Column("kind", String, nullable=False),
    Column("task", String),
    Column("seconds", Float, nullable=False),
    Column("known", _NUMBER),  # number of the known question; such events change no state
    Column("body", JSON, nullable=False),
    Index("events_of_photo", "photo", "number"),
    Index("events_of_worker", "worker", "task"),
    sqlite_autoincrement=True,
)

remarks = Table(  # texts of workers; separate because they can be deleted and events cannot
    "remarks",
    metadata,
    Column("event", _NUMBER, ForeignKey("events.number"), primary_key=True),
    Column("worker", String, nullable=False),
    Column("text", Text, nullable=False),
    Column("seen", Boolean, nullable=False),
)

questions = Table(
    "questions",
    metadata,
    _running_number(),
    Column("photo", String, ForeignKey("photos.id"), nullable=False),
    Column("place", Integer, nullable=False),
    Column("task", String, nullable=False),
    Column("subject", Text, nullable=False),
    Column("asked", JSON, nullable=False),
    Column("leased_until", Float, nullable=False),
    UniqueConstraint("photo", "task", "subject"),
    Index("questions_in_order", "place", "number"),
    sqlite_autoincrement=True,
)

barred = Table(
    "barred",
    metadata,
    Column("question", _NUMBER, ForeignKey("questions.number", ondelete="CASCADE"), primary_key=True),
    Column("worker", String, primary_key=True),
)

assigned = Table(  # photos that only these people are asked about
    "assigned",
    metadata,
    Column("photo", String, ForeignKey("photos.id"), primary_key=True),
    Column("worker", String, ForeignKey("workers.id"), primary_key=True),
    Index("assigned_to_worker", "worker"),
)

known_questions = Table(
    "known",
    metadata,
    _running_number(),
    Column("photo", String, ForeignKey("photos.id"), nullable=False),
    Column("task", String, nullable=False),
    Column("subject", Text, nullable=False),
    Column("asked", JSON, nullable=False),
    Column("answer", String, nullable=False),
    Column("boxes", JSON, nullable=False),  # for drawn and adjusted boxes: the correct ones
    Column("reviewed", Boolean, nullable=False),  # made from a reviewer's decision
    Column("lesson", JSON(none_as_null=True)),  # feedback after a test question; null in older projects
    UniqueConstraint("photo", "task", "subject"),
    Index("known_of_task", "task"),
)

leases = Table(
    "leases",
    metadata,
    Column("token", String, primary_key=True),
    Column("worker", String, ForeignKey("workers.id"), nullable=False),
    Column("question", _NUMBER),
    Column("known", _NUMBER),
    Column("purpose", String, nullable=False),
    Column("task", String, nullable=False),
    Column("photo", String, nullable=False),
    Column("subject", Text, nullable=False),
    Column("asked", JSON, nullable=False),
    Column("until", Float, nullable=False),
    Column("state", String, nullable=False),
    Index("leases_of_worker", "worker", "state"),
    Index("leases_by_time", "worker", "until"),
    Index(
        "one_holder",
        "question",
        unique=True,
        sqlite_where=text("state = 'open'"),
        postgresql_where=text("state = 'open'"),
    ),
)

checks = Table(
    "checks",
    metadata,
    _running_number(),
    Column("worker", String, ForeignKey("workers.id"), nullable=False),
    Column("task", String, nullable=False),
    Column("purpose", String, nullable=False),
    Column("known", _NUMBER),
    Column("event", _NUMBER, unique=True),
    Column("right", Boolean),  # null: not judged yet, or skipped
    Index("checks_of_worker", "worker", "task"),
)

qualifications = Table(
    "standings",
    metadata,
    Column("worker", String, ForeignKey("workers.id"), primary_key=True),
    Column("task", String, primary_key=True),
    Column("level", String, nullable=False),
    Column("after", _NUMBER, nullable=False),  # number of the last check before a reinstatement
)

requeue = Table(
    "requeue",
    metadata,
    Column("worker", String, primary_key=True),
    Column("task", String, primary_key=True),
    Column("photo", String, primary_key=True),
)

sessions = Table(
    "sessions",
    metadata,
    Column("hash", String, primary_key=True),  # hash of the session token
    Column("worker", String, ForeignKey("workers.id"), nullable=False),
    Column("until", Float, nullable=False),
    Column("assignment", String),  # for workers of an external workforce
    Index("sessions_of_worker", "worker"),
)

assignments = Table(  # assignments of an external workforce
    "assignments",
    metadata,
    Column("id", String, primary_key=True),
    Column("hit", String, nullable=False),
    Column("worker", String, ForeignKey("workers.id"), nullable=False),
    Column("items", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("begun_at", Float, nullable=False),
    Column("submit_to", Text, nullable=False),
    Column("state", String, nullable=False),
)

api_tokens = Table(  # for programs, with the rights of a worker
    "api_tokens",
    metadata,
    Column("id", String, primary_key=True),
    Column("hash", String, nullable=False, unique=True),
    Column("worker", String, ForeignKey("workers.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("until", Float, nullable=False),
    Index("tokens_of_worker", "worker"),
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", String, primary_key=True),
    Column("url", Text, nullable=False),
    Column("secret", String, nullable=False),  # signs the messages
    Column("kinds", JSON, nullable=False),
    Column("created_at", Float, nullable=False),
)

messages = Table(  # messages of webhooks that were not delivered yet
    "messages",
    metadata,
    _running_number(),
    Column("webhook", String, ForeignKey("webhooks.id", ondelete="CASCADE"), nullable=False),
    Column("body", JSON, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("error", Text),
    Column("failed", Boolean, nullable=False),  # given up
    Index("messages_due", "webhook", "failed", "due_at"),
    sqlite_autoincrement=True,
)


PROTECTED_TABLES = tuple(
    table.name
    for table in (
        properties,
        photos,
        workers,
        events,
        remarks,
        known_questions,
        checks,
        qualifications,
        assignments,
        assigned,
    )
)
"""Tables whose rows have checksums in SQLite. The others are derived from these, or short-lived."""


_LOCK_TIMEOUT_S = 30
RECORD_AFTER_S = 0.3
"""What a killed process has committed in this time is not expected by anybody."""

AFTER_COMMIT = "after commit"
"""Key in `info` of a connection: the functions to call once its transaction is committed, such as to change a cache."""

_RESTORE = "restore a backup made by deixis annotate backup"
_OLDER_VERSIONS = frozenset(str(number) for number in range(1, SCHEMA_VERSION))

T = TypeVar("T")


class RefusedError(DeixisError):
    """A request that is not allowed; its transaction is rolled back."""


class Database:
    """An open database. On SQLite, which has one writer, threads wait for a lock of this process."""

    def __init__(self, url: str | URL) -> None:
        try:
            self.url = make_url(url)
            if self.url.drivername in ("postgres", "postgresql"):
                self.url = self.url.set(drivername="postgresql+psycopg")
            self.is_sqlite = self.url.get_backend_name() == "sqlite"
            self.engine = _make_engine(self.url, self.is_sqlite)
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            shown = re.sub(r":(?!//).*@", "@", _display_url(url), flags=re.DOTALL)  # anything may be a password
            raise DeixisError(f"{shown}: not a usable database address ({first_line(error)})") from None
        event.listen(self.engine, "begin", lambda connection: connection.info.update({AFTER_COMMIT: []}))
        self._write_lock = threading.Lock() if self.is_sqlite else nullcontext()
        self._record_lock = threading.Lock()
        self._expected: dict[str, Any] | None = None
        self._timer: threading.Timer | None = None

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Run the block in one transaction, rolled back if it raises; threads may share its start, block and end."""
        with self._write_lock:
            with self.translated_errors(), self.engine.begin() as connection:
                yield connection
                expected, after = self._count_commit(connection), connection.info[AFTER_COMMIT]
            for work in after:  # on SQLite before any other transaction
                work()
            self._record_commit(expected)

    def run(self, work: Callable[[Connection], T]) -> T:
        """Do `work` in a transaction and return its result after the commit."""
        with self.writing() as connection:
            return work(connection)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read one consistent state in the block, without blocking writers."""
        isolation: dict[str, Any] = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with self.translated_errors(), self.engine.connect() as connection:
            connection = connection.execution_options(reads=True, **isolation)
            with connection.begin():
                yield connection

    def create_tables(self) -> None:
        with self.writing() as connection:
            if self._read_version(connection) is not None:
                raise DeixisError(f"{self.name}: the database already holds a project")
            metadata.create_all(connection)
            write_property(connection, "format", FORMAT)
            self._protect(connection)
            write_property(connection, "version", str(SCHEMA_VERSION))

    def continue_numbers(self, connection: Connection, table: Table) -> None:
        """Let PostgreSQL number the next row after those that were copied."""
        if not self.is_sqlite and "number" in table.primary_key.columns:
            newest = select(func.max(table.c.number)).scalar_subquery()
            sequence = func.pg_get_serial_sequence(table.name, "number")
            connection.execute(select(func.setval(sequence, func.coalesce(newest, 1), newest.is_not(None))))

    def _protect(self, connection: Connection) -> None:
        if self.is_sqlite:
            protect_tables(_driver(connection), PROTECTED_TABLES)

    def _count_commit(self, connection: Connection) -> dict[str, Any] | None:
        """Count a transaction that has changed something, before its commit."""
        if not self.is_sqlite or _driver(connection).total_changes == connection.info["changes"]:
            return None
        return count_commit(_driver(connection))

    def _record_commit(self, expected: dict[str, Any] | None) -> None:
        """Write what is expected after a commit, soon: to replace a file costs more than the commit of a judgement."""
        if expected is None or self.url.database in (None, "", ":memory:"):
            return
        with self._record_lock:
            self._expected = expected
            if self._timer is None:
                self._timer = threading.Timer(RECORD_AFTER_S, self._write_record)
                self._timer.daemon = True
                self._timer.start()

    def _write_record(self) -> None:
        with self._record_lock:
            write_record(Path(self.url.database or ""), self._expected)
            self._expected = self._timer = None

    def check_commits(self) -> None:
        """Refuse a database that has lost its last commits, or into which others have put code."""
        file = Path(self.url.database or "")
        if not self.is_sqlite or not file.is_file():
            return
        with self.translated_errors(), self.engine.connect() as connection:
            raw = _driver(connection)
            refuse_foreign_code(raw, PROTECTED_TABLES)
            if is_protected(raw) and (lost := find_lost_commits(file, raw)):
                record = file.name + RECORD_ENDING
                raise DeixisError(f"{lost}; {_RESTORE}, or remove {record} to go on without them")

    def check_rows(self) -> None:
        """Read all rows that figures and exports are made of, and refuse a database in which they are damaged."""
        if not self.is_sqlite:
            return  # PostgreSQL has checksums of its own
        with self.reading() as connection:
            for problem in self.damaged_rows(connection):
                raise DeixisError(f"{self.name}: {_damaged(problem)}")

    def damaged_rows(self, connection: Connection) -> Iterator[str]:
        """Yield one line for each damaged row; a project of an older version has no checksums before it is changed."""
        raw = _driver(connection)
        if not is_protected(raw):
            return
        try:
            for problem in (line for table in PROTECTED_TABLES for line in find_damaged_rows(raw, table)):
                if reason := self._failed_read(problem):
                    raise UnavailableError(f"{self.name}: {reason}")
                yield problem
        except sqlite3.Error as error:
            if reason := self._failed_read(error):
                raise UnavailableError(f"{self.name}: {reason}") from error
            yield first_line(error)

    def find_corruption(self, connection: Connection) -> Iterator[str]:
        """Yield one line for each thing that SQLite finds wrong with its file."""
        raw = connection.connection.driver_connection
        for problem in find_corruption(raw) if self.is_sqlite and raw is not None else ():
            if reason := self._failed_read(problem):
                raise UnavailableError(f"{self.name}: {reason}")
            yield problem

    def _failed_read(self, problem: object) -> str | None:
        return explain_failed_read(problem, Path(self.url.database or "")) if self.is_sqlite else None

    def check_version(self) -> None:
        """Refuse a database without a project or of a later version; upgrade one of an earlier version."""
        with self.reading() as connection:
            version = self._read_version(connection)
        if version is None:
            raise DeixisError(f"{self.name}: the database holds no annotation project")
        if version in _OLDER_VERSIONS:
            with self.writing() as connection:
                metadata.create_all(connection)
                _add_missing_parts(connection)
                self._protect(connection)
                newest = select(func.max(events.c.at)).where(events.c.worker == workers.c.id).scalar_subquery()
                connection.execute(update(workers).where(workers.c.seen_at.is_(None)).values(seen_at=newest))
                is_version = properties.c.key == "version"
                connection.execute(update(properties).where(is_version).values(value=str(SCHEMA_VERSION)))
        elif version != str(SCHEMA_VERSION):
            raise DeixisError(
                f"{self.name}: the database has schema version {version}, this deixis supports {SCHEMA_VERSION}; "
                "install a newer version of deixis"
            )
        if self.is_sqlite and not is_immutable(Path(self.url.database or "")):
            self._protect_older()

    def _protect_older(self) -> None:
        with self.reading() as connection:
            protected = is_protected(_driver(connection))
        if not protected:
            with self.writing() as connection:
                self._protect(connection)
        # A file that may only be read is not counted.
        readable = suppress(sqlite3.OperationalError)
        with self._write_lock, self.translated_errors(), self.engine.connect() as connection, readable:
            start_counting(_driver(connection))

    def forget_log(self) -> None:
        """Empty the write-ahead log of SQLite, which still has what was deleted, unless others are reading it."""
        if self.is_sqlite:
            with self._write_lock, self.translated_errors(), self.engine.connect() as connection:
                _driver(connection).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @property
    def place(self) -> str:
        """Where the database is if that is another machine, or a file with an address of its own; otherwise empty."""
        if self.is_sqlite:
            return str(self.url)
        named = [self.url.host, *(self.url.query.get(name) for name in ("host", "hostaddr"))]
        hosts = ",".join(",".join(each) if isinstance(each, tuple) else each or "" for each in named).split(",")
        return ",".join(host for host in hosts if host and not host.startswith(("/", "@")) and not is_loopback(host))

    @property
    def name(self) -> str:
        """The file, or the address without its password, for messages."""
        return (self.url.database or "memory") if self.is_sqlite else _display_url(self.url)

    def close(self) -> None:
        if (timer := self._timer) is not None:
            timer.cancel()
            self._write_record()
        self.engine.dispose()

    def _read_version(self, connection: Connection) -> str | None:
        if not self.engine.dialect.has_table(connection, properties.name):
            return None
        is_project = read_property(connection, "format") == FORMAT
        return read_property(connection, "version") if is_project else None

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raise database errors as `DeixisError`."""
        try:
            yield
        except DBAPIError as error:
            if reason := self._failed_read(error.orig):
                raise UnavailableError(f"{self.name}: {reason}") from error
            raise translate_error(error, f"{self.name}: ") from error
        except sqlite3.Error as error:
            raise UnavailableError(f"{self.name}: {self._failed_read(error) or _explain(error)}") from error
        except SQLAlchemyError as error:
            raise UnavailableError(f"{self.name}: {first_line(error)}") from error
        except OverflowError as error:
            if "SQLite" not in str(error):
                raise
            raise DeixisError(f"{self.name}: a number is too large to be stored") from error


def _driver(connection: Connection) -> Any:
    """Return the connection of `sqlite3` or psycopg."""
    return connection.connection.driver_connection


def read_property(connection: Connection, key: str) -> str | None:
    found: str | None = connection.scalar(select(properties.c.value).where(properties.c.key == key))
    return found


def write_property(connection: Connection, key: str, value: str) -> None:
    connection.execute(delete(properties).where(properties.c.key == key))
    connection.execute(insert(properties), {"key": key, "value": value})


def _make_engine(url: URL, is_sqlite: bool) -> Engine:
    if not is_sqlite:
        return create_engine(url, pool_size=16, max_overflow=16, pool_pre_ping=True)
    options: dict[str, Any] = {}
    file = Path(url.database or "")
    read_only = file.is_file() and is_immutable(file)
    if read_only:
        url = url.set(database=sqlite_uri(file), query={"mode": "ro", "immutable": "1", "uri": "true"})
    if url.database in (None, "", ":memory:"):
        from sqlalchemy.pool import StaticPool

        options = {"poolclass": StaticPool}
    engine = create_engine(
        url, connect_args={"timeout": _LOCK_TIMEOUT_S, "isolation_level": None, "check_same_thread": False}, **options
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, record: Any) -> None:
        register_checks(connection)
        # Overwrites what is deleted, such as names that `forget` deletes.
        for pragma in (
            "foreign_keys = ON",
            "secure_delete = ON",
            *(SQLITE_PRAGMAS[1:] if read_only else SQLITE_PRAGMAS),
        ):
            try:
                connection.execute(f"PRAGMA {pragma}")
            except UnicodeDecodeError as error:  # the message of SQLite quotes a damaged schema
                damaged = sqlite3.DatabaseError("malformed database schema")
                damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
                raise damaged from error

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        reads = connection.get_execution_options().get("reads")
        connection.info["changes"] = _driver(connection).total_changes
        connection.exec_driver_sql("BEGIN" if reads else BEGIN_WRITE)

    return engine


def _add_missing_parts(connection: Connection) -> None:
    """Add the columns and indexes that an older version does not have. Such columns can be null."""
    inspector, dialect = inspect(connection), connection.dialect
    for table in metadata.sorted_tables:
        existing = {column["name"] for column in inspector.get_columns(table.name)}
        for column in table.columns:
            if column.name not in existing:
                name = dialect.identifier_preparer.quote(column.name)
                kind = column.type.compile(dialect)
                connection.exec_driver_sql(
                    f"ALTER TABLE {dialect.identifier_preparer.format_table(table)} ADD COLUMN {name} {kind}"
                )
        indexed = {index["name"] for index in inspector.get_indexes(table.name)}
        for index in table.indexes:
            if index.name not in indexed:
                index.create(connection)


def _display_url(url: str | URL) -> str:
    return hide_password(url if isinstance(url, str) else url.render_as_string(hide_password=False))


def translate_error(error: DBAPIError, prefix: str = "") -> DeixisError:
    """Make the error to raise: `UnavailableError`, after which a client may retry, unless the data is wrong."""
    kind = DeixisError if isinstance(error, (DataError, IntegrityError)) else UnavailableError
    return kind(prefix + _explain(error.orig or error))


def _damaged(problem: str) -> str:
    return f"damaged ({problem}); {_RESTORE}"


def _explain(error: BaseException) -> str:
    if is_corruption(error):
        return _damaged(first_line(error))
    return explain_sql_error(error) or first_line(error)
