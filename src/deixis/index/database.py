"""The SQLite file that holds the truth of an index: opened, made, and its troubles told in one line."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from deixis.errors import DeixisError
from deixis.files.atomic import explained, new_file
from deixis.files.sqlite import reason_of
from deixis.index.about import About, damaged, first_words, understood
from deixis.index.sqlite_connection import SqliteConnection
from deixis.index.walking import MARK

DATABASE = "index.sqlite"
_WAIT_S = 10.0

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


@contextmanager
def plainly(path: Path) -> Iterator[None]:
    """Turn what SQLite says about an index into one line for people."""
    try:
        yield
    except sqlite3.Error as error:
        reason = reason_of(error)
        raise (DeixisError(f"{path}: {reason}") if reason else damaged(str(error), str(path), path.parent)) from error


def open_to_read(folder: Path) -> SqliteConnection:
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


def _reading(path: Path, how: str) -> SqliteConnection:
    place = f"file:{quote(os.fsencode(path.absolute()))}?{how}"
    connection = sqlite3.connect(
        place, uri=True, timeout=_WAIT_S, isolation_level=None, check_same_thread=False, factory=SqliteConnection
    )
    try:
        read_about(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def open_to_write(folder: Path) -> SqliteConnection:
    """A connection for the one who holds the index; what it commits outlives a power cut."""
    path = folder / DATABASE
    with plainly(path):
        connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, factory=SqliteConnection)
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
    about = first_words(fingerprint, dimension, region_dimension)
    connection.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", about.items())


def read_about(connection: sqlite3.Connection, path: Path) -> About:
    """What an index says of itself."""
    return understood(dict(connection.execute("SELECT key, value FROM about")), str(path), path.parent)


@contextmanager
def at_one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is read in the block is as it was at one moment, whatever a writer does meanwhile."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
