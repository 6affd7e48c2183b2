"""The workers of a project, their sessions, and their API tokens.

Workers are invited by name; events refer to them by an opaque id only, and their personal data can be deleted. An API
token is a long-lived secret with which a program acts as a worker.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from sqlalchemy import Connection, String, bindparam, delete, insert, null, select, update

from deixis.annotate.store import RefusedError, api_tokens, leases, questions, remarks, sessions, workers
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.annotate.project import Project
    from deixis.annotate.settings import Settings

MAX_NAME_LENGTH = 100
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that Unicode counts as printable, and that nobody sees: two names would look the same."""

SESSION_SECONDS = 30 * 86400.0
API_TOKEN_PREFIX = "dxa_"  # noqa: S105 - not a secret
MAX_TOKEN_DAYS = 3650
EXTERNAL_PREFIX = "outside "
"""Begins the names of workers of an external workforce."""

MODEL_ROLE = "model"
"""The role of models that make proposals; they appear in no list of workers."""


WORKER_COLUMNS = (
    workers.c.id,
    workers.c.name,
    workers.c.role,
    workers.c.vouched,
    workers.c.history_items,
    workers.c.history_accuracy,
    workers.c.forgotten,
    workers.c.suspended_at,
    workers.c.seen_at,
)

IS_ACTIVE = workers.c.joined_at.is_not(None) & workers.c.forgotten.is_(False) & workers.c.suspended_at.is_(None)
"""A person who has joined and is neither suspended nor forgotten; models never join."""

_WORKER = select(*WORKER_COLUMNS).where(workers.c.id == bindparam("p_worker", type_=String))


class NameTakenError(DeixisError):
    """The name belongs to another worker."""


class InvitationError(DeixisError):
    """The invitation is unknown or was used."""

    def __init__(self) -> None:
        super().__init__("this invitation is unknown or was used already; ask the project's owner for a new one")


class Role(StrEnum):
    """Rights: workers answer questions, reviewers also decide, owners may do everything."""

    WORKER = "worker"
    REVIEWER = "reviewer"
    OWNER = "owner"


@dataclass(frozen=True, slots=True)
class Worker:
    """A member of a project, of any role; `name` is None after `forget_worker`."""

    id: str
    name: str | None
    role: Role
    vouched: bool
    history_items: int
    history_accuracy: float
    forgotten: bool
    suspended: bool = False  # by an owner

    @property
    def can_review(self) -> bool:
        return self.role in (Role.REVIEWER, Role.OWNER)

    @property
    def is_claimed(self) -> bool:
        """Whether this is an id of a marketplace that nobody has confirmed, so it may be invented."""
        return not self.vouched and (self.name or "").startswith(EXTERNAL_PREFIX)

    def has_history(self, settings: Settings) -> bool:
        """Return whether the record elsewhere is good enough; nobody asks reviewers and those vouched for."""
        is_enough = self.history_items >= settings.history_items and self.history_accuracy >= settings.history_accuracy
        return is_enough or self.vouched or self.can_review or (self.is_claimed and settings.claimed_workers)


@dataclass(frozen=True, slots=True)
class Session:
    """A login; `assignment` is set for workers of an external workforce."""

    worker: Worker
    until: float
    assignment: str | None = None


def invite(
    project: Project,
    name: str,
    *,
    role: Role = Role.WORKER,
    vouched: bool = False,
    history_items: int = 0,
    history_accuracy: float = 0.0,
) -> tuple[str, str]:
    """Invite a worker and return their id and the token of the invitation, of which only a hash is stored."""
    name = _check_name(name)
    token = secrets.token_urlsafe(24)
    with project.database.writing() as connection:
        taken = connection.scalars(select(workers.c.name).where(workers.c.name.is_not(None)))
        if normal_name(name) in map(normal_name, taken):
            raise NameTakenError(f"{name}: this name is taken; choose another one")
        worker = add_worker(
            connection,
            name,
            role=role,
            vouched=vouched,
            invited_at=project.clock(),
            invitation=hash_token(token),
            history_items=history_items,
            history_accuracy=history_accuracy,
        )
    return worker, token


def normal_name(name: str) -> str:
    """Return a name as names are compared: keyboards write é in two ways, and people write names in any case.

    Examples
    --------
    >>> normal_name("JOSE\u0301") == normal_name("jos\u00e9")
    True
    """
    return normalize("NFKC", name.strip()).casefold()


def _check_name(name: str) -> str:
    name = normalize("NFC", name.strip())
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable() or _INVISIBLE.search(name):
        raise DeixisError(f"{name[:MAX_NAME_LENGTH]!r}: a name has 1 to {MAX_NAME_LENGTH} printable characters")
    return name


def add_worker(connection: Connection, name: str, *, role: str, vouched: bool, **values: Any) -> str:
    """Insert a worker and return the id, by default a new one."""
    row = {"id": f"w{secrets.token_hex(6)}", "name": name, "role": str(role), "vouched": vouched, "forgotten": False}
    row |= {"history_items": 0, "history_accuracy": 0.0} | values
    connection.execute(insert(workers), row)
    return str(row["id"])


def find_or_add_model(project: Project, connection: Connection, model: str, fingerprint: str) -> str:
    """Return the worker id of a model."""
    name = f"{model} {fingerprint}"
    same_name = (workers.c.name == name) & (workers.c.role == MODEL_ROLE)
    found: str | None = connection.scalar(select(workers.c.id).where(same_name))
    if found is not None:
        return found
    return add_worker(
        connection, name, role=MODEL_ROLE, vouched=False, id=f"m{fingerprint}", invited_at=project.clock()
    )


def find_invitation(project: Project, token: str) -> Worker:
    """Find the invited worker."""
    with project.database.reading() as connection:
        row = connection.execute(select(workers).where(workers.c.invitation == hash_token(token))).first()
    if row is None:
        raise InvitationError
    return make_worker(row)


def accept_invitation(project: Project, token: str, password_hash: str) -> Worker:
    """Accept an invitation, which cannot be used again."""
    values = {"invitation": None, "password": password_hash, "joined_at": project.clock()}
    accepted = update(workers).where(workers.c.invitation == hash_token(token)).values(**values).returning(*workers.c)
    with project.database.writing() as connection:
        row = connection.execute(accepted).first()
    if row is None:
        raise InvitationError
    return make_worker(row)


def accept_by_subject(project: Project, token: str, subject: str) -> Worker:
    """Accept an invitation by an account of an OpenID Connect provider, instead of a password."""
    invited = workers.c.invitation == hash_token(token)
    with project.database.writing() as connection:
        row = connection.execute(select(workers).where(invited)).first()
        if row is None:
            raise InvitationError
        taken = connection.scalar(select(workers.c.id).where(workers.c.subject == subject, workers.c.id != row.id))
        if taken is not None:
            raise DeixisError(f"{row.name}: the sign-in belongs to another worker of this project")
        values = {"invitation": None, "subject": subject, "joined_at": project.clock()}
        connection.execute(update(workers).where(invited).values(**values))
    return make_worker(row)


def find_subject(project: Project, subject: str) -> Worker | None:
    """Find a worker by the issuer and subject of their sign-in."""
    with project.database.reading() as connection:
        row = connection.execute(select(workers).where(workers.c.subject == subject)).first()
    return make_worker(row) if row is not None else None


def renew_invitation(project: Project, worker: str) -> str:
    """Return the token of a new invitation; the worker's password, sign-in and sessions become invalid."""
    token = secrets.token_urlsafe(24)
    with project.database.writing() as connection:
        if read_worker(connection, worker).forgotten:
            raise DeixisError(f"{worker}: the worker was forgotten; invite them under a new name")
        connection.execute(delete(sessions).where(sessions.c.worker == worker))
        values = {"invitation": hash_token(token), "password": None, "subject": None}
        connection.execute(update(workers).where(workers.c.id == worker).values(**values))
    return token


def change_worker(project: Project, worker: str, *, role: Role | None = None, vouched: bool | None = None) -> None:
    values = ({"role": role.value} if role else {}) | ({"vouched": vouched} if vouched is not None else {})
    with project.database.writing() as connection:
        read_worker(connection, worker)
        if values:
            connection.execute(update(workers).where(workers.c.id == worker).values(**values))


def find_password(project: Project, name: str) -> tuple[Worker, str] | None:
    """Find a worker by name, as `normal_name` compares names, and the hash of their password."""
    name = name.strip()
    with project.database.reading() as connection:
        rows = connection.execute(select(workers).where(workers.c.password.is_not(None))).all()
    # Older projects may have names that are equal in this sense.
    same = [row for row in rows if row.name == name] or [
        row for row in rows if normal_name(row.name) == normal_name(name)
    ]
    return (make_worker(same[0]), same[0].password) if len(same) == 1 else None


def set_password(project: Project, worker: str, password_hash: str) -> None:
    """Store a new password hash and end all sessions of the worker."""
    with project.database.writing() as connection:
        connection.execute(delete(sessions).where(sessions.c.worker == worker))
        connection.execute(update(workers).where(workers.c.id == worker).values(password=password_hash))


def forget_worker(project: Project, name: str) -> Worker:
    """Delete the personal data of a worker; their judgements stay under the opaque id."""
    with project.database.writing() as connection:
        worker = find_worker(connection, name)
        connection.execute(delete(remarks).where(remarks.c.worker == worker.id))
        connection.execute(delete(sessions).where(sessions.c.worker == worker.id))
        connection.execute(delete(api_tokens).where(api_tokens.c.worker == worker.id))
        values = {"name": None, "invitation": None, "password": None, "subject": None, "forgotten": True}
        connection.execute(update(workers).where(workers.c.id == worker.id).values(**values))
    project.database.forget_log()
    return worker


def suspend_worker(project: Project, name_or_id: str) -> Worker:
    """Let a worker do nothing until `resume_worker`; their name, password and judgements stay.

    Sessions end, and the questions that they hold are asked of others.
    """
    with project.database.writing() as connection:
        worker = find_worker(connection, name_or_id)
        if worker.role is Role.OWNER:
            others = (workers.c.role == Role.OWNER.value) & (workers.c.id != worker.id) & IS_ACTIVE
            if connection.execute(select(workers.c.id).where(others)).first() is None:
                raise DeixisError(f"{worker.name}: is the only owner, who cannot be suspended")
        connection.execute(delete(sessions).where(sessions.c.worker == worker.id))
        release_questions(connection, worker.id)
        connection.execute(update(workers).where(workers.c.id == worker.id).values(suspended_at=project.clock()))
    return replace(worker, suspended=True)


def release_questions(connection: Connection, worker: str, task: str | None = None) -> int:
    """Let others have the questions that a worker holds, of one task if given; return their number."""
    held = (leases.c.worker == worker) & (leases.c.state == "open")
    held = held if task is None else held & (leases.c.task == task)
    released = select(leases.c.question).where(held, leases.c.question.is_not(None))
    count = connection.execute(update(questions).where(questions.c.number.in_(released)).values(leased_until=0.0))
    connection.execute(update(leases).where(held).values(state="lost"))
    return int(count.rowcount)


def resume_worker(project: Project, name_or_id: str) -> Worker:
    """End a suspension by an owner."""
    with project.database.writing() as connection:
        worker = find_worker(connection, name_or_id)
        connection.execute(update(workers).where(workers.c.id == worker.id).values(suspended_at=None))
    return replace(worker, suspended=False)


@dataclass(frozen=True, slots=True)
class Person:
    """A worker as owners see them. The fields are JSON keys."""

    worker: str
    name: str | None
    role: Role
    vouched: bool
    joined: bool
    forgotten: bool
    suspended: bool
    history_items: int
    history_accuracy: float
    claimed: bool = False  # an id of a marketplace that nobody has confirmed


def list_workers(project: Project) -> list[Person]:
    """List all workers in the order of their invitations."""
    people = select(workers).where(workers.c.role != MODEL_ROLE)
    with project.database.reading() as connection:
        rows = connection.execute(people.order_by(workers.c.invited_at, workers.c.id)).all()
    return [
        Person(
            worker=row.id,
            name=row.name,
            role=Role(row.role),
            vouched=row.vouched,
            joined=row.joined_at is not None,
            forgotten=row.forgotten,
            suspended=row.suspended_at is not None,
            history_items=row.history_items,
            history_accuracy=row.history_accuracy,
            claimed=make_worker(row).is_claimed,
        )
        for row in rows
    ]


def read_names(connection: Connection) -> dict[str, str]:
    """Return the names of all workers by their ids; those who were forgotten have none but the id."""
    return {row.id: row.name or row.id for row in connection.execute(select(workers.c.id, workers.c.name))}


def find_worker(connection: Connection, name_or_id: str) -> Worker:
    same = workers.c.name.in_((name_or_id, normalize("NFC", name_or_id))) | (workers.c.id == name_or_id)
    row = connection.execute(select(workers).where(same, workers.c.role != MODEL_ROLE)).first()
    if row is None:
        raise DeixisError(f"{name_or_id}: no such worker in this project; deixis annotate status lists them")
    return make_worker(row)


def read_worker(connection: Connection, worker: str) -> Worker:
    row = connection.execute(_WORKER, {"p_worker": worker}).first()
    if row is None:
        raise DeixisError(f"no worker {worker!r} in this project")
    return make_worker(row)


def require_reviewer(connection: Connection, worker: str) -> None:
    if not read_worker(connection, worker).can_review:
        raise RefusedError("only reviewers and owners can decide this")


def make_worker(row: Any) -> Worker:
    """Build a worker from a row of their table."""
    history = (row.history_items, row.history_accuracy)
    suspended = row.suspended_at is not None
    return Worker(row.id, row.name, Role(row.role), row.vouched, *history, row.forgotten, suspended)


def start_session(
    project: Project, worker: str, *, seconds: float = SESSION_SECONDS, assignment: str | None = None
) -> str:
    """Log a worker in and return the session token, of which only a hash is stored."""
    token = secrets.token_urlsafe(32)
    now = project.clock()
    row = {"hash": hash_token(token), "worker": worker, "until": now + seconds, "assignment": assignment}
    with project.database.writing() as connection:
        connection.execute(delete(sessions).where(sessions.c.until <= now))
        connection.execute(insert(sessions), row)
    return token


def find_session(project: Project, token: str) -> Session | None:
    """Find the session of a session or API token, unless it has expired."""
    if token.startswith(API_TOKEN_PREFIX):
        chosen = select(api_tokens.c.worker, api_tokens.c.until, null().label("assignment"))
        chosen = chosen.where(api_tokens.c.hash == hash_token(token))
    else:
        chosen = select(sessions.c.worker, sessions.c.until, sessions.c.assignment)
        chosen = chosen.where(sessions.c.hash == hash_token(token))
    with project.database.reading() as connection:
        row = connection.execute(chosen).first()
        if row is None or row.until <= project.clock():
            return None
        worker = read_worker(connection, row.worker)
        inactive = worker.forgotten or worker.suspended
        return None if inactive else Session(worker, row.until, row.assignment)


def end_session(project: Project, token: str) -> None:
    with project.database.writing() as connection:
        connection.execute(delete(sessions).where(sessions.c.hash == hash_token(token)))


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


DAY_S = 86400.0


class UnknownTokenError(DeixisError):
    """No token has this id."""

    def __init__(self) -> None:
        super().__init__("no such API token in this project")


@dataclass(frozen=True, slots=True)
class ApiToken:
    """An API token without its secret. The fields are JSON keys."""

    id: str
    name: str
    worker: str
    who: str | None
    created_at: float
    until: float


def create_token(project: Project, name_or_id: str, name: str, *, days: int = 365) -> tuple[str, str]:
    """Make a token for a worker, named after its use; return its id and its secret, of which only a hash is stored."""
    name = _check_name(name)
    if not 1 <= days <= MAX_TOKEN_DAYS:
        raise DeixisError(f"{str(days)[:40]} days: use 1 to {MAX_TOKEN_DAYS:,}")
    number, secret = secrets.token_hex(4), f"{API_TOKEN_PREFIX}{secrets.token_urlsafe(32)}"
    now = project.clock()
    row = {"id": number, "hash": hash_token(secret), "name": name, "created_at": now, "until": now + days * DAY_S}
    with project.database.writing() as connection:
        connection.execute(insert(api_tokens), row | {"worker": find_worker(connection, name_or_id).id})
    return number, secret


def list_tokens(project: Project, worker: str | None = None) -> list[ApiToken]:
    """List the tokens of a worker, or all of them, oldest first."""
    columns = (api_tokens.c.id, api_tokens.c.name, api_tokens.c.worker, workers.c.name.label("who"))
    chosen = select(*columns, api_tokens.c.created_at, api_tokens.c.until).join(
        workers, workers.c.id == api_tokens.c.worker
    )
    if worker is not None:
        chosen = chosen.where(api_tokens.c.worker == worker)
    with project.database.reading() as connection:
        rows = connection.execute(chosen.order_by(api_tokens.c.created_at, api_tokens.c.id)).all()
    return [ApiToken(*row) for row in rows]


def revoke_token(project: Project, token: str, worker: str | None = None) -> None:
    """Delete a token by its id; of a worker only, if given."""
    same = api_tokens.c.id == token
    if worker is not None:
        same &= api_tokens.c.worker == worker
    with project.database.writing() as connection:
        if not connection.execute(delete(api_tokens).where(same)).rowcount:
            raise UnknownTokenError
