"""The SQLite file that holds the truth of an index: opened, made, and its troubles told in one line."""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from deixis.errors import DeixisError
from deixis.files.atomic import explained, new_file
from deixis.index.walking import MARK

DATABASE = "index.sqlite"
FORMAT = "deixis-index"
VERSION = "2"
_WAIT_S = 10.0
_ERROR_KIND = 0xFF
"""SQLite tells more of an error in the bits above these."""

# A photo's number is never used again, and what was seen under it never changes: a photo whose content is new is a new
# photo. So whoever remembers a number and its vectors remembers right, and `removed` says which ones to forget.
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
    regions INTEGER NOT NULL,
    UNIQUE (folder, name)
);
CREATE INDEX photos_by_content ON photos (sha256);
CREATE INDEX photos_by_date ON photos (taken);
CREATE TABLE vectors (photo INTEGER PRIMARY KEY REFERENCES photos, whole BLOB NOT NULL);
CREATE TABLE regions (photo INTEGER PRIMARY KEY REFERENCES photos, boxes BLOB NOT NULL, vectors BLOB NOT NULL);
CREATE TABLE thumbnails (photo INTEGER PRIMARY KEY REFERENCES photos, jpeg BLOB NOT NULL);
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

CONTENTS = ("thumbnails", "regions", "vectors", "photos", "skipped", "removed", "folders")
"""The tables that a rebuild empties."""


class DamagedIndexError(DeixisError):
    """An index that cannot be read any more; only this kind does a rebuild take away."""


@dataclass(frozen=True)
class About:
    """What an index says of itself.

    Attributes
    ----------
    uid
        Differs whenever the index was begun anew, so that caches of what was there before are known.
    fingerprint, dimension, region_dimension
        Of whoever saw the photos.
    """

    uid: str
    fingerprint: str
    dimension: int
    region_dimension: int


@contextmanager
def plainly(path: Path) -> Iterator[None]:
    """Turn what SQLite says about an index into one line for people."""
    try:
        yield
    except sqlite3.Error as error:
        reason = _reason(error)
        raise (DeixisError(f"{path}: {reason}") if reason else damaged(str(error), path)) from error


def _reason(error: sqlite3.Error) -> str | None:
    """What is wrong, unless the file itself is."""
    if isinstance(error, sqlite3.ProgrammingError):
        return "was closed; open it again"
    kind = getattr(error, "sqlite_errorcode", 0) & _ERROR_KIND
    if kind == sqlite3.SQLITE_FULL:
        return "the disk is full"
    if kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "another process is writing it; wait until it is done"
    if kind in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR):
        return f"cannot be used ({error})"
    return None


def damaged(what: str, path: Path) -> DamagedIndexError:
    """How a damaged index is told, and what to do about it."""
    return DamagedIndexError(f"{path}: damaged ({what}); {_anew(path.parent)}")


def _anew(folder: Path) -> str:
    return f"make it anew with: deixis index PHOTOS --into {folder} --rebuild"


def open_to_read(folder: Path) -> sqlite3.Connection:
    """A connection that sees what is committed, and never keeps a writer waiting."""
    path = folder / DATABASE
    if not path.is_file():
        hint = "make one with: deixis index PHOTOS --into DIR" if folder.exists() else "is there a typing mistake?"
        raise DeixisError(f"{folder}: not an index of photos; {hint}")
    with plainly(path):
        try:
            return _reading(path, "mode=ro")
        except sqlite3.OperationalError:
            if os.access(folder, os.W_OK) or (folder / f"{DATABASE}-wal").exists():
                raise
            # SQLite wants to write beside the file even to read it, unless nobody can be changing it.
            return _reading(path, "immutable=1")


def _reading(path: Path, how: str) -> sqlite3.Connection:
    place = f"file:{quote(os.fsencode(path.absolute()))}?{how}"
    connection = sqlite3.connect(place, uri=True, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
    try:
        read_about(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def open_to_write(folder: Path) -> sqlite3.Connection:
    """A connection for the one who holds the index; what it commits outlives a power cut."""
    path = folder / DATABASE
    with plainly(path):
        connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None)
        try:
            read_about(connection, path)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection


def make_database(folder: Path, fingerprint: str, dimension: int, region_dimension: int) -> None:
    """Begin an index: the file appears with all its tables, or not at all."""
    path = folder / DATABASE
    with explained(path):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).touch()
    with plainly(path), new_file(path) as unfinished, closing(sqlite3.connect(unfinished)) as connection:
        connection.execute("PRAGMA page_size = 16384")  # a photo's regions take 20 kB
        connection.executescript(_SCHEMA)
        write_about(connection, fingerprint, dimension, region_dimension)
        connection.commit()


def remove_database(folder: Path) -> None:
    """Take a damaged index away, with what SQLite keeps beside it; nobody else's database is touched."""
    if not (folder / MARK).exists():
        raise DeixisError(f"{folder / DATABASE}: not replaced, it was not made by deixis; give another folder")
    for ending in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            (folder / (DATABASE + ending)).unlink()


def write_about(connection: sqlite3.Connection, fingerprint: str, dimension: int, region_dimension: int) -> None:
    """Say who sees the photos from now on."""
    about = {
        "format": FORMAT,
        "version": VERSION,
        "uid": uuid.uuid4().hex,
        "fingerprint": fingerprint,
        "dimension": str(dimension),
        "region_dimension": str(region_dimension),
    }
    connection.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", about.items())


def read_about(connection: sqlite3.Connection, path: Path) -> About:
    """What an index says of itself."""
    said = dict(connection.execute("SELECT key, value FROM about"))
    if said.get("format") != FORMAT:
        raise damaged("it does not say that it is an index", path)
    if said.get("version") != VERSION:
        raise DamagedIndexError(
            f"{path}: written for version {said.get('version')} of the layout, this deixis reads {VERSION}; "
            f"{_anew(path.parent)}"
        )
    try:
        return About(said["uid"], said["fingerprint"], int(said["dimension"]), int(said["region_dimension"]))
    except (KeyError, ValueError) as error:
        raise damaged(f"{type(error).__name__}: {error}", path) from None


@contextmanager
def all_or_nothing(connection: sqlite3.Connection) -> Iterator[None]:
    """Within a transaction, statements that count together: an interruption between them undoes them."""
    connection.execute("SAVEPOINT step")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # a full disk may have ended it already
            connection.execute("ROLLBACK TO step")
            connection.execute("RELEASE step")
        raise
    connection.execute("RELEASE step")


@contextmanager
def at_one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is read in the block is as it was at one moment, whatever a writer does meanwhile."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def refuse_other_model(about: About, fingerprint: str, folder: Path) -> None:
    """Vectors of two models do not mix, and neither do queries of one with photos of the other."""
    if about.fingerprint != fingerprint:
        raise DeixisError(
            f"{folder}: its photos were seen by another model ({about.fingerprint[:16]}, not {fingerprint[:16]}); "
            f"{_anew(folder)}"
        )
