"""The rows of an index: what is known of each photo, written by one and read by many."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.index.database import all_or_nothing
from deixis.index.exif import Taken
from deixis.index.seeing import Floats, Seen
from deixis.index.walking import FoundFile
from deixis.index.where import Where

_AT_ONCE = 500
_COLUMNS = (
    "p.id, f.path, p.name, p.size, p.mtime_ns, p.sha256, p.width, p.height, p.taken, p.camera, p.orientation, "
    "p.regions FROM photos p JOIN folders f ON f.id = p.folder"
)


@dataclass(frozen=True)
class IndexedPhoto:
    """What the index knows of a photo, but for its vectors.

    Attributes
    ----------
    id
        Its number: never another photo's, and never of another content.
    size, mtime_ns, sha256
        Of its file, in bytes and nanoseconds, when it was read.
    width, height
        In pixels, after EXIF rotation.
    regions
        How many of its regions have vectors.
    """

    id: int
    path: Path
    size: int
    mtime_ns: int
    sha256: bytes
    width: int
    height: int
    taken: Taken
    regions: int


@dataclass(frozen=True)
class SkippedFile:
    """A file that was looked at and cannot be indexed as it is."""

    size: int
    mtime_ns: int
    sha256: bytes
    reason: str


def photo_at(connection: sqlite3.Connection, path: Path) -> IndexedPhoto | None:
    """The photo at a path."""
    found = connection.execute(f"SELECT {_COLUMNS} WHERE f.path = ? AND p.name = ?", _split(path)).fetchone()
    return _photo(found) if found else None


def photos_in(connection: sqlite3.Connection, folder: Path) -> dict[str, IndexedPhoto]:
    """The photos right in a folder, by name."""
    rows = connection.execute(f"SELECT {_COLUMNS} WHERE f.path = ?", (os.fsencode(folder),))
    return {os.fsdecode(row[2]): _photo(row) for row in rows}


def photos_of_content(connection: sqlite3.Connection, sha256: bytes) -> list[IndexedPhoto]:
    """All photos whose files have these bytes."""
    rows = connection.execute(f"SELECT {_COLUMNS} WHERE p.sha256 = ? ORDER BY p.id", (sha256,))
    return [_photo(row) for row in rows]


def photos_by_id(connection: sqlite3.Connection, ids: Iterable[int]) -> dict[int, IndexedPhoto]:
    """Photos by their numbers; one that is gone is left out."""
    query = f"SELECT {_COLUMNS} WHERE p.id IN (SELECT value FROM json_each(?))"  # noqa: S608
    rows = connection.execute(query, (json.dumps([int(each) for each in ids]),))
    return {row[0]: _photo(row) for row in rows}


def photos_below(connection: sqlite3.Connection, point: Path) -> Iterator[IndexedPhoto]:
    """The photo at a path, or all photos in that folder and below it."""
    for folder in _folders_below(connection, point):
        yield from [_photo(row) for row in connection.execute(f"SELECT {_COLUMNS} WHERE f.id = ?", (folder,))]
    if (photo := photo_at(connection, point)) is not None:
        yield photo


def ids_where(connection: sqlite3.Connection, where: Where) -> NDArray[np.int64]:
    """The numbers of the photos that are looked at, ascending."""
    folders = connection.execute("SELECT id, path FROM folders")
    allowed = [number for number, path in folders if where.allows_folder(path)]
    query = "SELECT id FROM photos WHERE folder IN (SELECT value FROM json_each(?))"
    values: list[object] = [json.dumps(allowed)]
    if (first := where.seconds_from()) is not None:
        query, values = f"{query} AND taken >= ?", [*values, first]
    if (last := where.seconds_until()) is not None:
        query, values = f"{query} AND taken < ?", [*values, last]
    if where.camera:
        query, values = f"{query} AND instr(lower(camera), lower(?)) > 0", [*values, where.camera]
    rows = connection.execute(query, values)
    return np.sort(np.fromiter((row[0] for row in rows), dtype=np.int64))


def skipped_at(connection: sqlite3.Connection, path: Path) -> SkippedFile | None:
    """What was wrong with a file when it was last looked at."""
    found = connection.execute(
        "SELECT s.size, s.mtime_ns, s.sha256, s.reason FROM skipped s JOIN folders f ON f.id = s.folder "
        "WHERE f.path = ? AND s.name = ?",
        _split(path),
    ).fetchone()
    return SkippedFile(*found) if found else None


def add_photo(connection: sqlite3.Connection, file: FoundFile, sha256: bytes, taken: Taken, seen: Seen) -> int:
    """Write a photo that was not there."""
    whole = np.ascontiguousarray(seen.whole, dtype="<f4")
    boxes = np.ascontiguousarray(seen.region_boxes, dtype="<f4")
    regions = np.ascontiguousarray(seen.region_vectors, dtype="<f2")
    with all_or_nothing(connection):
        number = _add_row(connection, file, sha256, (seen.width, seen.height), taken, len(boxes))
        connection.execute("INSERT INTO vectors VALUES (?, ?)", (number, whole.tobytes()))
        if len(boxes):
            connection.execute("INSERT INTO regions VALUES (?, ?, ?)", (number, boxes.tobytes(), regions.tobytes()))
        if seen.thumbnail is not None:
            connection.execute("INSERT INTO thumbnails VALUES (?, ?)", (number, seen.thumbnail))
    return number


def add_copy(connection: sqlite3.Connection, file: FoundFile, taken: Taken, of: IndexedPhoto) -> int:
    """Write a photo whose content is known from another place: what was seen there is seen here."""
    with all_or_nothing(connection):
        number = _add_row(connection, file, of.sha256, (of.width, of.height), taken, of.regions)
        for table, columns in (("vectors", "whole"), ("regions", "boxes, vectors"), ("thumbnails", "jpeg")):
            connection.execute(
                f"INSERT INTO {table} SELECT ?, {columns} FROM {table} WHERE photo = ?",  # noqa: S608
                (number, of.id),
            )
    return number


def move_photo(connection: sqlite3.Connection, photo: IndexedPhoto, file: FoundFile) -> None:
    """A file of the same content, at another place or with another time: the photo keeps its number."""
    folder, name = _folder_number(connection, file.path), _split(file.path)[1]
    connection.execute(
        "UPDATE photos SET folder = ?, name = ?, size = ?, mtime_ns = ? WHERE id = ?",
        (folder, name, file.size, file.mtime_ns, photo.id),
    )


def remove_photo(connection: sqlite3.Connection, number: int) -> None:
    """Forget a photo, and tell those who remember its number."""
    with all_or_nothing(connection):
        for table, key in (("thumbnails", "photo"), ("regions", "photo"), ("vectors", "photo"), ("photos", "id")):
            connection.execute(f"DELETE FROM {table} WHERE {key} = ?", (number,))  # noqa: S608
        connection.execute("INSERT INTO removed (photo) VALUES (?)", (number,))


def skip_file(connection: sqlite3.Connection, file: FoundFile, sha256: bytes, reason: str) -> None:
    """Remember that a file cannot be indexed as it is."""
    values = (_folder_number(connection, file.path), _split(file.path)[1], file.size, file.mtime_ns, sha256, reason)
    connection.execute("INSERT OR REPLACE INTO skipped VALUES (?, ?, ?, ?, ?, ?)", values)


def forget_skipped(connection: sqlite3.Connection, path: Path) -> None:
    """The file at a path is gone, or is a photo now."""
    connection.execute(
        "DELETE FROM skipped WHERE folder = (SELECT id FROM folders WHERE path = ?) AND name = ?", _split(path)
    )


def skipped_below(connection: sqlite3.Connection, point: Path) -> list[Path]:
    """The files that were skipped in a folder and below it, or the one at this path."""
    found = [point] if skipped_at(connection, point) else []
    for folder in _folders_below(connection, point):
        rows = connection.execute(
            "SELECT f.path, s.name FROM skipped s JOIN folders f ON f.id = s.folder WHERE f.id = ?", (folder,)
        )
        found += [_joined(path, name) for path, name in rows]
    return found


def whole_of(connection: sqlite3.Connection, number: int) -> Floats | None:
    """The vector of a photo."""
    found = connection.execute("SELECT whole FROM vectors WHERE photo = ?", (number,)).fetchone()
    return np.frombuffer(found[0], dtype="<f4") if found else None


def regions_of(
    connection: sqlite3.Connection, numbers: Iterable[int], dimension: int
) -> dict[int, tuple[Floats, NDArray[np.float16]]]:
    """Boxes and vectors of the regions of photos; a photo without any is left out."""
    wanted = [int(number) for number in numbers]
    found = {}
    for begin in range(0, len(wanted), _AT_ONCE):
        query = "SELECT photo, boxes, vectors FROM regions WHERE photo IN (SELECT value FROM json_each(?))"
        for number, boxes, vectors in connection.execute(query, (json.dumps(wanted[begin : begin + _AT_ONCE]),)):
            found[number] = (
                np.frombuffer(boxes, dtype="<f4").reshape(-1, 4),
                np.frombuffer(vectors, dtype="<f2").reshape(-1, dimension),
            )
    return found


def thumbnail(connection: sqlite3.Connection, number: int) -> bytes | None:
    """The small JPEG of a photo."""
    found = connection.execute("SELECT jpeg FROM thumbnails WHERE photo = ?", (number,)).fetchone()
    return bytes(found[0]) if found else None


def _add_row(
    connection: sqlite3.Connection,
    file: FoundFile,
    sha256: bytes,
    size: tuple[int, int],
    taken: Taken,
    regions: int,
) -> int:
    values = (
        _folder_number(connection, file.path),
        _split(file.path)[1],
        file.size,
        file.mtime_ns,
        sha256,
        *size,
        taken.seconds,
        taken.camera,
        taken.orientation,
        regions,
    )
    forget_skipped(connection, file.path)
    added = connection.execute(
        "INSERT INTO photos (folder, name, size, mtime_ns, sha256, width, height, taken, camera, orientation, regions) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        values,
    )
    return int(added.lastrowid or 0)


def _folder_number(connection: sqlite3.Connection, path: Path) -> int:
    folder = _split(path)[0]
    connection.execute("INSERT OR IGNORE INTO folders (path) VALUES (?)", (folder,))
    return int(connection.execute("SELECT id FROM folders WHERE path = ?", (folder,)).fetchone()[0])


def _folders_below(connection: sqlite3.Connection, point: Path) -> list[int]:
    if point.is_file():  # thousands of files may be named one by one
        return []
    top = os.fsencode(point)
    inside = top.rstrip(os.fsencode(os.sep)) + os.fsencode(os.sep)
    rows = connection.execute("SELECT id, path FROM folders").fetchall()
    return [number for number, path in rows if path == top or path.startswith(inside)]


def _split(path: Path) -> tuple[bytes, bytes]:
    """Folder and name as the file system has them; a name need not be text."""
    return os.fsencode(path.parent), os.fsencode(path.name)


def _joined(folder: bytes, name: bytes) -> Path:
    return Path(os.fsdecode(folder)) / os.fsdecode(name)


def _photo(row: tuple[Any, ...]) -> IndexedPhoto:
    number, folder, name, size, mtime_ns, sha256, width, height, taken, camera, orientation, regions = row
    path, about = _joined(folder, name), Taken(taken, camera, orientation)
    return IndexedPhoto(number, path, size, mtime_ns, sha256, width, height, about, regions)
