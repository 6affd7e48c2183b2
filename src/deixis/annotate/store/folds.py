"""The states of photos, kept between requests: only events that are new are read and folded."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from sqlalchemy import Connection, select

from deixis.annotate.advancing import advanced
from deixis.annotate.events import Event, event_from
from deixis.annotate.material import Material
from deixis.annotate.settings import Settings
from deixis.annotate.state import PhotoState, photo_state
from deixis.annotate.store import statements
from deixis.annotate.store.schema import photos
from deixis.errors import DeixisError

_KEPT = 5000


@dataclass(frozen=True, slots=True)
class Folded:
    """A photo with all of its events, and the state that they make."""

    material: Material
    events: tuple[Event, ...]
    state: PhotoState

    @property
    def last(self) -> int:
        """The number of the last event."""
        return self.events[-1].number if self.events else 0


class Folds:
    """The photos that were looked at last. May be used by several threads.

    A fold that is kept is only a beginning: whoever asks is given the events that were added since, by this process or
    another. Only what was committed may be kept, so inside a transaction that writes, `keep` comes after the commit.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept: OrderedDict[str, Folded] = OrderedDict()
        self._lock = threading.Lock()

    def at(self, connection: Connection, photo: str, *, last: int | None = None) -> Folded:
        """The state of a photo, as this transaction sees it; `last` is the number of its last event, where known."""
        with self._lock:
            known = self._kept.get(photo)
        if known is None:
            return self.fold(read_material(connection, photo), read_events(connection, photo))
        if known.last == last:
            return known
        return self.further(known, read_events(connection, photo, after=known.last))

    def fold(self, material: Material, all_events: tuple[Event, ...]) -> Folded:
        """Fold events as this project's settings say."""
        state = photo_state(material, all_events, self._settings.rules, independent=self._settings.independent)
        return Folded(material, all_events, state)

    def further(self, known: Folded, new: tuple[Event, ...]) -> Folded:
        """Fold new events of a photo, one by one as far as that goes, and otherwise all anew."""
        rules, independent = self._settings.rules, self._settings.independent
        photo, so_far, state = known.material.photo, known.events, known.state
        for event in new:
            further = advanced(state, photo, so_far, event, rules, independent=independent)
            if further is None:
                return self.fold(known.material, (*known.events, *new))
            state, so_far = further, (*so_far, event)
        return Folded(known.material, so_far, state) if new else known

    def keep(self, folded: Folded) -> None:
        """Remember a state that is committed."""
        with self._lock:
            self._kept[folded.material.photo] = folded
            self._kept.move_to_end(folded.material.photo)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)


def read_material(connection: Connection, photo: str) -> Material:
    """The material of a photo."""
    found = connection.execute(select(photos.c.material).where(photos.c.id == photo)).scalar()
    if found is None:
        raise DeixisError(f"there is no photo {photo!r} in this project")
    return Material.from_json(found)


def read_size(connection: Connection, photo: str) -> tuple[int, int]:
    """Width and height of a photo."""
    found = connection.execute(select(photos.c.material).where(photos.c.id == photo)).scalar()
    return (found["width"], found["height"]) if found else (0, 0)


def read_events(connection: Connection, photo: str, *, after: int = 0) -> tuple[Event, ...]:
    """The events of a photo, without answers to known questions, which change nothing."""
    rows = connection.execute(statements.EVENTS_AFTER, {"its_photo": photo, "its_number": after})
    return tuple(event_from(*row) for row in rows)
