"""Webhooks: signed messages to other programs about judgements and photos.

A message is stored in the transaction that causes it, so none is lost or sent for what was rolled back, and it is sent
later by a thread of the server, so no judgement waits for it. Messages that fail are sent again, with growing delays.
Receivers may get a message twice, with the same id. Signatures follow the specification Standard Webhooks
(https://www.standardwebhooks.com).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, func, insert, select, update

from deixis.annotate.client import is_http_address, send_request
from deixis.annotate.events import Event, Judged, Skipped, Undone
from deixis.annotate.state import PhotoState
from deixis.annotate.store import messages, webhooks
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.annotate.project import Project

SECRET_PREFIX = "whsec_"  # noqa: S105 - not a secret
TOLERANCE_S = 300.0
_MAX_TIME_DIGITS = 20


class SignatureError(DeixisError):
    """A message was not signed with this secret, was changed, or is too old."""


def make_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(24)).decode()


def sign_message(secret: str, message_id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a message.

    Examples
    --------
    >>> secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    >>> sign_message(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return f"v1,{base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()}"


def verify_webhook(secret: str, headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> str:
    """Check the signature and the time of a message that a webhook received, and return its id.

    A message that is sent again has the same id, so that receivers can ignore it.

    Parameters
    ----------
    secret : str
        The secret that ``deixis annotate webhook --add`` printed.
    headers : mapping of str to str
        The headers of the request, in any case.
    body : bytes
        The body of the request as received.
    now : float, optional
        The present Unix time; for tests.

    Raises
    ------
    SignatureError
        If the signature is wrong, or the message is older than five minutes.

    Examples
    --------
    >>> secret, body = make_secret(), b'{"type": "photo.finished"}'
    >>> headers = {"webhook-id": "7", "webhook-timestamp": "1000"}
    >>> headers["webhook-signature"] = sign_message(secret, "7", 1000, body)
    >>> verify_webhook(secret, headers, body, now=1010.0)
    '7'
    """
    found = {name.lower(): value for name, value in headers.items()}
    message_id, sent_at = found.get("webhook-id", ""), found.get("webhook-timestamp", "")
    if not (sent_at.isascii() and sent_at.isdecimal() and len(sent_at) < _MAX_TIME_DIGITS):
        raise SignatureError("the message has no webhook-timestamp")
    try:
        expected = sign_message(secret, message_id, int(sent_at), body)
    except ValueError:
        raise SignatureError("the secret is not one of a webhook, or the id is no text") from None
    signatures = found.get("webhook-signature", "").split()
    if not any(hmac.compare_digest(each.encode(errors="replace"), expected.encode()) for each in signatures):
        raise SignatureError("the signature of the message is wrong")
    if abs((time.time() if now is None else now) - int(sent_at)) > TOLERANCE_S:
        raise SignatureError("the message is too old, or the clocks differ")
    return message_id


JUDGEMENT, FINISHED, REOPENED, REVIEW = "judgement", "photo.finished", "photo.reopened", "review.needed"
KINDS = (JUDGEMENT, FINISHED, REOPENED, REVIEW)
DELAYS_S = (5, 30, 120, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 24 * 3600)
"""Seconds before a failed message is sent again; after the last one it is given up."""

TIMEOUT_S = 5.0
_MAX_ERROR_LENGTH = 200
_BATCH = 20
_MENTION = re.compile(r"\d+:\d+-\d+")

Post = Callable[[str, dict[str, str], bytes], None]
"""Sends a body with headers to an address; raises `DeixisError` unless it was accepted."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that gets messages of some kinds."""

    id: str
    url: str
    secret: str
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WebhookStatus:
    """A webhook with the number of its messages that wait and that were given up, and the last error."""

    id: str
    url: str
    kinds: tuple[str, ...]
    waiting: int
    failed: int
    error: str | None


def add_webhook(project: Project, url: str, kinds: Sequence[str] = (FINISHED, REVIEW)) -> Webhook:
    """Add a webhook; its secret, with which messages are signed, cannot be shown again."""
    if not is_http_address(url):
        raise DeixisError(f"{url}: use an address such as https://example.org/hook")
    for kind in kinds:
        if kind not in KINDS:
            raise DeixisError(f"{kind!r} is not a kind of message; choose from: {', '.join(KINDS)}")
    made = Webhook(secrets.token_hex(4), url, make_secret(), tuple(dict.fromkeys(kinds)))
    row = {"id": made.id, "url": url, "secret": made.secret, "kinds": list(made.kinds), "created_at": project.clock()}
    with project.database.writing() as connection:
        connection.execute(insert(webhooks), row)
    read_webhooks(project)
    return made


def remove_webhook(project: Project, webhook: str) -> None:
    """Remove a webhook with its messages."""
    with project.database.writing() as connection:
        connection.execute(delete(messages).where(messages.c.webhook == webhook))
        if not connection.execute(delete(webhooks).where(webhooks.c.id == webhook)).rowcount:
            raise DeixisError(f"{webhook}: no such webhook in this project")
    read_webhooks(project)


def read_webhooks(project: Project) -> None:
    """Read the webhooks for `insert_messages`; another process may have changed them."""
    with project.database.reading() as connection:
        rows = connection.execute(select(webhooks).order_by(webhooks.c.created_at, webhooks.c.id)).all()
    project.webhooks = tuple(Webhook(row.id, row.url, row.secret, tuple(row.kinds)) for row in rows)


def list_webhooks(project: Project) -> list[WebhookStatus]:
    """List the webhooks with the state of their messages."""
    counted = select(
        messages.c.webhook, func.count().filter(messages.c.failed.is_(False)), func.count().filter(messages.c.failed)
    ).group_by(messages.c.webhook)
    read_webhooks(project)
    with project.database.reading() as connection:
        counts = {name: (waiting, failed) for name, waiting, failed in connection.execute(counted)}
        last = select(messages.c.webhook, messages.c.error).where(messages.c.error.is_not(None))
        errors = {row.webhook: row.error for row in connection.execute(last.order_by(messages.c.number))}
    return [
        WebhookStatus(each.id, each.url, each.kinds, *counts.get(each.id, (0, 0)), errors.get(each.id))
        for each in project.webhooks
    ]


def retry_failed(project: Project, webhook: str) -> int:
    """Send the messages of a webhook that were given up again; return their number."""
    values = {"failed": False, "attempts": 0, "due_at": project.clock()}
    with project.database.writing() as connection:
        again = update(messages).where(messages.c.webhook == webhook, messages.c.failed).values(**values)
        return int(connection.execute(again).rowcount)


def insert_messages(project: Project, connection: Connection, bodies: Iterable[dict[str, Any]]) -> None:
    """Store messages for the webhooks that want their kinds."""
    now = project.clock()
    rows = [
        {"webhook": webhook.id, "body": body | {"timestamp": now}, "attempts": 0, "due_at": now, "failed": False}
        for body in bodies
        for webhook in project.webhooks
        if body["type"] in webhook.kinds
    ]
    if rows:
        connection.execute(insert(messages), rows)


def describe_change(
    project: Project, photo: str, before: PhotoState, after: PhotoState, added: Sequence[Event]
) -> Iterator[dict[str, Any]]:
    """Describe a change of a photo, in messages of all kinds."""
    about = _about(project, photo)
    for event in added:
        data = about | {"event": event.number, "worker": event.worker}
        if isinstance(event, Judged | Skipped):
            mentions = [name for name in event.subject.split() if _MENTION.fullmatch(name)]
            data |= {"task": event.task.value, "mentions": mentions, "answer": None, "box": None}
            data |= {"answer": event.answer, "box": event.box} if isinstance(event, Judged) else {}
            yield {"type": JUDGEMENT, "data": data}
        elif isinstance(event, Undone):
            yield {"type": JUDGEMENT, "data": data | {"undone": event.event}}
    if after.finished != before.finished:
        yield {"type": FINISHED if after.finished else REOPENED, "data": about}
    waiting = {(item.reason, item.mention) for item in before.review}
    for item in after.review:
        if (item.reason, item.mention) not in waiting:
            yield describe_review(project, photo, item.mention, item.reason.value, item.holds_up)


def describe_review(project: Project, photo: str, mention: str, reason: str, holds_up: bool = True) -> dict[str, Any]:
    data = _about(project, photo) | {"mention": mention, "reason": reason, "holds_up": holds_up}
    return {"type": REVIEW, "data": data}


def _about(project: Project, photo: str) -> dict[str, Any]:
    return {"project": project.folder.absolute().name, "photo": photo}


def send_due_messages(project: Project, post: Post | None = None) -> int:
    """Send the messages that are due, and return how many were accepted.

    After a failure, the other messages of the same webhook wait for the next call.
    """
    accepted = 0
    for webhook in project.webhooks:
        due = (messages.c.webhook == webhook.id) & messages.c.failed.is_(False) & (messages.c.due_at <= project.clock())
        with project.database.reading() as connection:
            rows = connection.execute(select(messages).where(due).order_by(messages.c.number).limit(_BATCH)).all()
        for row in rows:
            error = _send(project, webhook, row.number, row.body, post or post_message)
            same = messages.c.number == row.number
            with project.database.writing() as connection:
                if error is None:
                    connection.execute(delete(messages).where(same))
                    accepted += 1
                    continue
                failed = row.attempts >= len(DELAYS_S)
                delay = 0 if failed else DELAYS_S[row.attempts]
                values = {"attempts": row.attempts + 1, "due_at": project.clock() + delay, "failed": failed}
                connection.execute(update(messages).where(same).values(**values, error=error[:_MAX_ERROR_LENGTH]))
            break
    return accepted


def _send(project: Project, webhook: Webhook, number: int, body: dict[str, Any], post: Post) -> str | None:
    """Send one message; return the error if it was not accepted."""
    text, sent_at, message_id = json.dumps(body).encode(), int(project.clock()), f"{webhook.id}-{number}"
    headers = {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(sent_at),
    }
    try:
        signed = {"webhook-signature": sign_message(webhook.secret, message_id, sent_at, text)}
        post(webhook.url, headers | signed, text)
    except DeixisError as error:
        return str(error)
    except ValueError:
        return "its secret is damaged"
    return None


def post_message(url: str, headers: dict[str, str], body: bytes) -> None:
    """Send a message over HTTP; what the receiver says, and how much, does not matter."""
    send_request("POST", url, headers=headers, body=body, timeout_s=TIMEOUT_S, max_bytes=None)
