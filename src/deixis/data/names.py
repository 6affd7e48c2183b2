"""Photo names and ids: matching by stem or Flickr number, unique ids, and collecting captions by photo."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Generic, TypeVar

from deixis.data.records import AnnotationSource, Caption, Photo
from deixis.errors import DatasetError
from deixis.storage.files import is_file_name


@dataclass(frozen=True)
class CaptionSource:
    """Photos read from a file, each once with all its captions. Boxes are in pixels of the size in the file."""

    kind: str
    photos: Iterator[Photo]
    total: int


_FLICKR_NAME = re.compile(r"(\d+)_[0-9a-f]{8,12}(?:_[a-z])?")
_SUFFIX = re.compile(r"\.(?:jpe?g|jpe|jfif|png|webp|hei[cf]|tiff?|bmp|gif)", re.IGNORECASE)

T = TypeVar("T")


def photo_stem(name: str) -> str:
    """Return the name of a photo without folders and without an image suffix."""
    path = PurePosixPath(name.replace("\\", "/"))
    return path.stem if _SUFFIX.fullmatch(path.suffix) else path.name


def flickr_number(stem: str) -> str | None:
    if stem.isdecimal():
        return stem
    found = _FLICKR_NAME.fullmatch(stem)
    return found[1] if found else None


class NameIndex(Generic[T]):
    """Values by photo stem. A name that is no stem is looked up by its Flickr number, if that is unique."""

    def __init__(self, by_stem: Mapping[str, T]) -> None:
        self.by_stem = by_stem
        self._stem_of_number: dict[str, str | None] = {}
        for stem in by_stem:
            number = flickr_number(stem)
            if number is not None:
                self._stem_of_number[number] = None if number in self._stem_of_number else stem

    def stem(self, name: str) -> str | None:
        if name in self.by_stem:
            return name
        number = flickr_number(name)
        return self._stem_of_number.get(number) if number is not None else None

    def find(self, name: str) -> T | None:
        stem = self.stem(name)
        return None if stem is None else self.by_stem[stem]


def parse_name_list(lines: Iterable[str]) -> list[str]:
    """Return the stems in a list of names, one per line. Blank lines and lines that start with # are skipped."""
    return [photo_stem(line.strip()) for line in lines if line.strip() and not line.startswith("#")]


MakeError = Callable[[str], DatasetError]
"""Creates an error that names a file and a position from a message."""


def quote_text(text: str) -> str:
    """Quote and shorten a text from a file for a message."""
    return repr(text if len(text) <= 80 else f"{text[:79]}…")


class PhotoIds:
    """Assigns an id to each photo name of a file, so that no two photos have the same id."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def get(self, name: str, error: MakeError) -> str:
        """Return the id of a photo name, which may occur several times."""
        if name in self._ids:
            return self._ids[name]
        found = photo_stem(name)
        if not is_file_name(found):
            raise error(f"{quote_text(name)} is not a valid photo name")
        if found in self._names:
            both = f"{quote_text(self._names[found])} and {quote_text(name)}"
            raise error(f"{both} have the same photo id {quote_text(found)}")
        self._ids[name], self._names[found] = found, name
        return found

    def add_new(self, name: str, error: MakeError) -> str:
        if name in self._ids:
            raise error(f"duplicate photo {quote_text(name)}")
        return self.get(name, error)


def error_at_line(file: Path, number: int) -> MakeError:
    """Return a function that creates errors about a line."""
    return lambda message: DatasetError(f"{file}: line {number}: {message}")


def check_split_name(name: str, error: MakeError) -> str:
    """Return the name of a split, which must be a valid file name."""
    if not is_file_name(name):
        raise error(f"{quote_text(name)} is not a valid split name")
    return name


@dataclass(slots=True)
class _Entry:
    name: str
    sentences: list[tuple[int, str]] = field(default_factory=list)
    splits: dict[str, None] = field(default_factory=dict)


class CaptionCollector:
    """Collects captions by photo. Photos keep the order of their first captions."""

    def __init__(self) -> None:
        self._names = PhotoIds()
        self._entries: dict[str, _Entry] = {}

    def add(self, name: str, sentence: str, error: MakeError, *, number: int = 0, split: str = "") -> None:
        """Add a caption. The captions of a photo are sorted by `number`, otherwise in the order of addition."""
        photo_id = self._names.get(name, error)
        text = sentence.strip()
        if not text:
            raise error("the caption is empty")
        entry = self._entries.setdefault(photo_id, _Entry(name))
        entry.sentences.append((number, text))
        if split:
            entry.splits[check_split_name(split, error)] = None

    def source(self, kind: str) -> CaptionSource:
        return CaptionSource(kind, self._photos(), len(self._entries))

    def _photos(self) -> Iterator[Photo]:
        for photo_id, entry in self._entries.items():
            ordered = sorted(entry.sentences, key=itemgetter(0))
            yield Photo(
                photo_id,
                tuple(Caption.from_text(text) for _, text in ordered),
                splits=tuple(entry.splits),
                annotated=AnnotationSource(photo_id, entry.name),
            )
