"""Signatures of webhook messages, as in the specification Standard Webhooks (https://www.standardwebhooks.com)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping

from deixis.errors import DeixisError

SECRET_PREFIX = "whsec_"  # noqa: S105 - not a secret
TOLERANCE_S = 300.0


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
    if not (sent_at.isascii() and sent_at.isdecimal()):
        raise SignatureError("the message has no webhook-timestamp")
    try:
        expected = sign_message(secret, message_id, int(sent_at), body)
    except binascii.Error:
        raise SignatureError("the secret is not one of a webhook") from None
    signatures = found.get("webhook-signature", "").split()
    if not any(hmac.compare_digest(each.encode(), expected.encode()) for each in signatures):
        raise SignatureError("the signature of the message is wrong")
    if abs((time.time() if now is None else now) - int(sent_at)) > TOLERANCE_S:
        raise SignatureError("the message is too old, or the clocks differ")
    return message_id
