"""Authentication: sessions in a cookie or a header, CSRF tokens, roles, passwords and rate limits."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from deixis.annotate.people import SESSION_SECONDS, Role, Session, Worker, csrf_token, end_session, find_session
from deixis.annotate.project import Project
from deixis.errors import DeixisError
from deixis.web.executor import BoundedExecutor
from deixis.web.rates import RateLimiter, network_of

CSRF_HEADER = "x-deixis-csrf"
MIN_PASSWORD_LENGTH, MAX_PASSWORD_LENGTH = 10, 200
_CACHE_S = 10.0
_MAX_ENTRIES = 10_000
_FREE_BY_NAME, _FREE_BY_ADDRESS = 5, 20
_MAX_DELAY_S = 60.0
_SAFE_METHODS = ("GET", "HEAD")


class LoginDelays:
    """Delays after wrong passwords, which double with each failure: by address, and by address and name.

    Others who try wrong passwords for a name delay only their own address, and nobody for longer than a minute. A
    request that is refused leaves no trace. Not thread-safe: for the event loop only.

    Examples
    --------
    >>> delays = LoginDelays(clock=lambda: 0.0)
    >>> for _ in range(6):
    ...     delays.failed("192.0.2.1", "ann")
    >>> delays.wait_s("192.0.2.1", "ann"), delays.wait_s("192.0.2.1", "bob"), delays.wait_s("192.0.2.7", "ann")
    (2.0, 0.0, 0.0)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # their number, and when the last one was

    def wait_s(self, address: str, name: str) -> float:
        """Return the seconds until the next attempt is allowed."""
        now = self._clock()
        return max(0.0, *(self._until(key, free) - now for key, free in self._keys(address, name)))

    def check(self, address: str, name: str) -> None:
        """Refuse an attempt that comes too early with status 429."""
        if wait_s := self.wait_s(address, name):
            raise HTTPException(429, "too many attempts; wait a moment", {"retry-after": str(int(wait_s) + 1)})

    def failed(self, address: str, name: str) -> None:
        """Record a wrong password."""
        for key, _ in self._keys(address, name):
            count, _ = self._failures.pop(key, (0, 0.0))
            self._failures[key] = (count + 1, self._clock())
        while len(self._failures) > _MAX_ENTRIES:
            self._failures.popitem(last=False)

    def succeeded(self, address: str, name: str) -> None:
        """Forget the failures with this name; those of the address stay, for others may share it."""
        self._failures.pop(self._keys(address, name)[1][0], None)

    def _until(self, key: str, free: int) -> float:
        count, last = self._failures.get(key, (0, 0.0))
        return last + min(2.0 ** (count - free), _MAX_DELAY_S) if count >= free else 0.0

    @staticmethod
    def _keys(address: str, name: str) -> tuple[tuple[str, int], tuple[str, int]]:
        """Return both keys, with the number of failures that cause no delay."""
        network = network_of(address)
        return (network, _FREE_BY_ADDRESS), (f"{network} {name.strip().casefold()}", _FREE_BY_NAME)


@cache
def _hasher() -> PasswordHasher:
    return PasswordHasher()


@cache
def _dummy_hash() -> str:
    return _hasher().hash("nobody has this password")


def hash_password(password: str) -> str:
    if not MIN_PASSWORD_LENGTH <= len(password) <= MAX_PASSWORD_LENGTH:
        raise DeixisError(f"a password has {MIN_PASSWORD_LENGTH} to {MAX_PASSWORD_LENGTH} characters")
    return _hasher().hash(password.encode(errors="replace"))


def verify_password(password_hash: str | None, password: str) -> bool:
    """Compare a password with a hash; None takes as long and is never right, so that names cannot be guessed."""
    try:
        _hasher().verify(password_hash or _dummy_hash(), password.encode(errors="replace"))
    except (Argon2Error, InvalidHashError):
        return False
    return password_hash is not None


@dataclass(frozen=True, slots=True)
class AuthenticatedUser:
    """A worker who is logged in, and the session token of the request."""

    session: Session
    token: str
    by_cookie: bool

    @property
    def worker(self) -> Worker:
        return self.session.worker

    @property
    def id(self) -> str:
        return self.session.worker.id


class Authentication:
    """Finds the user of a request. Not thread-safe: for the event loop only."""

    def __init__(
        self, project: Project, readers: BoundedExecutor, cookie: str, secure: bool, limiter: RateLimiter
    ) -> None:
        self._project, self._readers, self._limiter = project, readers, limiter
        self._cookie, self._secure = cookie, secure
        self._sessions: OrderedDict[str, tuple[Session, float]] = OrderedDict()

    async def find_user(self, request: Request) -> AuthenticatedUser | None:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        by_cookie = scheme.casefold() != "bearer"
        token = request.cookies.get(self._cookie, "") if by_cookie else bearer.strip()
        if not token or len(token) > 100:
            return None
        session, read_at = self._sessions.get(token, (None, 0.0))
        if session is None or time.monotonic() - read_at > _CACHE_S or session.until <= self._project.clock():
            session = await self._readers.run(find_session, self._project, token)
            self._sessions.pop(token, None)
            if session is None:
                return None
            self._sessions[token] = (session, time.monotonic())
            while len(self._sessions) > _MAX_ENTRIES:
                self._sessions.popitem(last=False)
        return AuthenticatedUser(session, token, by_cookie)

    async def require_user(self, request: Request, *, limited: bool = False) -> AuthenticatedUser:
        """Refuse requests without a session, from pages of other sites and, if `limited`, above the rate limit."""
        user = await self.find_user(request)
        if user is None:
            raise HTTPException(401, "you are not logged in")
        if user.by_cookie and request.method not in _SAFE_METHODS:
            header = request.headers.get(CSRF_HEADER, "")
            if not hmac.compare_digest(header.encode(), csrf_token(user.token).encode()):
                raise HTTPException(403, "this page is out of date; reload it")
        if limited:
            self._limiter.check(user.id)
        return user

    async def require_reviewer(self, request: Request) -> AuthenticatedUser:
        user = await self.require_user(request)
        if not user.worker.can_review:
            raise HTTPException(403, "only reviewers and owners can do this")
        return user

    async def require_owner(self, request: Request) -> AuthenticatedUser:
        user = await self.require_user(request)
        if user.worker.role is not Role.OWNER:
            raise HTTPException(403, "only owners can do this")
        return user

    def set_cookie(self, response: Response, token: str) -> None:
        response.set_cookie(
            self._cookie, token, max_age=int(SESSION_SECONDS), httponly=True, samesite="strict", secure=self._secure
        )

    async def log_out(self, response: Response, user: AuthenticatedUser) -> None:
        self._sessions.pop(user.token, None)
        await self._readers.run(end_session, self._project, user.token)
        response.delete_cookie(self._cookie, httponly=True, samesite="strict", secure=self._secure)

    def clear_cache(self) -> None:
        """Read all sessions again, because the rights of a user have changed."""
        self._sessions.clear()
