"""One index into another, of whichever kind: from a folder into a database, or back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from deixis.errors import DeixisError
from deixis.files.progress import OnProgress, silent
from deixis.index import records
from deixis.index.about import About
from deixis.index.connection import Connection
from deixis.index.database import DATABASE, open_to_read, plainly, read_about
from deixis.index.places import Place, is_address, shown
from deixis.index.records import IndexedPhoto
from deixis.index.seeing import Seen
from deixis.index.walking import FoundFile
from deixis.index.writing import Writer, opened_to_write

_BATCH = 64


@dataclass
class CopyReport:
    """What became of the photos of an index that was copied.

    Attributes
    ----------
    copied, unchanged
        Photos that were written, and those that were there already, in every detail.
    skipped
        Files that could not be used, whose reasons were copied.
    photos
        How many the other index holds now.
    """

    copied: int = 0
    unchanged: int = 0
    skipped: int = 0
    photos: int = 0


def copy_index(source: Place, into: Place, *, on_progress: OnProgress = silent) -> CopyReport:
    """Copy what was seen in the photos of an index into another one, which is begun if it is not there.

    Every photo is read back and compared. Stopped or killed and run again, it writes only what is not there yet. Photos
    that are in the other index only stay there, so several can be copied into one. No photo file is opened.

    Parameters
    ----------
    source
        The directory of an index, or the address of a database.
    into
        Likewise. If photos of another model are in it, it is refused.
    on_progress
        Called as the work goes on.

    Raises
    ------
    DeixisError
        There is no such index, it is of another model, the two are one, or what was written is not what is read back.
    """
    with _opened(source) as original, opened_to_write(into, original.about) as writer:
        if _uid(writer.connection) == original.about.uid:
            raise DeixisError(f"{shown(into)}: is the index that is to be copied; give another place")
        return _Copy(original, writer, shown(into), on_progress).run()


@dataclass(frozen=True)
class _Original:
    """An index that is read: its database, and how the troubles of that one, not of the other, are told."""

    connection: Connection
    about: About
    plainly: Callable[[], AbstractContextManager[None]]


@contextmanager
def _opened(place: Place) -> Iterator[_Original]:
    if is_address(place):
        from deixis.index.postgres.archive import opened_to_read

        with opened_to_read(str(place)) as (connection, about, plainly_told):
            yield _Original(connection, about, plainly_told)
        return
    folder = Path(place)
    with closing(open_to_read(folder)) as connection:
        yield _Original(connection, read_about(connection, folder / DATABASE), partial(plainly, folder / DATABASE))


def _uid(connection: Connection) -> str:
    return str(connection.execute("SELECT value FROM about WHERE key = 'uid'").fetchone()[0])


class _Copy:
    """One run over the photos of an index, by ascending number."""

    def __init__(self, original: _Original, writer: Writer, into: str, on_progress: OnProgress) -> None:
        self.original, self.writer, self.into, self.on_progress = original, writer, into, on_progress
        self.report = CopyReport()

    def run(self) -> CopyReport:
        with self.original.plainly():
            total = records.count(self.original.connection)
        for photos in self._batches():
            self._copy(photos)
            self.on_progress("copying photos", self.report.copied + self.report.unchanged, total)
        self._copy_skipped()
        self.report.photos = records.count(self.writer.connection)
        self.writer.finish()
        return self.report

    def _batches(self) -> Iterator[list[tuple[IndexedPhoto, Seen]]]:
        connection, after = self.original.connection, 0
        while True:
            with self.original.plainly():
                photos = records.photos_after(connection, after, _BATCH)
                seen = self._seen(connection, photos)
            if not photos:
                return
            after = photos[-1].id
            yield [(photo, seen[photo.id]) for photo in photos if photo.id in seen]  # else removed a moment ago

    def _copy(self, photos: list[tuple[IndexedPhoto, Seen]]) -> None:
        """Write those that are not there, in one transaction, and read them back."""
        missing = [each for each in photos if not self._is_there(*each)]
        self.writer.begin()
        try:
            for each in missing:
                self._write(*each)
        except BaseException:
            self.writer.rollback()
            raise
        self.writer.commit()
        self.writer.grown(len(missing))
        for photo, seen in missing:
            if not self._is_there(photo, seen):
                raise DeixisError(f"{self.into}: what is kept of {photo.path} is not what was written; run again")
        self.report.copied += len(missing)
        self.report.unchanged += len(photos) - len(missing)

    def _write(self, photo: IndexedPhoto, seen: Seen) -> None:
        connection = self.writer.connection
        there = records.photo_at(connection, photo.path)
        if there is not None:
            records.remove_photo(connection, there.id)
        records.add_photo(connection, _file(photo), photo.sha256, photo.taken, seen)

    def _is_there(self, photo: IndexedPhoto, seen: Seen) -> bool:
        """Whether the other index has a photo with all that is known of it."""
        connection = self.writer.connection
        there = records.photo_at(connection, photo.path)
        if there is None or _known(there) != _known(photo):
            return False
        kept = self._seen(connection, [there]).get(there.id)
        return kept is not None and _same(kept, seen)

    def _seen(self, connection: Connection, photos: Sequence[IndexedPhoto]) -> dict[int, Seen]:
        """What was seen in photos, by number."""
        dimension = self.original.about.region_dimension
        regions = connection.regions_of([photo.id for photo in photos], dimension)
        none = np.zeros((0, 4), dtype=np.float32), np.zeros((0, dimension), dtype=np.float16)
        found = {}
        for photo in photos:
            whole = connection.whole_of(photo.id)
            if whole is not None:
                boxes, vectors = regions.get(photo.id, none)
                thumbnail = records.thumbnail(connection, photo.id)
                found[photo.id] = Seen(whole, photo.width, photo.height, boxes, vectors.astype(np.float32), thumbnail)
        return found

    def _copy_skipped(self) -> None:
        with self.original.plainly():
            skipped = records.all_skipped(self.original.connection)
        self.writer.begin()
        for path, bad in skipped:
            if records.photo_at(self.writer.connection, path) is None:
                file = FoundFile(path, bad.size, bad.mtime_ns)
                records.skip_file(self.writer.connection, file, bad.sha256, bad.reason)
                self.report.skipped += 1
        self.writer.commit()


def _file(photo: IndexedPhoto) -> FoundFile:
    return FoundFile(photo.path, photo.size, photo.mtime_ns)


def _known(photo: IndexedPhoto) -> tuple[object, ...]:
    """All but its number, which each index gives itself."""
    return _file(photo), photo.sha256, photo.width, photo.height, photo.taken, photo.regions


def _same(one: Seen, other: Seen) -> bool:
    arrays = (
        (one.whole, other.whole),
        (one.region_boxes, other.region_boxes),
        (one.region_vectors, other.region_vectors),
    )
    return one.thumbnail == other.thumbnail and all(np.array_equal(*pair) for pair in arrays)
