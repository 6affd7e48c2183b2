"""Who may ask, from where, how much; and what browsers may do with an answer."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deixis.server.limits import JSON_BYTES

COOKIE = "deixis-token"
_LOG = logging.getLogger("uvicorn.error")
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "font-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True)
class Door:
    """Who is let in.

    Attributes
    ----------
    host
        Where the server listens.
    token
        What every request must show; empty where only this machine can ask.
    upload_bytes
        Of a request that brings a photo.
    """

    host: str = "127.0.0.1"
    token: str = field(default="", repr=False)
    upload_bytes: int = 32 * 2**20

    def knows_host(self, header: str) -> bool:
        """Whether a Host header names this server; a name of somebody else's may have been bent to this address.

        Examples
        --------
        >>> Door().knows_host("localhost:7860"), Door().knows_host("evil.example:7860")
        (True, False)
        """
        try:
            name = urlsplit(f"//{header}").hostname or ""
        except ValueError:
            return False
        if is_loopback(self.host):
            return name in _LOOPBACK or name == self.host
        own = socket.gethostname().casefold()
        return name in (self.host.casefold(), own, f"{own}.local", *_LOOPBACK) or _is_address(name)

    def admits(self, shown: str) -> bool:
        """Whether a token is the right one; how long that takes tells nothing."""
        return hmac.compare_digest(_digest(shown), _digest(self.token))


class Guard:
    """ASGI middleware: refuses before anything is read, and puts the rules for browsers on every answer."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self.app = app
        self.door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it here."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        has_begun = False

        async def send_with_rules(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        answer = self._answer(scope)
        if answer is not None:
            await answer(scope, receive, send_with_rules)
            return
        body = _Counted(receive, self._most_bytes(scope))
        try:
            await self.app(scope, body.receive, send_with_rules)
        except Exception as error:
            if has_begun:
                raise
            _LOG.exception("a request failed")
            answer = refusal(500, f"a failure of ours ({type(error).__name__})")
            await answer(scope, receive, send_with_rules)

    def _answer(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if not self.door.knows_host(headers.get("host", "")):
            return refusal(421, "this server does not go by that name")
        if _comes_from_elsewhere(scope["method"], headers):
            return refusal(403, "another site's page may not ask this server")
        if self.door.token and not self.door.admits(_shown(headers)):
            return self._newcomer(scope)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._most_bytes(scope):
            return refusal(413, TooLargeError(self._most_bytes(scope)).detail)
        return None

    def _newcomer(self, scope: Scope) -> Response:
        """Whoever opens the link with the token gets a cookie and the link without it; everybody else is refused."""
        asked = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["method"] == "GET" and scope["path"] == "/" and self.door.admits(asked.pop("token", [""])[0]):
            rest = urlencode(asked, doseq=True)
            entered = RedirectResponse(f"/?{rest}" if rest else "/", status_code=303)
            entered.set_cookie(COOKIE, self.door.token, httponly=True, samesite="lax", max_age=30 * 86400)
            return entered
        return refusal(
            401, "a token is needed: open the link that deixis serve printed", {"www-authenticate": "Bearer"}
        )

    def _most_bytes(self, scope: Scope) -> int:
        sent = Headers(scope=scope).get("content-type", "")
        return self.door.upload_bytes + JSON_BYTES if sent.startswith("multipart/") else JSON_BYTES


def refusal(status: int, line: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An error as the API says it."""
    return JSONResponse({"error": line}, status, headers)


class TooLargeError(HTTPException):
    """A request goes on beyond what it may hold."""

    def __init__(self, most: int) -> None:
        size = f"{most // 2**20} MB" if most >= 2**20 else f"{most // 2**10} kB"
        super().__init__(413, f"too large: at most {size} can be sent")


class _Counted:
    """Reads no more of a request than it may hold, whatever it says of its length."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._left = most
        self._most = most

    async def receive(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise TooLargeError(self._most)
        return message


def _comes_from_elsewhere(method: str, headers: Headers) -> bool:
    """Whether a page of another site asks: by what browsers say of it, or by its origin where they are old.

    Following a link to the page is no such thing: its reader has decided that.
    """
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        follows = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return not (method == "GET" and follows)
    origin = headers.get("origin")
    return origin is not None and _place(origin) != headers.get("host")


def _place(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _shown(headers: Headers) -> str:
    """The token in a request: in its header, or in the page's cookie."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.casefold() == "bearer":
        return given.strip()
    for cookie in _cookies(headers.getlist("cookie")):
        return cookie
    return ""


def _cookies(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        try:
            found = SimpleCookie(line).get(COOKIE)
        except CookieError:
            continue
        if found is not None:
            yield found.value


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
