"""A photo in the hands of a transaction: locked, given events, its questions brought up to date."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, insert

from deixis.annotate import control
from deixis.annotate.events import Event, event_from
from deixis.annotate.material import Material
from deixis.annotate.project import Project
from deixis.annotate.state import PhotoState
from deixis.annotate.store import statements
from deixis.annotate.store.folds import Folded
from deixis.annotate.store.schema import remarks
from deixis.annotate.waiting import follow_questions, summary, update_questions
from deixis.errors import DeixisError

LONGEST_REMARK = 2000


class RefusedError(DeixisError):
    """Something that is not taken, and why; nothing was changed."""


class Changing:
    """A photo that one transaction changes; nobody else can until it ends."""

    def __init__(self, project: Project, connection: Connection, photo: str) -> None:
        self.photo = photo
        self._project, self._connection = project, connection
        # PostgreSQL keeps others away from this row; SQLite has one writer anyhow.
        row = connection.execute(statements.PHOTO_LOCKED, {"its_photo": photo}).first()
        if row is None:
            raise RefusedError(f"there is no photo {photo!r} in this project")
        self._place: int = row.place
        self._folds = project.folds  # not those of settings that are edited meanwhile
        self.folded: Folded = self._folds.at(connection, photo, last=row.last_event)
        self._added: list[Event] = []
        self._before: PhotoState | None = None

    def add(self, key: str, worker: str, kind: str, body: dict[str, Any], *, remark: str = "") -> int:
        """Add an event; its number."""
        at = self._project.clock()
        number = add_event(self._connection, key, self.photo, worker, at, kind, body, remark=remark)
        self._added.append(event_from(kind, number, worker, at, body))
        return number

    def settle(self, *, answered: int | None = None, anew: bool = False) -> None:
        """Fold what was added, and let the questions and the checks of boxes follow.

        Parameters
        ----------
        answered
            The number of the question that was answered.
        anew
            Do not trust the questions to be those of the state so far.
        """
        before = self._before or self.folded.state
        self.folded = self._folds.further(self.folded, tuple(self._added))
        self._added.clear()
        state = self.folded.state
        if anew or self._project.following:
            update_questions(self._connection, self.photo, self._place, state)
        else:
            follow_questions(self._connection, self.photo, self._place, before, state, answered)
        values = {"its_photo": self.photo, "last_event": self.folded.last} | summary(state)
        self._connection.execute(statements.PHOTO_SETTLED, values)
        control.update_box_checks(self._project, self._connection, before, state)

    def begin_with(self, material: Material) -> None:
        """The photo, of which nothing was said yet, has other phrases."""
        self._before = self.folded.state
        self.folded = self._folds.fold(material, ())

    def keep(self) -> None:
        """Remember the state; after the commit."""
        self._folds.keep(self.folded)


def add_event(
    connection: Connection,
    key: str,
    photo: str,
    worker: str,
    at: float,
    kind: str,
    body: dict[str, Any],
    *,
    remark: str = "",
    known_question: int | None = None,
) -> int:
    """Add an event, and what its worker wrote with it; its number."""
    values = {"key": key, "photo": photo, "worker": worker, "at": at, "kind": kind, "body": body}
    values |= {"task": body.get("task"), "seconds": body.get("seconds", 0.0), "known": known_question}
    number = int(connection.execute(statements.NEW_EVENT, values).inserted_primary_key[0])  # type: ignore[index]
    if text := _storable(remark):
        connection.execute(insert(remarks), {"event": number, "worker": worker, "text": text, "seen": False})
    return number


def _storable(remark: str) -> str:
    """What somebody wrote, without what no database can hold."""
    return remark.replace("\0", "").encode(errors="replace").decode().strip()[:LONGEST_REMARK]


def event_of(connection: Connection, key: str) -> int | None:
    """The number of the event that was recorded under a key, if one was."""
    found: int | None = connection.scalar(statements.EVENT_OF_KEY, {"its_key": key})
    return found
