"""Photo files: finding them below folders, hashing them, reading their EXIF data and dates, and making thumbnails."""

from __future__ import annotations

import io
import os
import re
import stat
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from deixis.data.images import SUFFIXES, VIDEO_SUFFIXES, can_read_videos, exif_of, open_image_file
from deixis.errors import DeixisError, PhotoError
from deixis.storage.files import hash_file, open_regular, size_and_time
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
    """Time, camera and place of a photo; None for unknown values."""

    # In seconds since 1970, as if the camera's clock showed UTC: cameras rarely record a time zone.
    taken: int | None = None
    camera: str | None = None  # make and model
    orientation: int | None = None  # 1 to 8
    date_source: str | None = None  # of `taken`; see `dates`


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


_SYSTEM_FOLDERS = frozenset(
    (
        *("#recycle", "$recycle.bin", "@eadir", "@recycle", "__macosx", "__pycache__", "lost+found", "node_modules"),
        *("recycler", "system volume information", "trash"),
    )
)
"""Folders with thumbnails, deleted files and programs, in lower case."""

HIDDEN, SYSTEM, EXCLUDED = "hidden", "system folders", "excluded"
LINK, VIDEO, OTHER = "links to folders", "videos", "other files"
"""Kinds of files and folders that are ignored; what is in an ignored folder is not counted."""


class FileSelection:
    """Decides which files below a folder are photos to index, and counts what is ignored.

    Parameters
    ----------
    exclude
        Patterns of names, such as ``Screenshots`` or ``*.gif``, or with a slash of paths below the folder that is
        indexed: ``2019/raw/*``. Case-insensitive.
    """

    def __init__(self, exclude: Iterable[str] = ()) -> None:
        self.exclude = tuple(pattern.strip().strip("/").casefold() for pattern in exclude if pattern.strip(" /"))
        self.ignored: Counter[str] = Counter()
        self._suffixes = SUFFIXES | (VIDEO_SUFFIXES if can_read_videos() else frozenset())

    def is_left_out(self, path: Path, root: Path) -> bool:
        """Return whether a file would be ignored because of a folder or a name, on the way from a root."""
        below, last = root, len(path.relative_to(root).parts) - 1
        for depth, part in enumerate(path.relative_to(root).parts):
            below = below / part
            if self._kind(below, root, is_folder=depth < last) in (HIDDEN, SYSTEM, EXCLUDED):
                return True
        return False

    def takes(self, path: Path, root: Path, is_folder: bool) -> bool:
        """Return whether a folder is searched, or a file is indexed; count it if not."""
        kind = self._kind(path, root, is_folder)
        if kind is not None:
            self.ignored[kind] += 1
        return kind is None

    def ignore_link(self, path: Path, root: Path) -> None:
        """Count a link to a folder, which is not followed."""
        self.ignored[self._kind(path, root, is_folder=True) or LINK] += 1

    def _kind(self, path: Path, root: Path, is_folder: bool) -> str | None:
        name = path.name.casefold()
        if name.startswith("."):
            return HIDDEN
        if is_folder and name in _SYSTEM_FOLDERS:
            return SYSTEM
        if self.exclude:
            relative = path.relative_to(root).as_posix().casefold()
            if any(fnmatchcase(relative if "/" in pattern else name, pattern) for pattern in self.exclude):
                return EXCLUDED
        if is_folder or path.suffix.lower() in self._suffixes:
            return None
        return VIDEO if path.suffix.lower() in VIDEO_SUFFIXES else OTHER


def find_photos(roots: Iterable[Path], selection: FileSelection | None = None) -> Iterator[FileState | PhotoError]:
    """Yield the photo files of a selection below folders, and files that are named themselves, sorted.

    Index folders and links to folders are skipped, so there are no cycles. A folder or file
    that cannot be read yields an error, and so does a link to a file outside the folder: an index of a shared folder
    must not expose other files.
    """
    selection = selection or FileSelection()
    for root in roots:
        if not root.is_dir():
            if (found := _stat_file(root)) is not None:
                yield found
        elif isinstance(root, RemotePath):
            yield from _find_remote_photos(root, selection)
        else:
            yield from _find_local_photos(root, selection)


def _find_local_photos(root: Path, selection: FileSelection) -> Iterator[FileState | PhotoError]:
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
        folders = []
        for entry in entries_by_name:
            path = folder / entry.name
            if entry.is_dir(follow_symlinks=False):
                folders += [path] if selection.takes(path, root, is_folder=True) else []
            elif entry.is_symlink() and path.is_dir():
                selection.ignore_link(path, root)
            elif selection.takes(path, root, is_folder=False) and (found := _stat_file(path)) is not None:
                is_outside = entry.is_symlink() and isinstance(found, FileState)
                is_outside = is_outside and not path.resolve().is_relative_to(real_root)
                yield PhotoError(path, f"a link to a file outside {root}") if is_outside else found
        pending += reversed(folders)


def _find_remote_photos(root: RemotePath, selection: FileSelection) -> Iterator[FileState | PhotoError]:
    pending = [root]
    while pending:
        folder = pending.pop()
        try:
            entries = list(folder.list_folder())
        except OSError as error:
            yield PhotoError(folder, f"cannot be read ({error.strerror or error})")
            continue
        folders = []
        for path, status in entries:
            if stat.S_ISDIR(status.st_mode):
                folders += [path] if selection.takes(path, root, is_folder=True) else []
            elif selection.takes(path, root, is_folder=False) and (found := _file_state(path, status)) is not None:
                yield found
        pending += reversed(folders)


def _stat_file(path: Path) -> FileState | PhotoError | None:
    try:
        return _file_state(path, path.stat())
    except OSError as error:
        if isinstance(error, FileNotFoundError) and path.is_symlink():
            return PhotoError(path, "a link to a file that does not exist")
        return PhotoError(path, f"cannot be read ({error.strerror or error})")


def _file_state(path: Path, status: os.stat_result) -> FileState | PhotoError | None:
    if stat.S_ISDIR(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        return PhotoError(path, "not a file")  # opening a pipe would block
    if status.st_size == 0:
        return PhotoError(path, "an empty file")
    return FileState(path, *size_and_time(status))


def read_metadata(path: Path) -> MetadataResult:
    """Hash a file and read its EXIF data, and find its date where it has none."""
    try:
        exif = read_exif(path)
        if exif.taken is None:
            taken, source = find_date(path)
            exif = replace(exif, taken=taken, date_source=source)
        return path, FileMetadata(bytes.fromhex(hash_file(path)), exif)
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
    """Read EXIF data, and the date of XMP, without decoding the photo; empty for files that cannot be understood."""
    if path.suffix.lower() in VIDEO_SUFFIXES:
        return ExifInfo()
    try:
        with open_image_file(path) as image:
            exif = exif_of(image)
            own = exif.get_ifd(_EXIF_IFD).get(_DATE_TIME_ORIGINAL) or exif.get(_DATE_TIME)
            orientation = exif.get(_ORIENTATION)
            taken, source = parse_exif_time(_clean_text(own)), EXIF
            if taken is None:
                taken, source = parse_xmp(image.info.get("xmp") or image.info.get("XML:com.adobe.xmp")), XMP
            return ExifInfo(
                taken,
                _camera_name(exif.get(_MAKE), exif.get(_MODEL)),
                orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else None,
                None if taken is None else source,
            )
    except Exception:  # broken metadata can fail in any way, and must not exclude the photo
        return ExifInfo()


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
    from PIL.Image import Resampling

    scale = min(side / max(photo.size), 1.0)
    size = max(round(scale * photo.width), 1), max(round(scale * photo.height), 1)
    rgb = photo if photo.mode == "RGB" else photo.convert("RGB")  # which copies
    small = rgb.resize(size, Resampling.BICUBIC, reducing_gap=2.0)
    small.info.clear()
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=THUMBNAIL_QUALITY)
    return buffer.getvalue()


EXIF, XMP, NAME, FILE = "exif", "xmp", "name", "file"
"""The sources of a date, in the order in which they are believed."""

FIRST_YEAR, LAST_YEAR = 1900, 2100

_XMP_DATE = re.compile(
    rb"(?:exif:DateTimeOriginal|photoshop:DateCreated|xmp:CreateDate)\s*(?:=\s*[\"']|>\s*)"
    rb"(\d{4}-\d\d(?:-\d\d(?:T\d\d:\d\d(?::\d\d)?)?)?)"
)
_NAME_DATE = re.compile(
    r"(?<!\d)(?P<year>(?:19|20)\d\d)(?P<mark>[-_.]?)(?P<month>\d\d)(?P=mark)(?P<day>\d\d)"
    r"(?:(?:\s+at\s+|[-_. T])?(?P<hour>\d\d)[-_.:h]?(?P<minute>\d\d)(?:[-_.:m]?(?P<second>\d\d))?)?"
)
_MAX_XMP = 2**20


def parse_exif_time(text: str) -> int | None:
    """Read ``2024:06:12 10:30:00``, in seconds since 1970 as if the camera's clock showed UTC."""
    try:
        return _seconds(datetime.strptime(text[:19], "%Y:%m:%d %H:%M:%S"))
    except ValueError:
        return None


def parse_xmp(packet: bytes | str | None) -> int | None:
    """Find the time at which a photo was taken in an XMP packet."""
    content = packet.encode("utf-8", "replace") if isinstance(packet, str) else packet or b""
    found = _XMP_DATE.search(content[:_MAX_XMP])
    if found is None:
        return None
    text = found[1].decode("ascii")
    try:
        return _seconds(datetime.fromisoformat(text if len(text) > 7 else f"{text}-01"))
    except ValueError:
        return None


def parse_name(name: str) -> int | None:
    """Find a date, and perhaps a time, in the name of a file.

    Examples
    --------
    >>> datetime.fromtimestamp(parse_name("IMG_20240612_103000.jpg"), UTC).isoformat()
    '2024-06-12T10:30:00+00:00'
    >>> parse_name("2024-06-12.jpg") == parse_name("WhatsApp Image 2024-06-12.jpeg")
    True
    >>> parse_name("IMG_4711.jpg") is None
    True
    """
    for found in _NAME_DATE.finditer(name):
        day = [int(found[part]) for part in ("year", "month", "day")]
        time = [int(found[part] or 0) for part in ("hour", "minute", "second")]
        for values in ([*day, *time], day):  # digits after the date may be a counter instead of a time
            try:
                return _seconds(datetime(*values))  # type: ignore[arg-type]
            except ValueError:
                continue
    return None


def find_date(path: Path) -> tuple[int, str] | tuple[None, None]:
    """Return the date of a photo that has none inside, and its source: an XMP sidecar, the name or the file's time."""
    if not is_remote(path) and (taken := _read_sidecar(path)) is not None:
        return taken, XMP
    if (taken := parse_name(path.name)) is not None:
        return taken, NAME
    # The camera's clock shows local time, and so the time of the file is taken as local time too.
    moment = datetime.fromtimestamp(size_and_time(path.stat())[1] / 1e9)
    taken = _seconds(moment)
    return (None, None) if taken is None else (taken, FILE)


def _read_sidecar(path: Path) -> int | None:
    for sidecar in (path.with_name(f"{path.name}.xmp"), path.with_suffix(".xmp")):
        try:
            with open_regular(sidecar) as file:
                if (taken := parse_xmp(file.read(_MAX_XMP))) is not None:
                    return taken
        except (OSError, ValueError):
            continue
    return None


def _seconds(moment: datetime) -> int | None:
    return int(moment.replace(tzinfo=UTC).timestamp()) if FIRST_YEAR <= moment.year < LAST_YEAR else None
