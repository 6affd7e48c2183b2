"""HTTP requests to other servers. Redirects are errors, because they would take secrets to another address."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import Any

from deixis.errors import DeixisError, UnavailableError

MAX_BYTES = 2**30
"""Longer responses are refused."""


class StatusError(DeixisError):
    """The server answered with a status other than 2xx."""

    def __init__(self, url: str, status: int, body: bytes, retry_after_s: float) -> None:
        super().__init__(f"{url}: answered {status}")
        self.status, self.body, self.retry_after_s = status, body, retry_after_s


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


def send_request(
    method: str,
    url: str,
    *,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
    timeout_s: float = 20.0,
    max_bytes: int = MAX_BYTES,
) -> bytes:
    """Send a request and return the body of the response; callers check that the address is one of HTTP."""
    request = urllib.request.Request(url, body, headers or {}, method=method)  # noqa: S310 - see above
    try:
        with _opener.open(request, timeout=timeout_s) as response:
            content = bytes(response.read(max_bytes + 1))
    except urllib.error.HTTPError as error:
        with error:
            raise StatusError(url, error.code, _read(error), _seconds(error.headers.get("retry-after"))) from None
    except (OSError, http.client.HTTPException) as error:
        raise UnavailableError(f"{url}: cannot be reached ({getattr(error, 'reason', error)})") from None
    if len(content) > max_bytes:
        raise DeixisError(f"{url}: the response has more than {max_bytes:,} bytes")
    return content


def _read(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read(2**16)
    except (OSError, http.client.HTTPException):
        return b""


def _seconds(header: str | None) -> float:
    return float(header) if header and header.isascii() and header.isdecimal() else 0.0
