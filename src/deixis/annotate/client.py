"""HTTP requests: the client of the workbench for programs, and what the workbench sends to other servers.

Only the standard library is needed. Redirects are errors, because they would take secrets to another address.
"""

from __future__ import annotations

import http.client
import io
import json
import lzma
import re
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from urllib.parse import quote, urlencode

from deixis.errors import DeixisError, UnavailableError, short_reason
from deixis.storage.atomic import new_directory
from deixis.storage.remote import split_url

MAX_BYTES = 2**30
"""Longer responses are refused."""

_PART_BYTES = 2**20

_PAGE_SIZE = 200
_FIRST_DELAY_S = 0.5
_BUSY = (429, 502, 503, 504)


class StatusError(DeixisError):
    """The server answered with a status other than 2xx."""

    def __init__(self, url: str, status: int, body: bytes, retry_after_s: float) -> None:
        super().__init__(f"{url}: answered {status}")
        self.status, self.body, self.retry_after_s = status, body, retry_after_s


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


def is_http_address(address: object) -> bool:
    """Return whether an address is one of HTTP in plain characters, without a password or a fragment."""
    if not isinstance(address, str) or not re.fullmatch("[!-~]+", address):
        return False
    parts = split_url(address)
    try:
        is_plain = parts.port != 0 and parts.username is None and not parts.fragment
    except ValueError:
        return False
    return is_plain and parts.scheme in ("http", "https") and bool(parts.hostname)


def send_request(
    method: str,
    url: str,
    *,
    headers: dict[str, str] | None = None,
    body: bytes | None = None,
    timeout_s: float = 20.0,
    max_bytes: int | None = MAX_BYTES,
    into: IO[bytes] | None = None,
    must_end: bool = False,
) -> bytes:
    """Send a request and return the body of the response, which is not read where `max_bytes` is None.

    With `into`, the body is written to this file part by part, and nothing is returned. A body that ends early is an
    `UnavailableError`; with `must_end`, so is one whose headers do not say where it ends, or were cut off themselves.
    """
    if not is_http_address(url):
        raise DeixisError(f"{url}: use an address such as https://example.org/hook")
    request = urllib.request.Request(url, body, headers or {}, method=method)  # noqa: S310 - see above
    content = into or io.BytesIO()
    with _reported(url), _opener.open(request, timeout=timeout_s) as response:
        if max_bytes is None:
            return b""
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
        if must_end and response.length is None and not response.chunked:
            raise UnavailableError(f"{url}: the response does not say where it ends, so it may be a part")
    return content.getvalue() if isinstance(content, io.BytesIO) else b""


@contextmanager
def _reported(url: str) -> Iterator[None]:
    try:
        yield
    except urllib.error.HTTPError as error:
        with error:
            raise StatusError(url, error.code, _read(error), _seconds(error.headers.get("retry-after"))) from None
    except ValueError:  # the message may have a secret
        raise DeixisError(f"{url}: the host, or a header such as the token, has characters that HTTP refuses") from None
    except (OSError, http.client.HTTPException) as error:
        raise UnavailableError(f"{url}: cannot be reached ({getattr(error, 'reason', error)})") from None


def _read(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read(2**16)
    except (OSError, http.client.HTTPException):
        return b""


def _seconds(header: str | None) -> float:
    return float(header) if header and header.isascii() and header.isdecimal() else 0.0


class RequestError(DeixisError):
    """The server refused a request; `status` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Client:
    """Works in a project as the worker of an API token: questions, reviews, people and exports.

    Answers are dictionaries, as ``GET /api/openapi.json`` of the server describes them. A request that can be repeated
    is repeated while the server is busy or cannot be reached; an answer that is sent twice counts once.

    Parameters
    ----------
    url : str
        The address of the project, such as ``https://dogs.example.org``, or ``https://example.org/dogs`` if the server
        has several.
    token : str
        An API token: ``deixis annotate token PROJECT NAME``.
    timeout : float
        Seconds to wait for a response.
    retries : int
        How often a request is repeated.

    Examples
    --------
    >>> client = Client("https://dogs.example.org", "dxa_…")  # doctest: +SKIP
    >>> client.progress()["finished"]  # doctest: +SKIP
    118
    >>> while question := client.next_question(tasks=["quality"]):  # doctest: +SKIP
    ...     client.answer(question, "good")
    """

    def __init__(self, url: str, token: str, *, timeout: float = 20.0, retries: int = 5) -> None:
        if not is_http_address(url):
            raise DeixisError(f"{url}: use the address of the server, such as https://dogs.example.org")
        parts = split_url(url)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self.url, self._token = self._origin + parts.path.rstrip("/"), token
        self._timeout, self._retries = timeout, retries

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def session(self) -> dict[str, Any]:
        """Return the worker of the token, and what there is to know about the project."""
        found = self._json("GET", "session")
        if found["user"] is None:
            raise RequestError(401, "the API token is wrong, was revoked or has expired")
        return found

    def progress(self) -> dict[str, Any]:
        """Return the figures of the dashboard; for reviewers and owners."""
        return self._json("GET", "dashboard")

    def photos(self) -> Iterator[dict[str, Any]]:
        """Iterate over the photos with their state; for owners."""
        return self._pages("photos", "photos")

    def image(self, photo: Mapping[str, Any]) -> bytes:
        """Return a photo as JPEG: the value of "photo" in a question or in an item of `photos`."""
        path = str(photo["url"]).removeprefix(self.url.removeprefix(self._origin))
        return self._send("GET", path, repeat=True)

    def next_question(
        self, *, tasks: Sequence[str] | None = None, besides: Sequence[str] = (), stay: str | None = None
    ) -> dict[str, Any] | None:
        """Lease the next question, of some tasks only if given; None if there is none now.

        `besides` are the tokens of questions that you hold already. `stay` prefers the "photo", or the "task", of the
        last question.
        """
        asked = {"tasks": list(tasks) if tasks is not None else None, "besides": list(besides), "stay": stay}
        question: dict[str, Any] | None = self._json("POST", "next", asked, repeat=True)["question"]
        return question

    def answer(
        self,
        question: Mapping[str, Any],
        answer: str,
        *,
        box: Sequence[float] | None = None,
        groups: Sequence[Sequence[str]] = (),
        seconds: float = 0.0,
        remark: str = "",
    ) -> dict[str, Any]:
        """Answer a question; `box` belongs to answers with a box, such as "drawn", and `groups` to "grouped"."""
        said: dict[str, Any] = {
            "groups": [list(group) for group in groups],
            "token": question["token"],
            "answer": answer,
            "seconds": seconds,
            "remark": remark,
        }
        return self._json("POST", "answer", said | {"box": list(box) if box is not None else None}, repeat=True)

    def skip(self, question: Mapping[str, Any], *, remark: str = "") -> dict[str, Any]:
        """Return a question without an answer."""
        return self._json("POST", "skip", {"token": question["token"], "remark": remark}, repeat=True)

    def undo(self, event: int) -> dict[str, Any]:
        """Undo a judgement by the number of its event."""
        return self._json("POST", "undo", {"event": event}, repeat=True)

    def review(self) -> list[dict[str, Any]]:
        """Return the review queue; for reviewers and owners."""
        return list(self._pages("review", "items"))

    def decide(self, photo: str, mention: str, decision: str, *, remark: str = "") -> int:
        """Decide on an item of the review queue, and return the number of the event."""
        body = {"photo": photo, "mention": mention, "decision": decision, "remark": remark}
        return int(self._json("POST", "review/decide", body)["event"])

    def people(self) -> list[dict[str, Any]]:
        """List all workers; for owners."""
        return list(self._json("GET", "people")["people"])

    def invite(self, name: str, *, role: str = "worker", vouched: bool = False) -> str:
        """Invite a worker and return the link, which works once; for owners."""
        return str(self._json("POST", "people", {"name": name, "role": role, "vouched": vouched})["link"])

    def suspend(self, worker: str, *, resume: bool = False) -> dict[str, Any]:
        """Suspend a worker by id, or end the suspension; for owners."""
        return self._json("POST", f"people/{quote(worker, safe='')}", {"suspended": not resume}, repeat=True)

    def export(self, to: str, out: str | Path, *, unfinished: bool = False, force: bool = False) -> Path:
        """Write the annotations as ``deixis annotate export`` does, into a new directory; for owners."""
        query = {"to": to, "unfinished": str(unfinished).lower()}
        try:
            with new_directory(out, replace=force) as folder, TemporaryFile(dir=folder) as file:
                self._send("GET", f"/api/export?{urlencode(query)}", repeat=True, into=file)
                with zipfile.ZipFile(file) as archive:
                    archive.extractall(folder)
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, ValueError) as error:
            raise DeixisError(f"{self.url}: the export is not a zip file ({short_reason(error)})") from None
        return Path(out)

    def _pages(self, path: str, field: str) -> Iterator[dict[str, Any]]:
        offset, total = 0, 1
        while offset < total:
            page = self._json("GET", path, query={"offset": offset, "limit": _PAGE_SIZE})
            total = page["total"]
            yield from page[field]
            offset += _PAGE_SIZE

    def _json(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, Any] | None = None,
        repeat: bool = False,
    ) -> dict[str, Any]:
        address = f"/api/{path}" + (f"?{urlencode(query)}" if query else "")
        content = self._send(method, address, body, repeat=repeat or method == "GET")
        try:
            found: dict[str, Any] = json.loads(content)
        except (ValueError, RecursionError):
            raise DeixisError(f"{self.url}{address}: answered with something other than JSON") from None
        return found

    def _send(
        self,
        method: str,
        address: str,
        body: Mapping[str, Any] | None = None,
        *,
        repeat: bool = False,
        into: IO[bytes] | None = None,
    ) -> bytes:
        """Send a request, again after failures that may pass if `repeat`; `into` is that of `send_request`."""
        delay_s, attempts = _FIRST_DELAY_S, 1 + (self._retries if repeat else 0)
        for left in reversed(range(attempts)):
            try:
                if into is not None:
                    into.seek(0)
                    into.truncate()
                return self._send_once(method, address, body, into)
            except UnavailableError as error:
                if not left:
                    raise
                time.sleep(min(getattr(error, "retry_after_s", 0.0) or delay_s, 60.0))
                delay_s *= 2
        raise AssertionError  # pragma: no cover

    def _send_once(self, method: str, address: str, body: Mapping[str, Any] | None, into: IO[bytes] | None) -> bytes:
        headers = {"authorization": f"Bearer {self._token}", "content-type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        try:
            return send_request(
                method,
                self.url + address,
                headers=headers,
                body=content,
                timeout_s=self._timeout,
                into=into,
                must_end=True,
            )
        except StatusError as error:
            message = _message_of(error)
            if error.status in _BUSY:
                raise _BusyError(message, error.retry_after_s) from None
            raise RequestError(error.status, message) from None


class _BusyError(UnavailableError):
    """The server says that a request has to be repeated later."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def _message_of(error: StatusError) -> str:
    try:
        return str(json.loads(error.body)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return str(error)
