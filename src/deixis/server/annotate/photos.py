"""The photos of a project on their way out: named by ids that say nothing, encoded anew, and kept for the next."""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from deixis.annotate.project import Project
from deixis.annotate.store.schema import photos
from deixis.errors import DeixisError
from deixis.server.pictures import LONGEST_SIDE, picture_of

_KEPT_BYTES = 256 * 2**20
_KEPT_SIGHTS = 50_000
_LOOK_AGAIN_S = 2.0
_KEY_LASTS_S = 86400


class UnknownPhotoError(DeixisError):
    """An id names no photo of this project."""

    def __init__(self) -> None:
        super().__init__("there is no such photo in this project")


class NoPictureError(DeixisError):
    """A photo of which the project has only the size."""

    def __init__(self) -> None:
        super().__init__("this project has no picture of that photo")


@dataclass(frozen=True, slots=True)
class Sight:
    """What is shown of a photo, and never changes."""

    id: str
    width: int
    height: int
    captions: tuple[str, ...]
    file: str | None


class Gallery:
    """The photos of a project. May be used by several threads.

    Parameters
    ----------
    project
        Whose.
    secret
        What makes ids that nobody can guess, and that mean nothing in another project.
    """

    def __init__(self, project: Project, secret: bytes) -> None:
        self._project, self._secret = project, secret
        self._names: dict[str, str] = {}
        self._looked_at = 0.0
        self._sights: OrderedDict[str, Sight] = OrderedDict()
        self._pictures: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def id_of(self, photo: str) -> str:
        """The id of a photo, for the world."""
        return f"p{self._signed(f'photo {photo}')[:24]}"

    def photo_of(self, shown: str) -> str:
        """The photo of an id."""
        if shown not in self._names:
            self._look_again()
        try:
            return self._names[shown]
        except KeyError:
            raise UnknownPhotoError from None

    def kept_sight(self, photo: str) -> Sight | None:
        """What is shown of a photo, if it need not be read."""
        return self._sights.get(photo)

    def sight(self, photo: str) -> Sight:
        """What is shown of a photo."""
        kept = self._sights.get(photo)
        if kept is not None:
            return kept
        with self._project.database.reading() as connection:
            plain = connection.scalar(select(photos.c.material).where(photos.c.id == photo))
        if plain is None:
            raise UnknownPhotoError
        size = plain["width"], plain["height"]
        sight = Sight(self.id_of(photo), *size, tuple(plain["captions"]), plain["file"])
        with self._lock:
            self._sights[photo] = sight
            self._names.setdefault(sight.id, photo)
            while len(self._sights) > _KEPT_SIGHTS:
                self._sights.popitem(last=False)
        return sight

    def picture(self, shown: str, side: int = LONGEST_SIDE) -> bytes:
        """A photo as a JPEG of ours."""
        name = shown, side
        with self._lock:
            if name in self._pictures:
                self._pictures.move_to_end(name)
                return self._pictures[name]
        encoded = picture_of(self._path(self.photo_of(shown)), side)
        with self._lock:
            if name not in self._pictures:
                self._pictures[name] = encoded
                self._bytes += len(encoded)
            while self._bytes > _KEPT_BYTES:
                self._bytes -= len(self._pictures.popitem(last=False)[1])
        return encoded

    def key_for(self, shown: str) -> str:
        """What lets a page see a photo where browsers send no cookie, for a day or two."""
        until = (int(time.time()) // _KEY_LASTS_S + 2) * _KEY_LASTS_S
        return f"{until}.{self._signed(f'see {shown} until {until}')[:32]}"

    def is_key_for(self, shown: str, key: str) -> bool:
        """Whether a key is one of `key_for`'s and not too old."""
        until, _, signed = key.partition(".")
        if not (until.isascii() and until.isdecimal() and len(until) < 12 and int(until) > time.time()):
            return False
        return hmac.compare_digest(signed.encode(), self._signed(f"see {shown} until {until}")[:32].encode())

    def _path(self, photo: str) -> Path:
        file, folder = self.sight(photo).file, self._project.images
        if file is None or folder is None:
            raise NoPictureError
        path = Path(os.path.normpath(folder / file))
        if not path.is_relative_to(folder):
            raise NoPictureError
        return path

    def _look_again(self) -> None:
        """Photos are added while people work; whoever guesses ids does not make us look all the time."""
        with self._lock:
            if self._names and time.monotonic() - self._looked_at < _LOOK_AGAIN_S:
                return
            self._looked_at = time.monotonic()
        with self._project.database.reading() as connection:
            names = {self.id_of(photo): photo for photo in connection.scalars(select(photos.c.id))}
        self._names = names

    def _signed(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(errors="replace"), hashlib.sha256).hexdigest()
