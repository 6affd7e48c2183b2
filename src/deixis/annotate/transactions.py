"""Snapshots of photos, and transactions that add events to one photo.

A snapshot is a photo with all its events and the state derived from them. Snapshots are cached; a cached one is brought
up to date with the events that any process has added since.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, Connection, String, bindparam, insert, select, update

from deixis.annotate.events import Event, make_event
from deixis.annotate.material import Material
from deixis.annotate.quality import update_box_checks
from deixis.annotate.queue import update_questions
from deixis.annotate.state import PhotoState, derive_state, extend_state
from deixis.annotate.store import AFTER_COMMIT, events, photos, remarks
from deixis.annotate.webhooks import queue_messages
from deixis.annotate.workflow import Rules
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.annotate.project import Project

MAX_REMARK_LENGTH = 2000
_CACHE_SIZE = 5000

_PHOTO = bindparam("p_photo", type_=String)
_BY_NUMBER = bindparam("p_number", type_=BigInteger)

_LOCK_PHOTO = select(photos.c.place, photos.c.last_event).where(photos.c.id == _PHOTO).with_for_update()

_UPDATE_PHOTO = (
    update(photos)
    .where(photos.c.id == _PHOTO)
    .values({name: bindparam(name) for name in ("last_event", "chains", "waiting", "finished")})
)

_EVENTS_AFTER = (
    select(events.c.kind, events.c.number, events.c.worker, events.c.at, events.c.body)
    .where(events.c.photo == _PHOTO, events.c.number > _BY_NUMBER, events.c.known.is_(None))
    .order_by(events.c.number)
)

_EVENT_BY_KEY = select(events.c.number).where(events.c.key == bindparam("p_key"))


class RefusedError(DeixisError):
    """A request that is not allowed; nothing was changed."""


@dataclass(frozen=True, slots=True)
class PhotoSnapshot:
    """A photo with all its events and the state derived from them."""

    material: Material
    events: tuple[Event, ...]
    state: PhotoState

    @property
    def last_event(self) -> int:
        return self.events[-1].number if self.events else 0


class SnapshotCache:
    """The most recently used snapshots of committed states. Thread-safe."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._cached: OrderedDict[str, PhotoSnapshot] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, connection: Connection, photo: str, *, last_event: int | None = None) -> PhotoSnapshot:
        """Return the snapshot of a photo as this transaction sees it; `last_event`, if known, saves a query."""
        with self._lock:
            cached = self._cached.get(photo)
        if cached is None:
            return self.build(_read_material(connection, photo), _read_events(connection, photo, after=0))
        if cached.last_event == last_event:
            return cached
        return self.extend(cached, _read_events(connection, photo, after=cached.last_event))

    def build(self, material: Material, events: tuple[Event, ...]) -> PhotoSnapshot:
        return PhotoSnapshot(material, events, derive_state(material, events, self._rules))

    def extend(self, snapshot: PhotoSnapshot, new: tuple[Event, ...]) -> PhotoSnapshot:
        """Add events, one by one if `extend_state` can."""
        photo, events, state = snapshot.material.photo, snapshot.events, snapshot.state
        for event in new:
            extended = extend_state(state, photo, events, event, self._rules)
            if extended is None:
                return self.build(snapshot.material, (*snapshot.events, *new))
            state, events = extended, (*events, event)
        return PhotoSnapshot(snapshot.material, events, state) if new else snapshot

    def store(self, snapshot: PhotoSnapshot) -> None:
        if not snapshot.events:  # its material may still change, in any process
            return
        with self._lock:
            self._cached[snapshot.material.photo] = snapshot
            self._cached.move_to_end(snapshot.material.photo)
            while len(self._cached) > _CACHE_SIZE:
                self._cached.popitem(last=False)


def _read_material(connection: Connection, photo: str) -> Material:
    found = connection.execute(select(photos.c.material).where(photos.c.id == photo)).scalar()
    if found is None:
        raise DeixisError(f"no photo {photo!r} in this project")
    return Material.from_json(found)


def _read_events(connection: Connection, photo: str, *, after: int) -> tuple[Event, ...]:
    """Read the events of a photo without answers to known questions, which change no state."""
    rows = connection.execute(_EVENTS_AFTER, {"p_photo": photo, "p_number": after})
    return tuple(make_event(*row) for row in rows)


class PhotoTransaction:
    """Adds events to one photo, which is locked until the transaction ends."""

    def __init__(self, project: Project, connection: Connection, photo: str) -> None:
        self.photo, self.connection = photo, connection
        self._project = project
        # Locks the row on PostgreSQL; SQLite has a single writer.
        row = connection.execute(_LOCK_PHOTO, {"p_photo": photo}).first()
        if row is None:
            raise RefusedError(f"no photo {photo!r} in this project")
        self._position: int = row.place
        self._cache = project.snapshots  # fixed here, because edited settings replace the project's cache
        self.snapshot = self._cache.read(connection, photo, last_event=row.last_event)
        self._before = self.snapshot.state
        self._added: list[Event] = []

    def add_event(self, key: str, worker: str, kind: str, body: dict[str, Any], *, remark: str = "") -> int:
        """Insert an event and return its number; `apply` has to follow."""
        at = self._project.clock()
        number = insert_event(self.connection, key, self.photo, worker, at, kind, body, remark=remark)
        self._added.append(make_event(kind, number, worker, at, body))
        return number

    def replace_material(self, material: Material) -> None:
        """Change the phrases of a photo without events; `apply` has to follow."""
        self.snapshot = self._cache.build(material, ())

    def apply(self, *, answered: int | None = None) -> None:
        """Update state, queue, the row of the photo and the checks of boxes; `answered` is that of the queue."""
        added = tuple(self._added)
        self.snapshot = self._cache.extend(self.snapshot, added)
        self._added.clear()
        state = self.snapshot.state
        if self._project.webhooks:
            queue_messages(self._project, self.connection, self.photo, self._before, state, added)
        update_questions(self.connection, self.photo, self._position, state, answered)
        values = {"p_photo": self.photo, "last_event": self.snapshot.last_event} | photo_columns(state)
        self.connection.execute(_UPDATE_PHOTO, values)
        update_box_checks(self._project, self.connection, self._before, state)
        self._before = state
        self.connection.info[AFTER_COMMIT].append(partial(self._cache.store, self.snapshot))


@contextmanager
def change_photo(project: Project, photo: str) -> Iterator[PhotoTransaction]:
    """Run the block as one transaction on a photo."""
    with project.database.writing() as connection:
        yield PhotoTransaction(project, connection, photo)


def photo_columns(state: PhotoState) -> dict[str, Any]:
    """Return the columns of the table of photos that summarize a state."""
    return {"chains": len(state.chains), "waiting": len(state.review), "finished": state.finished}


def insert_event(
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
    """Insert an event with its remark and return its number. `key` is unique, so a repeated request adds no event."""
    values = {"key": key, "photo": photo, "worker": worker, "at": at, "kind": kind, "body": body}
    values |= {"task": body.get("task"), "seconds": body.get("seconds", 0.0), "known": known_question}
    number = int(connection.execute(insert(events), values).inserted_primary_key[0])  # type: ignore[index]
    # Databases cannot store NUL characters and unpaired surrogates.
    text = remark.replace("\0", "").encode(errors="replace").decode().strip()[:MAX_REMARK_LENGTH]
    if text:
        connection.execute(insert(remarks), {"event": number, "worker": worker, "text": text, "seen": False})
    return number


def find_event(connection: Connection, key: str) -> int | None:
    """Return the number of the event with a key."""
    found: int | None = connection.scalar(_EVENT_BY_KEY, {"p_key": key})
    return found
