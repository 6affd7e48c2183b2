"""All that the routes need, and what several of them do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deixis.annotate.assigning import Given
from deixis.annotate.project import Project
from deixis.server.annotate.outside import Workforce, assignment_of, progress_said
from deixis.server.annotate.pace import Pace
from deixis.server.annotate.photos import Gallery
from deixis.server.annotate.saying import External, PhotoSaid
from deixis.server.annotate.showing import photo_shown, question_shown
from deixis.server.annotate.visitors import Reception, Visitor
from deixis.server.annotate.writer import Writer
from deixis.server.answers import Error
from deixis.server.work import Workers

Errors = dict[int | str, dict[str, Any]]


@dataclass(frozen=True)
class Limits:
    """How often things may be tried.

    Attributes
    ----------
    answers_per_second, answers_at_once
        Questions and answers of one person.
    logins_per_minute, logins_at_once
        Tries to log in, for one name; ten times as many from one address.
    """

    answers_per_second: float = 5.0
    answers_at_once: float = 40.0
    logins_per_minute: float = 6.0
    logins_at_once: float = 8.0


@dataclass(frozen=True)
class Desk:
    """All that the routes need.

    Attributes
    ----------
    project, name
        The project, and how it is called.
    writer, reading, passwords
        The thread that writes, threads for what is only read, and one for passwords, which are slow on purpose.
    gallery, reception, workforce
        The photos, who asks, and people from outside.
    link
        Where pages are, as people open them: invitations begin with it.
    """

    project: Project
    name: str
    writer: Writer
    gallery: Gallery
    reception: Reception
    workforce: Workforce
    link: str
    limits: Limits
    reading: Workers = field(default_factory=lambda: Workers("reading", 4, 400))
    passwords: Workers = field(default_factory=lambda: Workers("passwords", 1, 300))

    async def question(self, given: Given | None, visitor: Visitor) -> dict[str, Any] | None:
        """A question as the page shows it."""
        if given is None:
            return None
        sight = self.gallery.kept_sight(given.photo)
        if sight is None:
            sight = await self.reading.run(self.gallery.sight, given.photo)
        return question_shown(given, sight, None if visitor.by_cookie else self.gallery.key_for(sight.id))

    def external(self, visitor: Visitor) -> External | None:
        """How far somebody from outside is."""
        assignment = visitor.session.assignment
        return progress_said(assignment_of(self.project, assignment)) if assignment is not None else None

    def photo(self, photo: str) -> PhotoSaid:
        """A photo as the page shows it."""
        return PhotoSaid(**photo_shown(self.gallery.sight(photo)))

    def join_link(self, token: str) -> str:
        """What to send to somebody who is invited; what follows # never reaches a log."""
        return f"{self.link}#/join/{token}"

    async def close(self) -> None:
        """Finish what waits, and let the threads go."""
        await self.writer.close()
        self.reading.close()
        self.passwords.close()


def login_paces(limits: Limits) -> tuple[Pace, Pace]:
    """How often a name, and an address, may try to log in."""
    per_second = limits.logins_per_minute / 60
    return Pace(per_second, limits.logins_at_once), Pace(10 * per_second, 10 * limits.logins_at_once)


def errors(*codes: int) -> Errors:
    """How OpenAPI describes what can go wrong."""
    return {code: {"model": Error} for code in codes}
