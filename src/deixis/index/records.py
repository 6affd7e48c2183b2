"""The rows of an index: what is known of each photo, written by one and read by many."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.files.remote import is_remote, photo_path
from deixis.index.connection import Connection, all_or_nothing, one_of
from deixis.index.exif import Taken
from deixis.index.seeing import Seen
from deixis.index.walking import FoundFile
from deixis.index.where import Where

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


def photo_at(connection: Connection, path: Path) -> IndexedPhoto | None:
    """The photo at a path."""
    found = connection.execute(f"SELECT {_COLUMNS} WHERE f.path = ? AND p.name = ?", _split(path)).fetchone()
    return _photo(found) if found else None


def photos_in(connection: Connection, folder: Path) -> dict[str, IndexedPhoto]:
    """The photos right in a folder, by name."""
    rows = connection.execute(f"SELECT {_COLUMNS} WHERE f.path = ?", (os.fsencode(folder),))
    return {os.fsdecode(row[2]): _photo(row) for row in rows}


def photos_of_content(connection: Connection, sha256: bytes) -> list[IndexedPhoto]:
    """All photos whose files have these bytes."""
    rows = connection.execute(f"SELECT {_COLUMNS} WHERE p.sha256 = ? ORDER BY p.id", (sha256,))
    return [_photo(row) for row in rows]


def photos_by_id(connection: Connection, ids: Iterable[int]) -> dict[int, IndexedPhoto]:
    """Photos by their numbers; one that is gone is left out."""
    rows = connection.execute(f"SELECT {_COLUMNS} WHERE p.id IN {one_of(ids)}")
    return {row[0]: _photo(row) for row in rows}


def photos_after(connection: Connection, number: int, count: int) -> list[IndexedPhoto]:
    """So many photos with higher numbers, ascending."""
    rows = connection.execute(f"SELECT {_COLUMNS} WHERE p.id > ? ORDER BY p.id LIMIT ?", (number, count))
    return [_photo(row) for row in rows]


def photos_below(connection: Connection, point: Path) -> Iterator[IndexedPhoto]:
    """The photo at a path, or all photos in that folder and below it."""
    for folder in _folders_below(connection, point):
        rows = connection.execute(f"SELECT {_COLUMNS} WHERE f.id = ? ORDER BY p.id", (folder,))
        yield from [_photo(row) for row in rows]
    if (photo := photo_at(connection, point)) is not None:
        yield photo


def ids_where(connection: Connection, where: Where) -> NDArray[np.int64]:
    """The numbers of the photos that are looked at, ascending."""
    condition, values = condition_of(connection, where)
    rows = connection.execute(f"SELECT p.id FROM photos p WHERE {condition} ORDER BY p.id", values)  # noqa: S608
    return np.fromiter((row[0] for row in rows), dtype=np.int64)


def condition_of(connection: Connection, where: Where) -> tuple[str, list[object]]:
    """What SQL has after WHERE for the photos ``p`` that are looked at, and its values."""
    conditions, values = ["TRUE"], list[object]()
    if where.folder is not None:
        folders = connection.execute("SELECT id, path FROM folders")
        conditions.append(f"p.folder IN {one_of(number for number, path in folders if where.allows_folder(path))}")
    if (first := where.seconds_from()) is not None:
        conditions.append("p.taken >= ?")
        values.append(first)
    if (last := where.seconds_until()) is not None:
        conditions.append("p.taken < ?")
        values.append(last)
    if where.camera:
        conditions.append("lower(p.camera) LIKE lower(?) ESCAPE '!'")
        values.append("%" + re.sub("([!%_])", r"!\1", where.camera) + "%")
    return " AND ".join(conditions), values


def skipped_at(connection: Connection, path: Path) -> SkippedFile | None:
    """What was wrong with a file when it was last looked at."""
    found = connection.execute(
        "SELECT s.size, s.mtime_ns, s.sha256, s.reason FROM skipped s JOIN folders f ON f.id = s.folder "
        "WHERE f.path = ? AND s.name = ?",
        _split(path),
    ).fetchone()
    return SkippedFile(*found) if found else None


def all_skipped(connection: Connection) -> list[tuple[Path, SkippedFile]]:
    """The files that were skipped."""
    rows = connection.execute(
        "SELECT f.path, s.name, s.size, s.mtime_ns, s.sha256, s.reason FROM skipped s JOIN folders f ON f.id = s.folder"
    )
    return [(_joined(folder, name), SkippedFile(*rest)) for folder, name, *rest in rows]


def reason_of_content(connection: Connection, sha256: bytes) -> str | None:
    """What was wrong with a file of this content, wherever it lies."""
    found = connection.execute("SELECT reason FROM skipped WHERE sha256 = ?", (sha256,)).fetchone()
    return found[0] if found else None


def count(connection: Connection) -> int:
    """How many photos there are."""
    return int(connection.execute("SELECT count(*) FROM photos").fetchone()[0])


def add_photo(connection: Connection, file: FoundFile, sha256: bytes, taken: Taken, seen: Seen) -> int | None:
    """Write a photo that was not there; its number, or None where another process has put one at its path."""
    with all_or_nothing(connection):
        number = _add_row(connection, file, sha256, (seen.width, seen.height), taken, len(seen.region_boxes))
        if number is not None:
            connection.keep_seen(number, seen)
    return number


def add_copy(connection: Connection, file: FoundFile, taken: Taken, of: IndexedPhoto) -> int | None:
    """Write a photo whose content is known from another place: what was seen there is seen here."""
    with all_or_nothing(connection):
        number = _add_row(connection, file, of.sha256, (of.width, of.height), taken, of.regions)
        if number is not None:
            connection.copy_seen(number, of.id)
    return number


def move_photo(connection: Connection, photo: IndexedPhoto, file: FoundFile) -> None:
    """A file of the same content, at another place or with another time: the photo keeps its number."""
    folder, name = _split(file.path)
    connection.execute(
        "UPDATE photos SET folder = ?, name = ?, size = ?, mtime_ns = ? WHERE id = ?",
        (connection.folder_number(folder), name, file.size, file.mtime_ns, photo.id),
    )


def remove_photo(connection: Connection, number: int) -> None:
    """Forget a photo, and tell those who remember its number."""
    with all_or_nothing(connection):
        connection.forget_seen(number)
        connection.execute("DELETE FROM photos WHERE id = ?", (number,))


def skip_file(connection: Connection, file: FoundFile, sha256: bytes, reason: str) -> None:
    """Remember that a file cannot be indexed as it is."""
    folder, name = _split(file.path)
    connection.execute(
        "INSERT INTO skipped (folder, name, size, mtime_ns, sha256, reason) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (folder, name) DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns, "
        "sha256 = excluded.sha256, reason = excluded.reason",
        (connection.folder_number(folder), name, file.size, file.mtime_ns, sha256, reason),
    )


def forget_skipped(connection: Connection, path: Path) -> None:
    """The file at a path is gone, or is a photo now."""
    connection.execute(
        "DELETE FROM skipped WHERE folder = (SELECT id FROM folders WHERE path = ?) AND name = ?", _split(path)
    )


def skipped_below(connection: Connection, point: Path) -> list[Path]:
    """The files that were skipped in a folder and below it, or the one at this path."""
    found = [point] if skipped_at(connection, point) else []
    for folder in _folders_below(connection, point):
        rows = connection.execute(
            "SELECT f.path, s.name FROM skipped s JOIN folders f ON f.id = s.folder WHERE f.id = ?", (folder,)
        )
        found += [_joined(path, name) for path, name in rows]
    return found


def thumbnail(connection: Connection, number: int) -> bytes | None:
    """The small JPEG of a photo."""
    found = connection.execute("SELECT jpeg FROM thumbnails WHERE photo = ?", (number,)).fetchone()
    return bytes(found[0]) if found else None


def _add_row(
    connection: Connection,
    file: FoundFile,
    sha256: bytes,
    size: tuple[int, int],
    taken: Taken,
    regions: int,
) -> int | None:
    folder, name = _split(file.path)
    values = (
        connection.folder_number(folder),
        name,
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
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (folder, name) DO NOTHING RETURNING id",
        values,
    ).fetchone()
    return int(added[0]) if added else None


def _folders_below(connection: Connection, point: Path) -> list[int]:
    if is_remote(point):  # an archive's address ends with the archive, not with the folder inside
        rows = connection.execute("SELECT id, path FROM folders").fetchall()
        return [number for number, path in rows if photo_path(os.fsdecode(path)).is_relative_to(point)]
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
    return photo_path(os.fsdecode(folder)) / os.fsdecode(name)


def _photo(row: tuple[Any, ...]) -> IndexedPhoto:
    number, folder, name, size, mtime_ns, sha256, width, height, taken, camera, orientation, regions = row
    path, about = _joined(folder, name), Taken(taken, camera, orientation)
    return IndexedPhoto(number, path, size, mtime_ns, sha256, width, height, about, regions)
