"""Captions that come one by one, put together by photo."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

from deixis.data.readers.names import Names, Wrong, shown
from deixis.data.readers.source import Source
from deixis.data.records import Annotated, Caption, Photo
from deixis.errors import DatasetError
from deixis.files.names import is_plain


def at_line(file: Path, number: int) -> Wrong:
    """How to make an error about a line.

    Examples
    --------
    >>> at_line(Path("captions.csv"), 3)("the caption is empty")
    DatasetError('captions.csv: line 3: the caption is empty')
    """
    return lambda what: DatasetError(f"{file}: line {number}: {what}")


def split_name(name: str, wrong: Wrong) -> str:
    """The name of a split, which must be fit to name a file."""
    if not is_plain(name):
        raise wrong(f"{shown(name)} cannot be the name of a split")
    return name


@dataclass(slots=True)
class _Entry:
    name: str
    sentences: list[tuple[int, str]] = field(default_factory=list)
    splits: dict[str, None] = field(default_factory=dict)


class Gathered:
    """Photos in the order of their first captions; a photo's captions need not stand together.

    Examples
    --------
    >>> gathered = Gathered()
    >>> gathered.add("1.jpg", "A dog .", DatasetError)
    >>> gathered.add("2.jpg", "A cat .", DatasetError)
    >>> gathered.add("1.jpg", "It runs .", DatasetError)
    >>> [(photo.id, len(photo.captions)) for photo in gathered.source("example").photos]
    [('1', 2), ('2', 1)]
    """

    def __init__(self) -> None:
        self._names = Names()
        self._entries: dict[str, _Entry] = {}

    def add(self, name: str, sentence: str, wrong: Wrong, *, number: int = 0, split: str = "") -> None:
        """Add a caption; those of a photo are sorted by their `number`, equal ones stay as they came."""
        photo_id = self._names.id_of(name, wrong)
        text = sentence.strip()
        if not text:
            raise wrong("the caption is empty")
        entry = self._entries.setdefault(photo_id, _Entry(name))
        entry.sentences.append((number, text))
        if split:
            entry.splits[split_name(split, wrong)] = None

    def source(self, kind: str) -> Source:
        """All photos, now that all captions are there."""
        return Source(kind, self._photos(), len(self._entries))

    def _photos(self) -> Iterator[Photo]:
        for photo_id, entry in self._entries.items():
            ordered = sorted(entry.sentences, key=itemgetter(0))
            yield Photo(
                photo_id,
                tuple(Caption.from_text(text) for _, text in ordered),
                splits=tuple(entry.splits),
                annotated=Annotated(photo_id, entry.name),
            )
