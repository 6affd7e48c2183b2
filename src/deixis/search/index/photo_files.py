"""Photo files: finding them below folders, hashing them, reading their EXIF data, and making thumbnails."""

from __future__ import annotations

import io
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from deixis.data.images import SUFFIXES
from deixis.errors import DeixisError, PhotoError
from deixis.storage.files import hash_file
from deixis.storage.remote import RemotePath, is_remote, photo_path

if TYPE_CHECKING:
    from PIL import Image

INDEX_MARKER = ".deixis-index"
"""An empty file in every index folder: no photos are searched for there, and only there is a database replaced."""

_EXIF_IFD, _DATE_TIME_ORIGINAL, _DATE_TIME = 0x8769, 0x9003, 0x0132
_MAKE, _MODEL, _ORIENTATION = 0x010F, 0x0110, 0x0112
_MAX_CAMERA_NAME = 200
_FILES_AHEAD = 32
THUMBNAIL_SIDE = 320
THUMBNAIL_QUALITY = 80


@dataclass(frozen=True)
class FileState:
    """A photo file with the size and time that show whether it has changed."""

    path: Path
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class ExifInfo:
    """The EXIF data that the index stores; None where the file has none."""

    # In seconds since 1970, as if the camera's clock showed UTC: cameras rarely record a time zone.
    taken: int | None = None
    camera: str | None = None  # make and model
    orientation: int | None = None  # 1 to 8


@dataclass(frozen=True)
class FileMetadata:
    """The SHA-256 of a file and its EXIF data."""

    sha256: bytes
    exif: ExifInfo


MetadataResult = tuple[Path, FileMetadata | PhotoError]
MetadataReader = Callable[[Iterable[Path]], Iterator[MetadataResult]]
"""Yields one result per path, in the order of the paths."""


def find_roots(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the absolute paths of existing folders and files, without those inside another one of them."""
    roots = sorted({absolute_path(path) for path in paths})
    for root in roots:
        if not root.exists():
            raise DeixisError(f"{root}: no such file or folder")
    folders = {root for root in roots if root.is_dir()}
    return [root for root in roots if folders.isdisjoint(root.parents)]


def absolute_path(path: str | os.PathLike[str]) -> Path:
    """Return the path under which an index stores a file or folder."""
    local = photo_path(path)
    # `abspath`, not `resolve`: users know a photo by the path they gave, links included.
    return local if is_remote(local) else Path(os.path.abspath(local))  # noqa: PTH100


def find_photos(roots: Iterable[Path]) -> Iterator[FileState | PhotoError]:
    """Yield files with a photo's suffix below folders, and files that are named themselves, sorted.

    Hidden files and folders, index folders and links to folders are skipped, so there are no cycles. A folder or file
    that cannot be read yields an error, and so does a link to a file outside the folder: an index of a shared folder
    must not expose other files.
    """
    for root in roots:
        if not root.is_dir():
            if (found := _stat_file(root)) is not None:
                yield found
        elif isinstance(root, RemotePath):
            yield from _find_remote_photos(root)
        else:
            yield from _find_local_photos(root)


def _find_local_photos(root: Path) -> Iterator[FileState | PhotoError]:
    pending, real_root = [root], root.resolve()  # a stack: folders may be nested deeper than Python can recurse
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as entries:
                entries_by_name = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            yield PhotoError(folder, f"cannot be read ({error.strerror or error})")
            continue
        if any(entry.name == INDEX_MARKER for entry in entries_by_name):
            continue
        visible = [entry for entry in entries_by_name if not entry.name.startswith(".")]
        pending += [folder / entry.name for entry in reversed(visible) if entry.is_dir(follow_symlinks=False)]
        for entry in visible:
            path = folder / entry.name
            if path.suffix.lower() in SUFFIXES and (found := _stat_file(path)) is not None:
                is_outside = entry.is_symlink() and isinstance(found, FileState)
                is_outside = is_outside and not path.resolve().is_relative_to(real_root)
                yield PhotoError(path, f"a link to a file outside {root}") if is_outside else found


def _find_remote_photos(root: RemotePath) -> Iterator[FileState | PhotoError]:
    pending = [root]
    while pending:
        folder = pending.pop()
        try:
            visible = [(path, status) for path, status in folder.list_folder() if not path.name.startswith(".")]
        except OSError as error:
            yield PhotoError(folder, f"cannot be read ({error.strerror or error})")
            continue
        pending += [path for path, status in reversed(visible) if stat.S_ISDIR(status.st_mode)]
        for path, status in visible:
            if path.suffix.lower() in SUFFIXES and (found := _file_state(path, status)) is not None:
                yield found


def _stat_file(path: Path) -> FileState | PhotoError | None:
    try:
        return _file_state(path, path.stat())
    except OSError as error:
        return PhotoError(path, f"cannot be read ({error.strerror or error})")


def _file_state(path: Path, status: os.stat_result) -> FileState | PhotoError | None:
    if stat.S_ISDIR(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        return PhotoError(path, "not a file")  # opening a pipe would block
    if status.st_size == 0:
        return PhotoError(path, "an empty file")
    return FileState(path, status.st_size, status.st_mtime_ns)


def read_metadata(path: Path) -> MetadataResult:
    """Hash a file and read its EXIF data."""
    try:
        return path, FileMetadata(bytes.fromhex(hash_file(path)), read_exif(path))
    except OSError as error:
        return path, PhotoError(path, f"cannot be read ({error.strerror or error})")


def read_metadata_ahead(paths: Iterable[Path]) -> Iterator[MetadataResult]:
    """Read files ahead in a thread while the caller works."""
    waiting: deque[Future[MetadataResult]] = deque()
    pool = ThreadPoolExecutor(1, thread_name_prefix="hashes")
    try:
        for path in paths:
            waiting.append(pool.submit(read_metadata, path))
            if len(waiting) == _FILES_AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def read_exif(path: Path) -> ExifInfo:
    """Read EXIF data without decoding the photo; empty for files that cannot be understood."""
    import pi_heif
    from PIL import Image

    from deixis.data.images import FORMATS
    from deixis.storage.remote import path_or_stream

    pi_heif.register_heif_opener()
    try:
        with Image.open(path_or_stream(path), formats=FORMATS) as image:
            exif = image.getexif()
            taken = exif.get_ifd(_EXIF_IFD).get(_DATE_TIME_ORIGINAL) or exif.get(_DATE_TIME)
            orientation = exif.get(_ORIENTATION)
            return ExifInfo(
                _parse_time(taken),
                _camera_name(exif.get(_MAKE), exif.get(_MODEL)),
                orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else None,
            )
    except Exception:  # broken metadata can fail in any way, and must not exclude the photo
        return ExifInfo()


def _parse_time(value: object) -> int | None:
    try:
        moment = datetime.strptime(_clean_text(value)[:19], "%Y:%m:%d %H:%M:%S")
        return int(moment.replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None


def _camera_name(make: object, model: object) -> str | None:
    maker, name = _clean_text(make), _clean_text(model)
    # Many model names begin with the maker's name.
    camera = name if name.casefold().startswith(maker.casefold()) else f"{maker} {name}".strip()
    return camera[:_MAX_CAMERA_NAME] or None


def _clean_text(value: object) -> str:
    text = value.decode("latin-1") if isinstance(value, bytes) else value if isinstance(value, str) else ""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def make_thumbnail(photo: Image.Image, side: int = THUMBNAIL_SIDE) -> bytes:
    """Encode a decoded photo as a small JPEG without metadata; its longer side has at most `side` pixels."""
    small = photo.convert("RGB")
    small.thumbnail((side, side), reducing_gap=2.0)
    small.info.clear()
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=THUMBNAIL_QUALITY)
    return buffer.getvalue()
