"""Who asks: sessions in a cookie or a header, roles, and a sign that the request comes from a page of ours."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from deixis.annotate.people import Role, Worker
from deixis.annotate.project import Project
from deixis.annotate.sessions import LASTS_S, Session, csrf_of, end_session, find_session
from deixis.server.annotate.pace import Pace
from deixis.server.work import Workers

CSRF_HEADER = "x-deixis-csrf"
_KNOWN_FOR_S = 10.0
_MOST_KNOWN = 10_000
_SAFE = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who is logged in, and the token that they show."""

    session: Session
    token: str
    by_cookie: bool

    @property
    def worker(self) -> Worker:
        """Who it is."""
        return self.session.worker

    @property
    def id(self) -> str:
        """Their id."""
        return self.session.worker.id


class Reception:
    """Knows visitors again. Only for one thread: the event loop's.

    Parameters
    ----------
    project, reading
        Whose visitors, and threads to read its database in.
    cookie
        The name of the cookie: one for each project, as browsers do not tell ports of a machine apart.
    secure
        Whether browsers may send it over HTTPS only.
    answers
        How fast somebody may ask and answer.
    """

    def __init__(self, project: Project, reading: Workers, cookie: str, secure: bool, answers: Pace) -> None:
        self._project, self._reading, self._answers = project, reading, answers
        self._cookie, self._secure = cookie, secure
        self._known: OrderedDict[str, tuple[Session, float]] = OrderedDict()

    async def visitor(self, request: Request) -> Visitor | None:
        """Who asks; None where nobody is logged in."""
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        by_cookie = scheme.casefold() != "bearer"
        token = request.cookies.get(self._cookie, "") if by_cookie else shown.strip()
        if not token or len(token) > 100:
            return None
        session, seen_at = self._known.get(token, (None, 0.0))
        if session is None or time.monotonic() - seen_at > _KNOWN_FOR_S or session.until <= self._project.clock():
            session = await self._reading.run(find_session, self._project, token)
            self._known.pop(token, None)
            if session is None:
                return None
            self._known[token] = (session, time.monotonic())
            while len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return Visitor(session, token, by_cookie)

    async def worker(self, request: Request) -> Visitor:
        """Who asks; refuses whoever is not logged in, and what another site's page sends."""
        found = await self.visitor(request)
        if found is None:
            raise HTTPException(401, "you are not logged in")
        if found.by_cookie and request.method not in _SAFE:
            shown = request.headers.get(CSRF_HEADER, "")
            if not hmac.compare_digest(shown.encode(), csrf_of(found.token).encode()):
                raise HTTPException(403, "this page is out of date; load it again")
        return found

    async def busy_worker(self, request: Request) -> Visitor:
        """The same, for what could be done too fast."""
        found = await self.worker(request)
        refuse_haste(self._answers, found.id)
        return found

    async def reviewer(self, request: Request) -> Visitor:
        """Who asks, if they may review."""
        found = await self.worker(request)
        if not found.worker.reviews:
            raise HTTPException(403, "only reviewers and owners can do this")
        return found

    async def owner(self, request: Request) -> Visitor:
        """Who asks, if the project is theirs."""
        found = await self.worker(request)
        if found.worker.role is not Role.OWNER:
            raise HTTPException(403, "only owners can do this")
        return found

    def enter(self, response: Response, token: str) -> None:
        """Let the browser show a token from now on."""
        response.set_cookie(
            self._cookie, token, httponly=True, samesite="strict", secure=self._secure, max_age=int(LASTS_S)
        )

    async def leave(self, response: Response, visitor: Visitor) -> None:
        """Log out."""
        self._known.pop(visitor.token, None)
        await self._reading.run(end_session, self._project, visitor.token)
        response.delete_cookie(self._cookie, httponly=True, samesite="strict", secure=self._secure)

    def forget_all(self) -> None:
        """Look everybody up again: somebody's rights have changed."""
        self._known.clear()


def refuse_haste(pace: Pace, key: str) -> None:
    """Refuse what comes too fast, and say when to come again."""
    wait_s = pace.wait_s(key)
    if wait_s:
        raise HTTPException(429, "too fast; wait a moment", {"retry-after": str(int(wait_s) + 1)})
