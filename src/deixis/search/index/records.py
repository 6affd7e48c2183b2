"""The rows of an index: reading, filtering and writing photos, in SQL that both databases share."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DeixisError
from deixis.search.index.base import Connection, PhotoVectors, savepoint
from deixis.search.index.photo_files import FILE, ExifInfo, FileState
from deixis.storage.remote import is_remote, photo_path

_COLUMNS = (
    "p.id, f.path, p.name, p.size, p.mtime_ns, p.sha256, p.width, p.height, p.taken, p.camera, p.orientation, "
    "p.date_source, p.regions FROM photos p JOIN folders f ON f.id = p.folder"
)

_IS_UNDATED = f"(p.taken IS NULL OR p.date_source = '{FILE}')"
"""The time of a file is a guess: that of copies is the day on which they were copied."""

DateLike = str | date
"""``2024``, ``2024-06``, ``2024-06-01``, ``2024-06-01 12:30``, or a Python date or datetime."""

_DATE = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})(?:[T ](?P<hour>\d{1,2}):(?P<minute>\d{2}))?)?)?"
)


@dataclass(frozen=True)
class IndexedPhoto:
    """A photo in the index, without its vectors; size, time and hash are those of the file when it was read."""

    id: int  # never reused, and its content never changes
    path: Path
    size: int
    mtime_ns: int
    sha256: bytes
    width: int  # in pixels, after EXIF rotation
    height: int
    exif: ExifInfo
    regions: int  # number of regions that have vectors


@dataclass(frozen=True)
class SkippedFile:
    """A file that could not be indexed, and why."""

    file: FileState
    sha256: bytes
    reason: str


@dataclass(frozen=True)
class PhotoFilter:
    """Conditions that a photo must meet; None means any.

    Attributes
    ----------
    after, before
        Taken at or after the start of the first, and before the start of the second, by the camera's clock. Photos
        without a date are excluded.
    folder
        Part of the name of a folder that contains the photo, at any depth, or, with a ``/``, part of its path; with a
        ``/`` at the end, whole names: ``2024/Lake/``. Case-insensitive.
    camera
        Part of the camera's name. Case-insensitive.
    excluded_folders
        Like `folder`, for folders that must not contain the photo.
    undated
        Only photos whose date is unknown, or only that of the file.
    album, favourite
        Only the photos of an album, or with five stars. `PhotoCollection` turns them into `paths`.
    paths
        Only these photos.

    Examples
    --------
    >>> PhotoFilter(after="2024-06").first_second()
    1717200000
    """

    after: DateLike | None = None
    before: DateLike | None = None
    folder: str | None = None
    camera: str | None = None
    excluded_folders: tuple[str, ...] = ()
    undated: bool = False
    album: str | None = None
    favourite: bool = False
    paths: frozenset[Path] | None = None

    def __post_init__(self) -> None:
        for name in ("after", "before"):
            value = getattr(self, name)
            if not isinstance(value, str | date | None):
                raise DeixisError(f"{name}={value!r}: not a date; use a form such as 2024, 2024-06 or 2024-06-01")
        for name in ("folder", "camera"):
            value = getattr(self, name)
            if not isinstance(value, str | None):
                raise DeixisError(f"{name}: expected part of a name as a string, not {type(value).__name__}")
        self.first_second(), self.end_second()  # invalid dates raise here

    def __bool__(self) -> bool:
        """Whether any photo could be excluded."""
        return self.paths is not None or any(vars(self).values())

    def first_second(self) -> int | None:
        """Return the first included second, in the time of `ExifInfo.taken`."""
        return _parse_date(self.after) if self.after else None

    def end_second(self) -> int | None:
        """Return the first second that is no longer included."""
        return _parse_date(self.before) if self.before else None

    def allows_folder(self, path: bytes) -> bool:
        """Return whether photos in a folder are included."""
        folder = os.fsdecode(path).replace(os.sep, "/").casefold()
        if any(_is_in_folder(folder, excluded) for excluded in self.excluded_folders):
            return False
        return self.folder is None or _is_in_folder(folder, self.folder)


def _is_in_folder(folder: str, name: str) -> bool:
    pattern = name.replace("\\", "/").casefold()
    if pattern.endswith("/"):
        return f"/{pattern.strip('/')}/" in f"/{folder}/"
    if "/" in pattern:
        return pattern in folder
    return any(pattern in part for part in folder.split("/"))


def photo_at(connection: Connection, path: Path) -> IndexedPhoto | None:
    found = connection.execute(f"SELECT {_COLUMNS} WHERE f.path = ? AND p.name = ?", _split(path)).fetchone()
    return _photo(found) if found else None


def photos_in(connection: Connection, folder: Path) -> dict[str, IndexedPhoto]:
    """Return the photos directly in a folder, by file name."""
    rows = connection.execute(f"SELECT {_COLUMNS} WHERE f.path = ?", (os.fsencode(folder),))
    return {os.fsdecode(row[2]): _photo(row) for row in rows}


def photos_with_content(connection: Connection, sha256: bytes) -> list[IndexedPhoto]:
    rows = connection.execute(f"SELECT {_COLUMNS} WHERE p.sha256 = ? ORDER BY p.id", (sha256,))
    return [_photo(row) for row in rows]


def photos_by_id(connection: Connection, ids: Iterable[int]) -> dict[int, IndexedPhoto]:
    """Return photos by number, without those that were removed."""
    rows = connection.execute(f"SELECT {_COLUMNS} WHERE p.id IN {sql_list(ids)}")
    return {row[0]: _photo(row) for row in rows}


def photos_after(connection: Connection, number: int, count: int) -> list[IndexedPhoto]:
    """Return up to `count` photos with higher numbers, ascending."""
    rows = connection.execute(f"SELECT {_COLUMNS} WHERE p.id > ? ORDER BY p.id LIMIT ?", (number, count))
    return [_photo(row) for row in rows]


def photos_below(connection: Connection, root: Path) -> Iterator[IndexedPhoto]:
    """Yield the photo at a path, or all photos in that folder and below it."""
    for folder in _folders_below(connection, root):
        rows = connection.execute(f"SELECT {_COLUMNS} WHERE f.id = ? ORDER BY p.id", (folder,))
        yield from [_photo(row) for row in rows]
    if (photo := photo_at(connection, root)) is not None:
        yield photo


def filtered_numbers(
    connection: Connection, photo_filter: PhotoFilter, table: str = "photos", by_date: bool = False
) -> NDArray[np.int64]:
    """Return the numbers of the photos that pass a filter, ascending, or the last taken first and undated ones last."""
    condition, values = filter_condition(connection, photo_filter)
    order = f"{_IS_UNDATED}, COALESCE(p.taken, 0) DESC, p.id DESC" if by_date else "p.id"
    rows = connection.execute(f"SELECT p.id FROM {table} p WHERE {condition} ORDER BY {order}", values)  # noqa: S608
    return np.fromiter((row[0] for row in rows), dtype=np.int64)


def filter_condition(connection: Connection, photo_filter: PhotoFilter) -> tuple[str, list[object]]:
    """Return a filter as an SQL condition on the table ``photos p``, with its values."""
    conditions, values = ["TRUE"], list[object]()
    if photo_filter.folder is not None or photo_filter.excluded_folders:
        folders = connection.execute("SELECT id, path FROM folders")
        conditions.append(
            f"p.folder IN {sql_list(number for number, path in folders if photo_filter.allows_folder(path))}"
        )
    if (first := photo_filter.first_second()) is not None:
        conditions.append("p.taken >= ?")
        values.append(first)
    if (last := photo_filter.end_second()) is not None:
        conditions.append("p.taken < ?")
        values.append(last)
    if photo_filter.camera:
        conditions.append("lower(p.camera) LIKE lower(?) ESCAPE '!'")
        values.append("%" + re.sub("([!%_])", r"!\1", photo_filter.camera) + "%")
    if photo_filter.undated:
        conditions.append(_IS_UNDATED)
    if photo_filter.paths is not None:
        conditions.append(f"p.id IN {sql_list(_numbers_at(connection, photo_filter.paths))}")
    return " AND ".join(conditions), values


def skipped_at(connection: Connection, path: Path) -> SkippedFile | None:
    return next(iter(_skipped(connection, "f.path = ? AND s.name = ?", *_split(path))), None)


def all_skipped(connection: Connection) -> list[SkippedFile]:
    return _skipped(connection, "TRUE")


def skip_reason(connection: Connection, sha256: bytes) -> str | None:
    """Return why a file with this content was skipped."""
    return next((skipped.reason for skipped in _skipped(connection, "s.sha256 = ?", sha256)), None)


def count(connection: Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM photos").fetchone()[0])


def folders(connection: Connection) -> list[Path]:
    return [_folder(path) for (path,) in connection.execute("SELECT path FROM folders")]


def folders_and_months(
    connection: Connection, photo_filter: PhotoFilter, table: str = "photos"
) -> Iterator[tuple[Path, str]]:
    """Yield the folder of each photo that passes a filter, and its month, such as ``2024-06``; empty if undated."""
    condition, values = filter_condition(connection, photo_filter)
    rows = connection.execute(
        f"SELECT f.path, CASE WHEN {_IS_UNDATED} THEN NULL ELSE p.taken END "  # noqa: S608
        f"FROM {table} p JOIN folders f ON f.id = p.folder WHERE {condition}",
        values,
    )
    for path, taken in rows:
        yield _folder(path), "" if taken is None else datetime.fromtimestamp(taken, UTC).strftime("%Y-%m")


def add_photo(
    connection: Connection, file: FileState, sha256: bytes, exif: ExifInfo, encoded: PhotoVectors
) -> int | None:
    """Insert a photo and return its number; None if another process has inserted one at its path."""
    folder, name = _split(file.path)
    with savepoint(connection):
        stored = connection.folder_number(folder), name, file.size, file.mtime_ns, sha256, encoded.width, encoded.height
        values = (*stored, exif.taken, exif.camera, exif.orientation, exif.date_source, len(encoded.region_boxes))
        forget_skipped(connection, file.path)
        added = connection.execute(
            "INSERT INTO photos (folder, name, size, mtime_ns, sha256, width, height, taken, camera, orientation, "
            "date_source, regions) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (folder, name) DO NOTHING "
            "RETURNING id",
            values,
        ).fetchone()
        number = int(added[0]) if added else None
        if number is not None:
            connection.insert_encoded(number, encoded)
    return number


def read_encoded(
    connection: Connection, photos: Sequence[IndexedPhoto], region_dimension: int
) -> dict[int, PhotoVectors]:
    """Return what `add_photo` stored of photos, without those that were removed."""
    numbers = [photo.id for photo in photos]
    whole, regions = connection.whole_vectors(numbers), connection.regions_of(numbers, region_dimension)
    none = np.zeros((0, 4), dtype=np.float32), np.zeros((0, region_dimension), dtype=np.float16)
    found = {}
    for photo in photos:
        if photo.id in whole:
            boxes, vectors = regions.get(photo.id, none)
            thumbnail = connection.thumbnail_of(photo.id)
            found[photo.id] = PhotoVectors(
                whole[photo.id], photo.width, photo.height, boxes, vectors.astype(np.float32), thumbnail
            )
    return found


def move_photo(connection: Connection, photo: IndexedPhoto, file: FileState) -> None:
    """Record a new path or time for a photo with unchanged content; it keeps its number."""
    folder, name = _split(file.path)
    connection.execute(
        "UPDATE photos SET folder = ?, name = ?, size = ?, mtime_ns = ? WHERE id = ?",
        (connection.folder_number(folder), name, file.size, file.mtime_ns, photo.id),
    )


def remove_photo(connection: Connection, number: int) -> None:
    with savepoint(connection):
        connection.delete_encoded(number)
        connection.execute("DELETE FROM photos WHERE id = ?", (number,))


def skip_file(connection: Connection, file: FileState, sha256: bytes, reason: str) -> None:
    """Record that a file cannot be indexed."""
    folder, name = _split(file.path)
    connection.execute(
        "INSERT INTO skipped (folder, name, size, mtime_ns, sha256, reason) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (folder, name) DO UPDATE SET size = excluded.size, mtime_ns = excluded.mtime_ns, "
        "sha256 = excluded.sha256, reason = excluded.reason",
        (connection.folder_number(folder), name, file.size, file.mtime_ns, sha256, reason),
    )


def forget_skipped(connection: Connection, path: Path) -> None:
    connection.execute(
        "DELETE FROM skipped WHERE folder = (SELECT id FROM folders WHERE path = ?) AND name = ?", _split(path)
    )


def skipped_below(connection: Connection, root: Path) -> list[Path]:
    """Return the skipped files in a folder and below it, or the one at this path."""
    found = [root] if skipped_at(connection, root) else []
    below = _skipped(connection, f"f.id IN {sql_list(_folders_below(connection, root))}")
    return found + [skipped.file.path for skipped in below]


def _skipped(connection: Connection, condition: str, *values: object) -> list[SkippedFile]:
    rows = connection.execute(
        "SELECT f.path, s.name, s.size, s.mtime_ns, s.sha256, s.reason "  # noqa: S608
        f"FROM skipped s JOIN folders f ON f.id = s.folder WHERE {condition}",
        values,
    )
    return [
        SkippedFile(FileState(_join(folder, name), size, mtime_ns), sha256, reason)
        for folder, name, size, mtime_ns, sha256, reason in rows
    ]


def _folders_below(connection: Connection, root: Path) -> list[int]:
    if not is_remote(root) and root.is_file():  # saves time when thousands of files are named one by one
        return []
    rows = connection.execute("SELECT id, path FROM folders").fetchall()
    if is_remote(root):  # the address of an archive ends with the archive, not with the folder inside
        return [number for number, path in rows if photo_path(os.fsdecode(path)).is_relative_to(root)]
    top = os.fsencode(root)
    inside = top.rstrip(os.fsencode(os.sep)) + os.fsencode(os.sep)
    return [number for number, path in rows if path == top or path.startswith(inside)]


def _numbers_at(connection: Connection, paths: Iterable[Path]) -> list[int]:
    names = defaultdict[bytes, set[bytes]](set)
    for folder, name in map(_split, paths):
        names[folder].add(name)
    wanted = {
        number: names[path] for number, path in connection.execute("SELECT id, path FROM folders") if path in names
    }
    rows = connection.execute(f"SELECT id, folder, name FROM photos WHERE folder IN {sql_list(wanted)}")  # noqa: S608
    return [number for number, folder, name in rows if name in wanted[folder]]


def _split(path: Path) -> tuple[bytes, bytes]:
    """Return folder and name as bytes: a file name need not be valid text."""
    return os.fsencode(path.parent), os.fsencode(path.name)


@lru_cache(maxsize=1024)
def _folder(path: bytes) -> Path:
    return photo_path(os.fsdecode(path))


def _join(folder: bytes, name: bytes) -> Path:
    return _folder(folder) / os.fsdecode(name)


def _photo(row: tuple[Any, ...]) -> IndexedPhoto:
    number, folder, name, size, mtime_ns, sha256, width, height, taken, camera, orientation, source, regions = row
    exif = ExifInfo(taken, camera, orientation, source)
    return IndexedPhoto(number, _join(folder, name), size, mtime_ns, sha256, width, height, exif, regions)


def _parse_date(moment: DateLike) -> int:
    if isinstance(moment, date):
        return int(datetime(*moment.timetuple()[:6], tzinfo=UTC).timestamp())
    parts = _DATE.fullmatch(moment.strip()) if isinstance(moment, str) else None
    try:
        if parts is None:
            raise ValueError
        values = {name: int(value) for name, value in parts.groupdict().items() if value}
        return int(datetime(**{"month": 1, "day": 1, **values}, tzinfo=UTC).timestamp())
    except ValueError:
        raise DeixisError(f"{moment!r}: not a date; use a form such as 2024, 2024-06 or 2024-06-01") from None


def sql_list(numbers: Iterable[int]) -> str:
    """Return numbers as SQL has them after IN; there may be none, or more than a statement may have values."""
    return f"({','.join(str(int(number)) for number in numbers) or 'NULL'})"
