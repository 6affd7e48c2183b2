"""Access control: rates, hosts, tokens, cross-site requests, request sizes, and security headers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import os
import re
import secrets
import socket
import time
from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deixis.storage.remote import is_loopback, split_url
from deixis.web.rates import LoginDelays, RateLimiter, network_of

JSON_BYTES = 64 * 2**10
"""Maximum size of a request without a photo."""

BODY_S = 15.0
"""Maximum time between two parts of a request body."""

MIN_TOKEN_LENGTH = 12

TICKET_S = 60.0
"""How long the ticket of a link is valid."""


_CORES = os.cpu_count() or 1


@dataclass(frozen=True)
class ServerLimits:
    """Limits of uploads, and of requests that run at once, queue and wait (`BoundedExecutor`).

    Searches, requests for pictures, decoding of uploads and requests that run a model on a photo have threads of their
    own.
    """

    upload_bytes: int = 32 * 2**20
    upload_pixels: int = 50_000_000
    search_threads: int = 4 if _CORES > 2 else 2  # more would only compete with the event loop
    search_queue: int = 24
    search_wait_s: float = 0.25
    picture_threads: int = 4
    picture_wait_s: float = 2.0
    upload_threads: int = 2  # and processes that decode
    upload_queue: int = 6
    upload_wait_s: float = 2.0
    model_threads: int = 2 if _CORES > 2 else 1
    model_queue: int = 6
    model_wait_s: float = 2.0
    cached_searches: int = 128  # responses, of about 20 kB; 170 kB with the maximum number of results
    cached_photos: int = 16  # photos whose features are cached, so that further sentences about them are fast


COOKIE = "deixis-session-{port}"
"""Browsers send the cookies of one server to those on other ports of the machine, so their names differ."""

SESSION_S = 30 * 86400

_PAGE = re.compile(r"/(?:[\w.-]+/)?", re.ASCII)
"""The page, also of one of several projects."""

_CLOSE = {"connection": "close"}
_LOG = logging.getLogger("uvicorn.error")
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_SIGN_IN_STYLE = """
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { display: grid; min-height: 90vh; margin: 0; place-content: center; background: light-dark(#faf9f6, #131312); }
main { padding: 1rem; color: light-dark(#1a1917, #ecebe6); }
h1 { font: 500 2.5rem/1 Georgia, serif; }
input, button { min-height: 2.75rem; padding: 0 1rem; border: 1px solid; border-radius: 0.5rem; font: inherit; }
"""
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' 'sha256-{b64encode(hashlib.sha256(_SIGN_IN_STYLE.encode()).digest()).decode()}'",
        "img-src 'self' blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_SIGN_IN_PAGE = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>deixis: log in</title>
<style>{_SIGN_IN_STYLE}</style>
<main>
<h1>deixis</h1>
<p role="alert">PROBLEM</p>
<form method="get">
<p><label for="token">Password, as deixis serve printed it</label></p>
<p><input id="token" name="token" type="password" autocomplete="current-password" required> <button>Open</button></p>
</form>
</main>
</html>
"""
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class AccessPolicy:
    """Who has access to a server."""

    host: str = "127.0.0.1"  # where the server listens
    token: str = field(default="", repr=False)  # required in every request, unless empty
    upload_bytes: int = 32 * 2**20
    ticket: str = field(default="", repr=False)  # opens the page in place of the token, once
    uploads_at_once: int = 32  # forms whose content is being received
    # By client address, before its token is looked at: a page with many thumbnails stays far below.
    requests_per_s: float = 500.0
    requests_at_once: float = 2000.0

    def allows_host(self, header: str) -> bool:
        """Return whether a Host header names this server; other names are used in DNS rebinding attacks."""
        name = split_url(f"//{header}").hostname or ""
        if is_loopback(self.host):
            return name in _LOOPBACK or name == self.host
        own = socket.gethostname().casefold()
        return name in (self.host.casefold(), own, f"{own}.local", *_LOOPBACK) or _is_address(name)

    def accepts_token(self, token: str) -> bool:
        """Return whether a token is right, in constant time."""
        return hmac.compare_digest(_digest(token), _digest(self.token))

    def new_session(self, cookie: str) -> str:
        """Return a value for a cookie: random, signed, valid for 30 days, and no way back to the token."""
        session = f"{int(time.time()) + SESSION_S}-{secrets.token_hex(16)}"
        return f"{session}-{self._sign(cookie, session)}"

    def has_session(self, cookie: str, value: str) -> bool:
        """Return whether the value of a cookie of this name is from `new_session`, also before a restart."""
        session, _, signature = value.rpartition("-")
        until = session.partition("-")[0]
        if not hmac.compare_digest(signature.encode(), self._sign(cookie, session).encode()):
            return False
        return until.isdecimal() and time.time() < int(until)

    def _sign(self, cookie: str, session: str) -> str:
        return hmac.new(self._session_key, f"{cookie} {session}".encode(), "sha256").hexdigest()

    @cached_property
    def _session_key(self) -> bytes:
        """A slow hash of the token, so that servers on other ports, which get the cookies, cannot guess it."""
        return hashlib.scrypt(self.token.encode("utf-8", "surrogatepass"), salt=b"deixis", n=2**14, r=8, p=1)


class SecurityMiddleware:
    """ASGI middleware that rejects requests before their bodies are read and adds security headers to responses."""

    def __init__(
        self,
        app: ASGIApp,
        policy: AccessPolicy,
        is_busy: Callable[[str], bool] = lambda path: False,
        upload_paths: frozenset[str] = frozenset(),
    ) -> None:
        self.app = app
        self.policy = policy
        self.is_busy = is_busy  # whether requests for a path are refused now, as cheaply as possible
        self._upload_paths = upload_paths  # of forms with photos; others are held in memory while they are read
        self._rates = RateLimiter(policy.requests_per_s, policy.requests_at_once)
        self._uploads = 0
        self._delays = LoginDelays()
        self._ticket, self._ticket_until = policy.ticket, time.monotonic() + TICKET_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reject it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope = {**scope, "headers": _without_quoted_cookies(scope["headers"])}
        has_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        rejection = self._check(scope)
        if rejection is not None:
            await rejection(scope, receive, send_with_headers)
            return
        is_upload = self._is_upload(scope)
        if is_upload and self._uploads >= self.policy.uploads_at_once:
            response = error_response(503, "too many uploads; try again in a moment", {"retry-after": "1", **_CLOSE})
            await response(scope, receive, send_with_headers)
            return
        body = _LimitedBody(receive, self._max_bytes(scope), self._count_uploads if is_upload else None)
        try:
            await self.app(scope, body.receive, send_with_headers)
        except Exception as error:
            if has_started:
                raise
            _LOG.exception("a request failed")
            response = error_response(500, f"internal error ({type(error).__name__})")
            await response(scope, receive, send_with_headers)
        finally:
            body.finish()

    def _count_uploads(self, change: int) -> None:
        self._uploads += change

    def _check(self, scope: Scope) -> Response | None:
        if wait_s := self._rates.take(network_of(_address(scope))):
            return _too_many("too many requests", wait_s)
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:  # proxies disagree about where it ends
            return error_response(400, "a request has either Content-Length or Transfer-Encoding", _CLOSE)
        if not self.policy.allows_host(headers.get("host", "")):
            return error_response(421, "this server has another host name")
        if _is_cross_site(scope["method"], headers):
            return error_response(403, "requests from pages of other sites are not allowed")
        if self.policy.token and (refusal := self._check_token(scope, headers)):
            return refusal
        if self.is_busy(scope["path"]):
            return busy_response()
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._max_bytes(scope):
            return error_response(413, TooLargeError(self._max_bytes(scope)).detail)
        return None

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        """Return None if a request has a session or the token.

        If the URL of the page has the token or the ticket, return a redirect that begins a session. Wrong tokens delay
        further attempts of their address, but not its sessions.
        """
        cookie, is_page = _cookie_name(scope), scope["method"] == "GET" and bool(_PAGE.fullmatch(scope["path"]))
        is_browser = is_page and "text/html" in headers.get("accept", "")
        if self.policy.has_session(cookie, HTTPConnection(scope).cookies.get(cookie, "")):
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        in_url = query.pop("token", [""])[0] if is_page else ""
        bearer = _bearer_token(headers)
        if in_url and self._uses_ticket(in_url):
            return self._begin_session(scope["path"], cookie, query)
        if in_url or bearer:
            address = _address(scope)
            if wait_s := self._delays.wait_s(address, ""):
                if not is_browser:
                    return _too_many("too many wrong tokens", wait_s)
                seconds = str(int(wait_s) + 1)
                problem = f"Too many wrong passwords; try again in {seconds} s."
                return _sign_in_page(problem, 429, {"retry-after": seconds, **_CLOSE})
            if self.policy.accepts_token(bearer or in_url):
                return None if bearer else self._begin_session(scope["path"], cookie, query)
            self._delays.failed(address, "")
        if is_browser:
            return _sign_in_page("This password or link is not valid." if in_url else "")
        return error_response(
            401, "token required: open the URL that deixis serve printed", {"www-authenticate": "Bearer"}
        )

    def _begin_session(self, path: str, cookie: str, query: dict[str, list[str]]) -> Response:
        rest = urlencode(query, doseq=True)
        redirect = RedirectResponse(f"{path}?{rest}" if rest else path, status_code=303)
        redirect.set_cookie(cookie, self.policy.new_session(cookie), httponly=True, samesite="lax", max_age=SESSION_S)
        return redirect

    def _uses_ticket(self, token: str) -> bool:
        """Return whether a link has the ticket, which is then used up.

        Other users of the machine can see the command line of a browser, and so the link that it was started with.
        """
        is_valid = bool(self._ticket) and time.monotonic() < self._ticket_until
        if is_valid and hmac.compare_digest(_digest(token), _digest(self._ticket)):
            self._ticket = ""
            return True
        return False

    def _max_bytes(self, scope: Scope) -> int:
        return self.policy.upload_bytes + JSON_BYTES if self._is_upload(scope) else JSON_BYTES

    def _is_upload(self, scope: Scope) -> bool:
        is_form = Headers(scope=scope).get("content-type", "").lower().startswith("multipart/")
        return is_form and scope["path"] in self._upload_paths


def error_response(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error in the form of the API."""
    return JSONResponse({"error": message}, status, headers)


def _sign_in_page(problem: str, status: int = 401, headers: dict[str, str] | None = None) -> HTMLResponse:
    return HTMLResponse(_SIGN_IN_PAGE.replace("PROBLEM", problem), status, headers)


def _too_many(what: str, wait_s: float) -> JSONResponse:
    return error_response(429, f"{what}; wait a moment", {"retry-after": str(int(wait_s) + 1), **_CLOSE})


def busy_response() -> JSONResponse:
    """Return the response to a request for which there is no room."""
    return error_response(503, "the server is busy; try again in a moment", {"retry-after": "1"})


class TooLargeError(HTTPException):
    """A request body is too large."""

    def __init__(self, max_bytes: int) -> None:
        size = f"{max_bytes // 2**20} MB" if max_bytes >= 2**20 else f"{max_bytes // 2**10} kB"
        super().__init__(413, f"too large: the maximum is {size}")


class _LimitedBody:
    """Stops reading a request body at the maximum size, regardless of its header, and when it stops coming.

    `count` is called with 1 now, and with -1 when the body is complete or no longer wanted.
    """

    def __init__(self, receive: Receive, max_bytes: int, count: Callable[[int], None] | None = None) -> None:
        self._receive = receive
        self._left = self._max_bytes = max_bytes
        self._is_complete = False
        self._count = count
        if count:
            count(1)

    def finish(self) -> None:
        if self._count:
            self._count(-1)
            self._count = None

    async def receive(self) -> Message:
        try:
            message = await asyncio.wait_for(self._receive(), None if self._is_complete else BODY_S)
        except TimeoutError:
            raise HTTPException(408, "the rest of the request did not come", {"connection": "close"}) from None
        self._is_complete = not message.get("more_body", False)
        if self._is_complete:
            self.finish()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise TooLargeError(self._max_bytes)
        return message


def _is_cross_site(method: str, headers: Headers) -> bool:
    """Return whether a page of another site sends a request, by its fetch metadata or, in old browsers, its origin.

    Following a link to the page is allowed.
    """
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return not (method == "GET" and is_link)
    origin = headers.get("origin")
    if headers.get("sec-fetch-site") == "same-origin":
        return False  # browsers send "null" with a form, because addresses are kept from other pages
    return origin is not None and split_url(origin).netloc != headers.get("host")


def _cookie_name(scope: Scope) -> str:
    return COOKIE.format(port=(scope.get("server") or ("", 0))[1])


def _address(scope: Scope) -> str:
    return str((scope.get("client") or ("", 0))[0])


def _bearer_token(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.casefold() == "bearer" else ""


def _without_quoted_cookies(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Leave out cookies in quotes: older versions of Python take time in the square of their length (CVE-2024-7592)."""

    def unquoted(line: bytes) -> bytes:
        return b";".join(cookie for cookie in line.split(b";") if b'"' not in cookie)

    return [(name, unquoted(value) if name == b"cookie" else value) for name, value in headers]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
