"""An index of photos, open for searching or for writing.

An index in a folder is here: SQLite is the source of truth, and searches use a matrix in memory. `postgres` has the
index in a database.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.search.albums import FOLDER as ALBUMS
from deixis.search.index import records
from deixis.search.index.base import (
    DamagedIndexError,
    IndexInfo,
    IndexPath,
    IndexWriter,
    ModelInfo,
    RegionVectors,
)
from deixis.search.index.matrix import FOLDER as CACHE_FOLDER
from deixis.search.index.matrix import VectorMatrix, find_cache_damage, load_matrix, update_cache
from deixis.search.index.photo_files import INDEX_MARKER
from deixis.search.index.records import IndexedPhoto, PhotoFilter
from deixis.search.index.snapshot import IndexSnapshot, rank_by_regions, top_indices
from deixis.search.index.sqlite import (
    DATABASE,
    SqliteConnection,
    explain_errors,
    open_for_reading,
    open_for_writing,
    read_entries,
    read_info,
    remove_files,
)
from deixis.search.places import place_option
from deixis.storage.atomic import exclusive_lock, explain_os_errors, remove_partial_files
from deixis.storage.commit_record import (
    accept_commits,
    count_commit,
    find_lost_commits,
    write_record,
)
from deixis.storage.sql import (
    BEGIN_WRITE,
    explain_failed_read,
    find_corruption,
    hide_password,
    is_postgres,
    read_transaction,
)

if TYPE_CHECKING:
    from deixis.search.index.postgres import PostgresReader

_PHOTOS_PER_CHECK = 500
_GATHER_SHARE = 8
"""If at most one row in this many is searched, rows are gathered before they are multiplied."""

_CACHE_EVERY = 4096

_REGIONS_IN_MEMORY = 1000
"""Up to this many photos, all region vectors stay in memory: at most 15 MB, which every search would read again."""


class PhotoIndex:
    """An index that `update_index` has filled, open for searching from any number of threads.

    Each method sees what was committed when it was called. `snapshot` is for several reads of one state. With the
    fingerprint of a model, an index of another model is an error.
    """

    def __init__(self, path: IndexPath, *, fingerprint: str | None = None) -> None:
        self.path = path
        self.fingerprint = fingerprint
        self._reader = _open_reader(path)
        try:
            with self.snapshot():
                pass
        except BaseException:
            self.close()
            raise

    @contextmanager
    def snapshot(self) -> Iterator[IndexSnapshot]:
        """Give the current state; an error if another model has rebuilt the index meanwhile."""
        with self._reader.snapshot() as snapshot:
            if self.fingerprint is not None:
                snapshot.info.check_model(self.fingerprint, self.path)
            yield snapshot

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        with self.snapshot() as snapshot:
            return snapshot.count()

    @property
    def version(self) -> int | None:
        """Changes with every commit, within this process; None for a database on a server."""
        return self._reader.version()


def _open_reader(path: IndexPath) -> FolderReader | PostgresReader:
    if not is_postgres(path):
        return FolderReader(Path(path))
    from deixis.search.index.postgres import PostgresReader

    return PostgresReader(os.fspath(path))


@contextmanager
def open_writer(path: IndexPath, model: ModelInfo, rebuild: bool = False) -> Iterator[IndexWriter[Any]]:
    """Open an index for the vectors of a model, creating it if there is none.

    An index of another model, or a damaged one, is an error; with `rebuild` it is emptied first.
    """
    if not is_postgres(path):
        with open_folder_writer(Path(path), model, rebuild) as writer:
            yield writer
        return
    from deixis.search.index.postgres import open_postgres_writer

    with open_postgres_writer(os.fspath(path), model, rebuild) as shared_writer:
        yield shared_writer


def read_about(path: IndexPath) -> dict[str, str]:
    """Read the entries that describe an index and its model, without its photos."""
    if is_postgres(path):
        from deixis.search.index.postgres import read_database_entries

        return read_database_entries(os.fspath(path))
    with closing(open_for_reading(Path(path))) as connection, explain_errors(Path(path) / DATABASE):
        return read_entries(connection)


def open_info(path: IndexPath) -> IndexInfo:
    """Read the description of an index and its model."""
    return IndexInfo.from_entries(read_about(path), hide_password(path), path)


def remove_index(path: IndexPath) -> None:
    """Delete an index in a folder; other files in the folder stay, and so do the photos."""
    if is_postgres(path):
        raise DeixisError(f"{hide_password(path)}: drop the schema of the database to remove an index in it")
    folder = Path(path)
    if not (folder / INDEX_MARKER).is_file():
        open_for_reading(folder).close()  # there is no index, or deixis did not create this folder
        raise DeixisError(f"{folder}: not removed, because deixis did not create it")
    with explain_os_errors(folder):
        with exclusive_lock(folder / DATABASE):
            remove_partial_files(folder / DATABASE)
            shutil.rmtree(folder / CACHE_FOLDER, ignore_errors=True)
            remove_files(folder)
            (folder / INDEX_MARKER).unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()


def find_damage(folder: Path) -> Iterator[str]:
    """Read all of an index in a folder, and yield one line for each thing that is damaged."""
    path = folder / DATABASE
    try:
        with closing(open_for_reading(folder)) as connection, explain_errors(path):
            if lost := _lost_commits(folder, connection):
                yield lost
            for line in (*find_corruption(connection), *connection.damaged_rows()):
                if reason := explain_failed_read(line, path):
                    raise DeixisError(f"{path}: {reason}")
                yield f"{path}: damaged ({line})"
            info = read_info(connection, path)
            after = 0
            while photos := records.photos_after(connection, after, _PHOTOS_PER_CHECK):
                numbers = [photo.id for photo in photos]
                after = numbers[-1]
                for number in sorted(
                    set(numbers) - records.read_encoded(connection, photos, info.region_dimension).keys()
                ):
                    yield f"{path}: damaged (photo {number} has no vector)"
            with read_transaction(connection):
                yield from find_cache_damage(folder, connection, info)
    except DeixisError as error:
        yield str(error)


def _lost_commits(folder: Path, connection: SqliteConnection) -> str | None:
    lost = find_lost_commits(folder / DATABASE, connection)
    return lost and f"{lost}; index the photos again with: deixis index FOLDER{place_option(folder, '--into')}"


class FolderReader:
    """An index in a folder, open for reading from any number of threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._connection = open_for_reading(folder)
        with explain_errors(folder / DATABASE):
            lost = _lost_commits(folder, self._connection)
        if lost:
            self._connection.close()
            raise DamagedIndexError(lost)
        self._lock = threading.Lock()
        self._version = -1
        self._matrix: VectorMatrix | None = None
        self.regions: tuple[VectorMatrix, RegionVectors] | None = None  # of all photos of a small index

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            self._matrix = self.regions = None

    @contextmanager
    def snapshot(self) -> Iterator[FolderSnapshot]:
        """Give the current state; the matrix is loaded again only if another process has committed."""
        with self.reading() as connection:
            version = connection.data_version
            if self._matrix is None or version != self._version:
                self._matrix = load_matrix(self.folder, connection, self._matrix)
                self._version = version
            matrix = self._matrix
        yield FolderSnapshot(self, matrix)

    def version(self) -> int:
        with self.reading() as connection:
            return connection.data_version

    @contextmanager
    def reading(self) -> Iterator[SqliteConnection]:
        """Lock the connection for one thread; long computations happen outside."""
        with self._lock, explain_errors(self.folder / DATABASE):
            yield self._connection


class FolderSnapshot(IndexSnapshot):
    """The matrix at one moment. Rows are read from the database when needed: those of a photo number never change."""

    def __init__(self, reader: FolderReader, matrix: VectorMatrix) -> None:
        super().__init__(reader.folder, matrix.info)
        self._reader, self._matrix = reader, matrix

    def count(self, photo_filter: PhotoFilter | None = None) -> int:
        return int(self._selected(photo_filter).sum())

    def numbers(self, photo_filter: PhotoFilter | None = None) -> NDArray[np.int64]:
        return self._matrix.ids[self._selected(photo_filter)]

    def nearest_numbers(self, query: Floats, count: int, photo_filter: PhotoFilter | None) -> NDArray[np.int64]:
        selected = self._selected(photo_filter)
        rows = np.flatnonzero(selected)
        if len(rows) * _GATHER_SHARE <= len(selected):
            scores = self._matrix.whole(rows) @ query
        else:
            scores = self._matrix.whole_scores(query)
            scores = scores if len(rows) == len(scores) else scores[rows]
        return self._matrix.ids[rows[top_indices(scores, count)]]

    def region_ranking(self, query: Floats, photo_filter: PhotoFilter | None, shortlist: int) -> NDArray[np.int64]:
        matrix, selected = self._matrix, self._selected(photo_filter)
        scores = matrix.region_scores(query)
        if not selected.all():
            scores[~selected[matrix.region_rows]] = -np.inf
        best = top_indices(scores, shortlist)
        best = np.sort(best[scores[best] > -np.inf])
        rows = matrix.region_rows[best]
        numbers, positions = matrix.ids[rows].tolist(), best - matrix.region_starts[rows]
        stored = self.regions_of_all(sorted(set(numbers)))
        return rank_by_regions(
            [
                (number, stored[number][1][position])
                for number, position in zip(numbers, positions, strict=True)
                if number in stored  # otherwise removed since the snapshot
            ],
            query,
        )

    def reading(self) -> AbstractContextManager[SqliteConnection]:
        return self._reader.reading()

    def photos(self, numbers: Iterable[int]) -> dict[int, IndexedPhoto]:
        wanted = set(numbers)
        found = super().photos(wanted)
        if len(found) < len(wanted):
            with self.reading() as connection:
                removed = {photo for (photo,) in connection.execute("SELECT photo FROM removed")}
                known = self._matrix.ids[self._matrix.is_present]
                lost = [number for number in wanted - found.keys() - removed if number in known]
                if lost:
                    raise sqlite3.DatabaseError(f"photo {lost[0]} is missing")
        return found

    def vectors_of(self, numbers: NDArray[np.int64]) -> Floats:
        ids = self._matrix.ids
        if np.array_equal(numbers, ids):  # a search of a small index scores all photos
            return self._matrix.all_whole
        rows = np.searchsorted(ids, numbers)
        is_known = rows < len(ids)
        is_known[is_known] = ids[rows[is_known]] == numbers[is_known]
        vectors = np.zeros((len(numbers), self.info.dimension), dtype=np.float32)
        vectors[is_known] = self._matrix.whole(rows[is_known])
        return vectors

    def region_vectors(self, numbers: NDArray[np.int64]) -> RegionVectors:
        ids = self._matrix.ids
        if len(ids) > _REGIONS_IN_MEMORY:
            return super().region_vectors(numbers)
        matrix, regions = self._reader.regions or (None, None)
        if regions is None or matrix is not self._matrix:
            regions = super().region_vectors(ids)
            self._reader.regions = self._matrix, regions
        return regions.take(np.searchsorted(ids, numbers))

    def numbers_by_date(self, photo_filter: PhotoFilter) -> NDArray[np.int64]:
        with self.reading() as connection:
            connection.check_rows()
            numbers = records.filtered_numbers(connection, photo_filter, "main.photos", by_date=True)
        return numbers[np.isin(numbers, self._matrix.ids[self._matrix.is_present])]

    def folders_and_months(self, photo_filter: PhotoFilter) -> list[tuple[Path, str]]:
        with self.reading() as connection:
            connection.check_rows()
            return list(records.folders_and_months(connection, photo_filter, "main.photos"))

    def _selected(self, photo_filter: PhotoFilter | None) -> NDArray[np.bool_]:
        """Return which rows of the matrix are searched."""
        if not photo_filter:
            return self._matrix.is_present
        with self.reading() as connection:
            connection.check_rows()
            numbers = records.filtered_numbers(connection, photo_filter, table="main.photos")
        return self._matrix.is_present & np.isin(self._matrix.ids, numbers)


class FolderWriter(IndexWriter[SqliteConnection]):
    """The one process that writes the index in a folder."""

    begin_statement = BEGIN_WRITE
    database_error = sqlite3.Error

    def __init__(self, folder: Path, connection: SqliteConnection) -> None:
        super().__init__(connection)
        self.folder = folder
        self._not_cached = 0

    def commit(self) -> None:
        expected = count_commit(self.connection)
        super().commit()
        write_record(self.folder / DATABASE, expected)

    def photos_committed(self, count: int) -> None:
        self._not_cached += count
        if self._not_cached >= _CACHE_EVERY:
            self.finish()

    def finish(self) -> None:
        self._not_cached = 0
        accept_commits(self.folder / DATABASE, self.connection)
        update_cache(self.folder, self.connection)


@contextmanager
def open_folder_writer(folder: Path, model: ModelInfo, rebuild: bool = False) -> Iterator[FolderWriter]:
    """Lock the index in a folder for writing; see `open_for_writing`."""
    with explain_os_errors(folder):
        if folder.exists() and not folder.is_dir():
            raise DeixisError(f"{folder}: is a file; an index needs a folder of its own")
        is_index = (folder / DATABASE).exists() or (folder / INDEX_MARKER).exists()
        others = (
            []
            if is_index or not folder.exists()
            else [path for path in folder.iterdir() if path.name[0] != "." and path.name != ALBUMS]
        )
    if others:
        raise DeixisError(f"{folder}: contains {others[0].name}; an index needs a folder of its own, new or empty")
    with ExitStack() as stack:
        with explain_os_errors(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(exclusive_lock(folder / DATABASE))
            remove_partial_files(folder / DATABASE)
        stack.enter_context(explain_errors(folder / DATABASE))
        yield FolderWriter(folder, stack.enter_context(closing(open_for_writing(folder, model, rebuild))))
