"""People from an outside workforce: what its pages say is checked, and its form is filled in."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

from deixis.annotate.project import Project
from deixis.annotate.workforce import Assignment, begin_assignment, find_assignment
from deixis.server.annotate.asking import Entering
from deixis.server.annotate.saying import External, Submit

NOT_YET = "ASSIGNMENT_ID_NOT_AVAILABLE"
"""What Mechanical Turk says instead of an assignment while somebody only looks."""

HOSTS = ("https://www.mturk.com", "https://workersandbox.mturk.com")
"""Where forms may be sent to, and whose pages may show ours in a frame."""

_SUBMIT_PATH = "/mturk/externalSubmit"


@dataclass(frozen=True)
class Workforce:
    """Where people from outside come from.

    Attributes
    ----------
    secret
        What signs the addresses that a workforce is given.
    hosts
        Of the workforce.
    """

    secret: bytes
    hosts: tuple[str, ...] = HOSTS

    def enter(self, project: Project, asked: Entering) -> Assignment:
        """Whoever comes with an assignment."""
        items = self.items_of(asked.key)
        if items is None:
            raise HTTPException(403, "this address was not made by this project")
        if not (asked.assignmentId and asked.hitId and asked.workerId):
            raise HTTPException(422, "assignmentId, hitId and workerId are needed")
        url = self.submit_url(asked.turkSubmitTo)
        return begin_assignment(project, asked.assignmentId, asked.hitId, asked.workerId, items, url)

    def submit_url(self, submit_to: str) -> str:
        """Where the form goes; refuses an address that is not the workforce's."""
        try:
            parts = urlsplit(submit_to)
            place = f"{parts.scheme}://{parts.netloc}"
        except ValueError:
            place = ""
        if place not in self.hosts:
            raise HTTPException(422, f"turkSubmitTo: not one of {', '.join(self.hosts)}")
        return place + _SUBMIT_PATH

    def key_for(self, items: int) -> str:
        """The key of an address that asks for so many questions."""
        signed = hmac.new(self.secret, f"outside {items}".encode(), hashlib.sha256).hexdigest()
        return f"{items}.{signed[:32]}"

    def items_of(self, key: str) -> int | None:
        """How many questions an address asks for; None where this project has not made it."""
        items = key.partition(".")[0]
        if not (items.isascii() and items.isdecimal() and len(items) < 6):
            return None
        return int(items) if hmac.compare_digest(key.encode(), self.key_for(int(items)).encode()) else None


def progress_said(assignment: Assignment, *, nothing_left: bool = False) -> External:
    """How far somebody is; the form, once they are done or there is nothing left for them."""
    fields = {"assignmentId": assignment.id, "answered": str(assignment.done)}
    form = Submit(url=assignment.submit_to, fields=fields) if assignment.is_done or nothing_left else None
    return External(items=assignment.items, done=assignment.done, submit=form)


def assignment_of(project: Project, assignment: str) -> Assignment:
    """The assignment of a session."""
    with project.database.reading() as connection:
        found = find_assignment(connection, assignment)
    if found is None:
        raise HTTPException(404, "this assignment is not known")
    return found
