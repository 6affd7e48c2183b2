"""API tokens: long-lived secrets with which programs act as a worker of the project."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from deixis.annotate.people import API_TOKEN_PREFIX, MAX_NAME_LENGTH, find_worker, hash_token
from deixis.annotate.project import Project
from deixis.annotate.schema import api_tokens, workers
from deixis.errors import DeixisError

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
    name = name.strip()
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise DeixisError(f"{name[:MAX_NAME_LENGTH]!r}: a name has 1 to {MAX_NAME_LENGTH} printable characters")
    if days < 1:
        raise DeixisError(f"{days} days: use at least 1")
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
