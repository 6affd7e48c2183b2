"""The photos of a project as the web application shows them: with opaque ids, and encoded again."""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select

from deixis.annotate.material import parse_mention_id
from deixis.annotate.project import Project
from deixis.annotate.queue import LeasedQuestion
from deixis.annotate.store import photos
from deixis.annotate.workflow import Rules, Task
from deixis.errors import DeixisError
from deixis.web.pages import MAX_SIDE, encode_jpeg

_MAX_PICTURE_BYTES = 256 * 2**20
_MAX_VIEWS = 50_000
_ID_REFRESH_S = 2.0
_KEY_SECONDS = 86400


class UnknownPhotoError(DeixisError):
    """The id names no photo of this project."""

    def __init__(self) -> None:
        super().__init__("no such photo in this project")


class NoPictureError(DeixisError):
    """The project has no image file of a photo."""

    def __init__(self) -> None:
        super().__init__("this project has no image file of this photo")


@dataclass(frozen=True, slots=True)
class PhotoView:
    """The parts of a photo that pages show; they never change."""

    id: str
    width: int
    height: int
    captions: tuple[str, ...]
    file: str | None
    folder: int = 0
    base: str = ""  # path of the project on the server


class PhotoLibrary:
    """The photos of a project under signed public ids, which cannot be guessed, with caches. Thread-safe."""

    def __init__(self, project: Project, secret: bytes, base: str = "") -> None:
        self._project, self._secret, self._base = project, secret, base
        self._names: dict[str, str] = {}
        self._names_read_at = 0.0
        self._views: OrderedDict[str, PhotoView] = OrderedDict()
        self._pictures: OrderedDict[tuple[str, int], bytes] = OrderedDict()
        self._picture_bytes = 0
        self._lock = threading.Lock()

    def public_id(self, photo: str) -> str:
        return f"p{self._sign(f'photo {photo}')[:24]}"

    def find_photo(self, public_id: str) -> str:
        """Return the photo with a public id."""
        if public_id not in self._names:
            self._read_names()
        try:
            return self._names[public_id]
        except KeyError:
            raise UnknownPhotoError from None

    def cached_view(self, photo: str) -> PhotoView | None:
        return self._views.get(photo)

    def read_view(self, photo: str) -> PhotoView:
        cached = self._views.get(photo)
        if cached is not None:
            return cached
        with self._project.database.reading() as connection:
            material = connection.scalar(select(photos.c.material).where(photos.c.id == photo))
        if material is None:
            raise UnknownPhotoError
        size, captions = (material["width"], material["height"]), tuple(material["captions"])
        place = material["file"], material.get("folder", 0), self._base
        view = PhotoView(self.public_id(photo), *size, captions, *place)
        with self._lock:
            self._views[photo] = view
            self._names.setdefault(view.id, photo)
            while len(self._views) > _MAX_VIEWS:
                self._views.popitem(last=False)
        return view

    def read_picture(self, public_id: str, side: int = MAX_SIDE) -> bytes:
        """Return a photo as JPEG, with the given longest side."""
        key = public_id, side
        with self._lock:
            if key in self._pictures:
                self._pictures.move_to_end(key)
                return self._pictures[key]
        path, folder = self._path(self.find_photo(public_id))
        encoded = encode_jpeg(path, side, folder)
        with self._lock:
            if key not in self._pictures:
                self._pictures[key] = encoded
                self._picture_bytes += len(encoded)
            while self._picture_bytes > _MAX_PICTURE_BYTES:
                self._picture_bytes -= len(self._pictures.popitem(last=False)[1])
        return encoded

    def make_key(self, public_id: str) -> str:
        """Make a key that lets a page load a photo without a cookie, for one to two days."""
        until = (int(time.time()) // _KEY_SECONDS + 2) * _KEY_SECONDS
        return f"{until}.{self._sign(f'see {public_id} until {until}')[:32]}"

    def is_valid_key(self, public_id: str, key: str) -> bool:
        until, _, signature = key.partition(".")
        if not (until.isascii() and until.isdecimal() and len(until) < 12 and int(until) > time.time()):
            return False
        expected = self._sign(f"see {public_id} until {until}")[:32]
        return hmac.compare_digest(signature.encode(), expected.encode())

    def _path(self, photo: str) -> tuple[Path, Path]:
        """Return the file of a photo, and the folder, without links, in which it must be."""
        view = self.read_view(photo)
        file, folder = view.file, self._project.image_folder(view.folder)
        if file is None or folder is None:
            raise NoPictureError
        path = Path(os.path.normpath(folder / file))
        if not path.is_relative_to(folder):
            raise NoPictureError
        return path, folder.resolve()

    def _read_names(self) -> None:
        """Read the ids of all photos, at most every two seconds, so that guessed ids cause no load."""
        with self._lock:
            if self._names and time.monotonic() - self._names_read_at < _ID_REFRESH_S:
                return
            self._names_read_at = time.monotonic()
        with self._project.database.reading() as connection:
            names = {self.public_id(photo): photo for photo in connection.scalars(select(photos.c.id))}
        self._names = names

    def _sign(self, text: str) -> str:
        return hmac.new(self._secret, text.encode(errors="replace"), hashlib.sha256).hexdigest()


def describe_photo(view: PhotoView, key: str | None = None) -> dict[str, Any]:
    """Describe a photo; `key` becomes part of its address if the browser sends no cookie."""
    url = f"{view.base}/api/photos/{view.id}/image" + (f"?key={key}" if key else "")
    return {"id": view.id, "width": view.width, "height": view.height, "url": url}


def split_caption(text: str, spans: Iterable[tuple[int, int, str]]) -> list[dict[str, str | None]]:
    """Split a caption at its mentions."""
    parts: list[dict[str, str | None]] = []
    position = 0
    for start, end, mention in sorted(spans):
        if start < position:  # overlapping mentions cannot be shown
            continue
        if start > position:
            parts.append({"text": text[position:start], "mention": None})
        parts.append({"text": text[start:end], "mention": mention})
        position = end
    if position < len(text):
        parts.append({"text": text[position:], "mention": None})
    return parts


def split_captions(captions: Iterable[tuple[int, str]], mentions: Iterable[str]) -> list[dict[str, Any]]:
    """Split numbered captions at the given mentions."""
    spans: dict[int, list[tuple[int, int, str]]] = {}
    for mention in mentions:
        caption, start, end = parse_mention_id(mention)
        spans.setdefault(caption, []).append((start, end, mention))
    return [{"number": number, "parts": split_caption(text, spans.get(number, []))} for number, text in captions]


def describe_question(
    question: LeasedQuestion, view: PhotoView, rules: Rules, key: str | None = None, guideline: int = 0
) -> dict[str, Any]:
    """Describe a question with all that a page shows; about a photo without mentions, that is all of its captions."""
    content = question.content
    mentions = []
    for mention in content["mentions"]:
        caption, start, end = parse_mention_id(mention)
        mentions.append({"id": mention, "text": view.captions[caption][start:end], "caption": caption})
    numbers = sorted({mention["caption"] for mention in mentions}) or range(len(view.captions))
    own = rules.question if question.task is Task.OWN else None
    return {
        "token": question.token,
        "task": question.task.value,
        "test": question.test,
        "until": question.until,
        "photo": describe_photo(view, key),
        "captions": split_captions([(number, view.captions[number]) for number in numbers], content["mentions"]),
        "mentions": mentions,
        "boxes": content["boxes"],
        "box_models": content.get("box_models") or [None] * len(content["boxes"]),
        "new_box": content["new_box"],
        "answers": list(rules.answers_of(question.task)),
        "own": {"text": own.text, "hint": own.hint, "is_rating": own.rating > 0} if own else None,
        "proposal": content.get("proposal"),
        "guideline": guideline,
    }
