"""The SQLite file of an index in a folder: its tables, and connections to read and to write it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path

import numpy as np

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.search.index.base import (
    DamagedIndexError,
    IndexInfo,
    ModelInfo,
    PhotoVectors,
    StoredRegions,
    damaged_index,
)
from deixis.search.index.photo_files import INDEX_MARKER
from deixis.search.index.records import sql_list
from deixis.search.places import place_option
from deixis.storage.atomic import explain_os_errors, new_file
from deixis.storage.checksums import (
    check_tables,
    checked_views,
    crc32_of,
    find_damaged_rows,
    protect_tables,
    refuse_foreign_code,
    register_checks,
)
from deixis.storage.commit_record import RECORD_ENDING, count_commit, start_counting
from deixis.storage.sql import (
    BEGIN_WRITE,
    SQLITE_PRAGMAS,
    explain_failed_read,
    explain_sql_error,
    is_immutable,
    sqlite_uri,
)

DATABASE = "index.sqlite"
_TIMEOUT_S = 10.0
_PHOTOS_PER_QUERY = 500

# Photo numbers are never reused and the vectors of a number never change: changed content gets a new number. So cached
# vectors stay valid, and the table `removed` lists the numbers to drop.
_SCHEMA = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE folders (id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE);
CREATE TABLE photos (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    folder INTEGER NOT NULL REFERENCES folders,
    name BLOB NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    taken INTEGER,
    camera TEXT,
    orientation INTEGER,
    date_source TEXT,
    regions INTEGER NOT NULL,
    UNIQUE (folder, name)
);
CREATE INDEX photos_by_content ON photos (sha256);
CREATE TABLE vectors (photo INTEGER PRIMARY KEY REFERENCES photos, whole BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE regions (
    photo INTEGER PRIMARY KEY REFERENCES photos, boxes BLOB NOT NULL, vectors BLOB NOT NULL, crc INTEGER NOT NULL
);
CREATE TABLE thumbnails (photo INTEGER PRIMARY KEY REFERENCES photos, jpeg BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE skipped (
    folder INTEGER NOT NULL REFERENCES folders,
    name BLOB NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (folder, name)
) WITHOUT ROWID;
CREATE TABLE removed (number INTEGER PRIMARY KEY AUTOINCREMENT, photo INTEGER NOT NULL);
"""

_CHECKED_TABLES = ("about", "folders", "photos", "skipped", "removed")
"""Tables whose rows have checksums; the large ones have those of their own that are checked here."""

_CONTENT_TABLES = ("about", "thumbnails", "regions", "vectors", "photos", "skipped", "removed", "folders")


class SqliteConnection(sqlite3.Connection):
    """A `Connection` to the file of an index."""

    _checked_version: int | None = None

    def pipeline(self) -> AbstractContextManager[object]:
        return nullcontext()

    def folder_number(self, path: bytes) -> int:
        self.execute("INSERT INTO folders (path) VALUES (?) ON CONFLICT DO NOTHING", (path,))
        return int(self.execute("SELECT id FROM folders WHERE path = ?", (path,)).fetchone()[0])

    def insert_encoded(self, number: int, encoded: PhotoVectors) -> None:
        whole = np.ascontiguousarray(encoded.whole, dtype="<f4").tobytes()
        boxes = np.ascontiguousarray(encoded.region_boxes, dtype="<f4").tobytes()
        regions = np.ascontiguousarray(encoded.region_vectors, dtype="<f2").tobytes()
        self.execute("INSERT INTO vectors VALUES (?, ?, ?)", (number, whole, crc_of(number, whole)))
        if boxes:
            checked = boxes, regions, crc_of(number, boxes, regions)
            self.execute("INSERT INTO regions VALUES (?, ?, ?, ?)", (number, *checked))
        if (jpeg := encoded.thumbnail) is not None:
            self.execute("INSERT INTO thumbnails VALUES (?, ?, ?)", (number, jpeg, crc_of(number, jpeg)))

    def delete_encoded(self, number: int) -> None:
        for table in ("thumbnails", "regions", "vectors"):
            self.execute(f"DELETE FROM {table} WHERE photo = ?", (number,))  # noqa: S608
        self.execute("INSERT INTO removed (photo) VALUES (?)", (number,))

    @property
    def data_version(self) -> int:
        """Changes with each commit of another connection."""
        return int(self.execute("PRAGMA data_version").fetchone()[0])

    def check_rows(self) -> None:
        """Read all rows about photos, once for each state of the index: a filter selects them by any column."""
        if self._checked_version != (version := self.data_version):
            check_tables(self, ("photos", "folders"))
            self._checked_version = version

    def damaged_rows(self) -> Iterator[str]:
        """Yield one line for each damaged row of the small tables."""
        for table in _CHECKED_TABLES:
            yield from find_damaged_rows(self, table)

    def whole_vectors(self, numbers: Iterable[int]) -> dict[int, Floats]:
        found = {}
        rows = self.execute(f"SELECT photo, whole, crc FROM vectors WHERE photo IN {sql_list(numbers)}")  # noqa: S608
        for number, whole, crc in rows:
            check_crc(number, crc, whole)
            found[number] = np.frombuffer(whole, dtype="<f4")
        return found

    def thumbnail_of(self, number: int) -> bytes | None:
        for jpeg, crc in self.execute("SELECT jpeg, crc FROM thumbnails WHERE photo = ?", (number,)):
            check_crc(number, crc, jpeg)
            return bytes(jpeg)
        return None

    def regions_of(self, numbers: Iterable[int], dimension: int) -> StoredRegions:
        wanted = list(numbers)
        found: StoredRegions = {}
        for begin in range(0, len(wanted), _PHOTOS_PER_QUERY):
            some = sql_list(wanted[begin : begin + _PHOTOS_PER_QUERY])
            with_regions = f"main.photos WHERE id IN {some} AND regions > 0"
            query = (
                f"SELECT id, boxes, vectors, crc FROM (SELECT id FROM {with_regions}) LEFT JOIN regions ON photo = id"  # noqa: S608
            )
            for number, boxes, vectors, crc in self.execute(query):
                check_crc(number, crc, boxes, vectors)
                found[number] = (
                    np.frombuffer(boxes, dtype="<f4").reshape(-1, 4),
                    np.frombuffer(vectors, dtype="<f2").reshape(-1, dimension),
                )
        return found


def crc_of(number: int, *parts: object) -> int:
    """Return the CRC-32 of the number of a photo and some bytes, one after the other; -1 for damaged rows without."""
    return crc32_of(b"%d" % number, *parts) if all(isinstance(part, bytes) for part in parts) else -1


def check_crc(number: int, expected: object, *parts: object) -> None:
    """Raise an error of SQLite, which has no checksums, if what it stores of a photo is not what was written."""
    if crc_of(number, *parts) != expected:
        raise sqlite3.DatabaseError(f"what it stores of photo {number} does not match its checksum")


@contextmanager
def explain_errors(path: Path) -> Iterator[None]:
    """Raise SQLite errors about an index as `DeixisError` or `DamagedIndexError`."""
    try:
        yield
    except sqlite3.Error as error:
        if reason := explain_sql_error(error) or explain_failed_read(error, path):
            raise DeixisError(f"{path}: {reason}") from error
        problem = "a row does not match its checksum" if "user-defined function" in str(error) else str(error)
        raise damaged_index(problem, str(path), path.parent) from error
    except UnicodeDecodeError as error:  # the message of SQLite quotes a damaged schema
        raise damaged_index("malformed database schema", str(path), path.parent) from error


def open_for_reading(folder: Path) -> SqliteConnection:
    """Open a connection that sees what is committed and never delays a writer."""
    path = folder / DATABASE
    if not path.is_file():
        create = f"run: deixis index FOLDER{place_option(folder, '--into')}"
        raise DeixisError(f"{folder}: {'not a photo index' if folder.exists() else 'no photo index yet'}; {create}")
    with explain_errors(path):
        try:
            return _connect_read_only(path, "mode=ro")
        except sqlite3.OperationalError:
            if not is_immutable(path):
                raise
            return _connect_read_only(path, "immutable=1")


def _connect_read_only(path: Path, options: str) -> SqliteConnection:
    connection = sqlite3.connect(
        f"{sqlite_uri(path)}?{options}",
        uri=True,
        timeout=_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        factory=SqliteConnection,
    )
    try:
        read_info(connection, path)  # an index of another version has other tables
        check_tables(connection, ("about",))
        checked_views(connection, _CHECKED_TABLES)
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_writing(folder: Path, model: ModelInfo, rebuild: bool = False) -> SqliteConnection:
    """Open an index for the vectors of a model, creating it if there is none.

    An index of another model, or a damaged one, is an error. With `rebuild` it is emptied instead, or replaced if it
    cannot be emptied.
    """
    if not (folder / DATABASE).exists():
        create_database(folder, model)
    try:
        return _open_for_model(folder, model, rebuild)
    except DamagedIndexError:
        if not rebuild:
            raise
    _remove_database(folder)
    create_database(folder, model)
    return _open_for_model(folder, model, rebuild=False)


def _open_for_model(folder: Path, model: ModelInfo, rebuild: bool) -> SqliteConnection:
    connection = connect_writer(folder)
    try:
        with explain_errors(folder / DATABASE):
            if rebuild:
                _clear_database(connection, model)
            check_tables(connection, _CHECKED_TABLES)
            read_info(connection, folder / DATABASE).check_model(model.fingerprint, folder)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_writer(folder: Path) -> SqliteConnection:
    """Connect to the existing file of an index with the pragmas of a writer."""
    path = folder / DATABASE
    with explain_errors(path):
        connection = sqlite3.connect(path, timeout=_TIMEOUT_S, isolation_level=None, factory=SqliteConnection)
        try:
            read_info(connection, path)
            register_checks(connection)
            for pragma in SQLITE_PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            start_counting(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def create_database(folder: Path, model: ModelInfo) -> None:
    """Create the file of an index, with all its tables, atomically."""
    path = folder / DATABASE
    with explain_os_errors(path):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / INDEX_MARKER).touch()
    with explain_errors(path), new_file(path, private=True) as partial, closing(sqlite3.connect(partial)) as connection:
        connection.execute("PRAGMA page_size = 16384")  # the regions of a photo take 20 kB
        connection.executescript(_SCHEMA)
        protect_tables(connection, _CHECKED_TABLES)
        start_counting(connection)
        _write_info(connection, model)
        connection.commit()


def _remove_database(folder: Path) -> None:
    if not (folder / INDEX_MARKER).exists():
        raise DeixisError(f"{folder / DATABASE}: not replaced, because deixis did not create it; use another folder")
    remove_files(folder)


def remove_files(folder: Path) -> None:
    """Remove the files of a database."""
    for ending in (RECORD_ENDING, "", "-wal", "-shm"):
        (folder / f"{DATABASE}{ending}").unlink(missing_ok=True)


def _clear_database(connection: sqlite3.Connection, model: ModelInfo) -> None:
    """Empty an index in one transaction: a killed process leaves either the old contents or an empty index."""
    connection.execute(BEGIN_WRITE)
    for table in _CONTENT_TABLES:
        connection.execute(f"DELETE FROM {table}")  # noqa: S608
    _write_info(connection, model)
    count_commit(connection)
    connection.execute("COMMIT")


def _write_info(connection: sqlite3.Connection, model: ModelInfo) -> None:
    connection.executemany("INSERT INTO about (key, value) VALUES (?, ?)", IndexInfo.new_entries(model).items())


def read_info(connection: sqlite3.Connection, path: Path) -> IndexInfo:
    return IndexInfo.from_entries(read_entries(connection), str(path), path.parent)


def read_entries(connection: sqlite3.Connection) -> dict[str, str]:
    """Read all that an index stores about itself, unless others have put code into it."""
    refuse_foreign_code(connection, _CHECKED_TABLES)
    return dict(connection.execute("SELECT key, value FROM about"))
