"""Copying an index into another one, between folders and databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from deixis.errors import DeixisError
from deixis.search.index import records
from deixis.search.index.base import (
    CALIBRATION,
    Connection,
    IndexInfo,
    IndexPath,
    IndexWriter,
    PhotoVectors,
    read_entry,
    write_entry,
)
from deixis.search.index.photo_files import FileState
from deixis.search.index.photo_index import open_writer
from deixis.search.index.records import IndexedPhoto
from deixis.search.index.sqlite import DATABASE, explain_errors, open_for_reading, read_info
from deixis.storage.progress import OnProgress, no_progress
from deixis.storage.sql import hide_password, is_postgres

_BATCH = 64


@dataclass
class CopyReport:
    """The result of `copy_index`: numbers of photos."""

    copied: int = 0
    unchanged: int = 0  # identical already
    skipped: int = 0  # skipped files whose reasons were copied
    photos: int = 0  # in the copy now


def copy_index(source: IndexPath, into: IndexPath, *, on_progress: OnProgress = no_progress) -> CopyReport:
    """Copy the photos of an index into another one, creating it if there is none.

    Every photo is read back and compared. Run again after an interruption, it writes only what is missing. Other
    photos in the target stay, so several indexes can be copied into one. No photo file is opened. Two indexes of
    different models, and an index copied into itself, are errors.
    """
    with _open_source(source) as original, open_writer(into, original.info) as writer:
        (uid,) = writer.connection.execute("SELECT value FROM about WHERE key = 'uid'").fetchone()
        if uid == original.info.uid:
            raise DeixisError(f"{hide_password(into)}: is the index to be copied; use another folder or address")
        return _Copy(original, writer, hide_password(into), on_progress).run()


@dataclass(frozen=True)
class _Source:
    """The index that is read; `explain_errors` is for errors of its database, not of the target's."""

    connection: Connection
    info: IndexInfo
    explain_errors: Callable[[], AbstractContextManager[None]]


@contextmanager
def _open_source(path: IndexPath) -> Iterator[_Source]:
    if is_postgres(path):
        from deixis.search.index import postgres

        with postgres.open_for_copying(str(path)) as (connection, info, address):
            yield _Source(connection, info, partial(postgres.explain_errors, address))
        return
    database = Path(path) / DATABASE
    with closing(open_for_reading(Path(path))) as connection:
        yield _Source(connection, read_info(connection, database), partial(explain_errors, database))


class _Copy:
    """One run over the photos of an index, by ascending number."""

    def __init__(self, original: _Source, writer: IndexWriter[Any], into: str, on_progress: OnProgress) -> None:
        self.original, self.writer, self.into, self.on_progress = original, writer, into, on_progress
        self.report = CopyReport()

    def run(self) -> CopyReport:
        with self.original.explain_errors():
            total = records.count(self.original.connection)
        for photos in self._batches():
            self._copy(photos)
            self.on_progress("copying photos", self.report.copied + self.report.unchanged, total)
        self._copy_skipped()
        self._copy_calibration()
        self.report.photos = records.count(self.writer.connection)
        self.writer.finish()
        return self.report

    def _batches(self) -> Iterator[list[tuple[IndexedPhoto, PhotoVectors]]]:
        connection, after = self.original.connection, 0
        while True:
            with self.original.explain_errors():
                photos = records.photos_after(connection, after, _BATCH)
                encoded = records.read_encoded(connection, photos, self.original.info.region_dimension)
            if not photos:
                return
            after = photos[-1].id
            yield [(photo, encoded[photo.id]) for photo in photos if photo.id in encoded]  # else just removed

    def _copy(self, photos: list[tuple[IndexedPhoto, PhotoVectors]]) -> None:
        """Write the photos that are missing, in one transaction, and read them back."""
        missing = [each for each in photos if not self._has(*each)]
        self.writer.begin()
        try:
            for each in missing:
                self._write(*each)
        except BaseException:
            self.writer.rollback()
            raise
        self.writer.commit()
        self.writer.photos_committed(len(missing))
        for photo, encoded in missing:
            if not self._has(photo, encoded):
                raise DeixisError(f"{self.into}: {photo.path} differs when read back; run again")
        self.report.copied += len(missing)
        self.report.unchanged += len(photos) - len(missing)

    def _write(self, photo: IndexedPhoto, encoded: PhotoVectors) -> None:
        connection = self.writer.connection
        existing = records.photo_at(connection, photo.path)
        if existing is not None:
            records.remove_photo(connection, existing.id)
        file = FileState(photo.path, photo.size, photo.mtime_ns)
        records.add_photo(connection, file, photo.sha256, photo.exif, encoded)

    def _has(self, photo: IndexedPhoto, encoded: PhotoVectors) -> bool:
        """Return whether the target has an identical photo."""
        connection = self.writer.connection
        existing = records.photo_at(connection, photo.path)
        if existing is None or replace(existing, id=photo.id) != photo:
            return False
        stored = records.read_encoded(connection, [existing], self.original.info.region_dimension).get(existing.id)
        return stored is not None and _are_equal(stored, encoded)

    def _copy_skipped(self) -> None:
        with self.original.explain_errors():
            skipped = records.all_skipped(self.original.connection)
        self.writer.begin()
        for each in skipped:
            if records.photo_at(self.writer.connection, each.file.path) is None:
                records.skip_file(self.writer.connection, each.file, each.sha256, each.reason)
                self.report.skipped += 1
        self.writer.commit()

    def _copy_calibration(self) -> None:
        """Copy the calibration, unless the target has one."""
        with self.original.explain_errors():
            found = read_entry(self.original.connection, CALIBRATION)
        if found and not read_entry(self.writer.connection, CALIBRATION):
            self.writer.begin()
            write_entry(self.writer.connection, CALIBRATION, found)
            self.writer.commit()


def _are_equal(one: PhotoVectors, other: PhotoVectors) -> bool:
    arrays = ("whole", "region_boxes", "region_vectors")
    return one.thumbnail == other.thumbnail and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays
    )
