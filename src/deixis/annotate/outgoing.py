"""HTTP requests to other servers. Redirects are errors, because they would take secrets to another address."""

from __future__ import annotations

import http.client
import io
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from deixis.errors import DeixisError, UnavailableError

MAX_BYTES = 2**30
"""Longer responses are refused."""

_PART_BYTES = 2**20


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
    into: IO[bytes] | None = None,
) -> bytes:
    """Send a request and return the body of the response; callers check that the address is one of HTTP.

    With `into`, the body is written to this file part by part, and nothing is returned. A body that ends early is an
    `UnavailableError`.
    """
    request = urllib.request.Request(url, body, headers or {}, method=method)  # noqa: S310 - see above
    content = into or io.BytesIO()
    with _reported(url), _opener.open(request, timeout=timeout_s) as response:
        received = 0
        while part := response.read(_PART_BYTES):
            received += len(part)
            if received > max_bytes:
                raise DeixisError(f"{url}: the response has more than {max_bytes:,} bytes")
            try:
                content.write(part)
            except OSError as error:
                raise DeixisError(f"the response of {url} cannot be stored ({error.strerror or error})") from error
        if response.length:  # what is missing; http.client does not check it
            raise UnavailableError(f"{url}: the response ended after {received:,} bytes, {response.length:,} too early")
    return content.getvalue() if isinstance(content, io.BytesIO) else b""


@contextmanager
def _reported(url: str) -> Iterator[None]:
    try:
        yield
    except urllib.error.HTTPError as error:
        with error:
            raise StatusError(url, error.code, _read(error), _seconds(error.headers.get("retry-after"))) from None
    except (OSError, http.client.HTTPException) as error:
        raise UnavailableError(f"{url}: cannot be reached ({getattr(error, 'reason', error)})") from None


def _read(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read(2**16)
    except (OSError, http.client.HTTPException):
        return b""


def _seconds(header: str | None) -> float:
    return float(header) if header and header.isascii() and header.isdecimal() else 0.0
