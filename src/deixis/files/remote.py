"""Files that lie elsewhere: in a bucket, in an archive, on another machine, wherever fsspec reaches.

A `RemotePath` is a `Path` whose text is an address, such as ``s3://bucket/photos/a.jpg``, so that whoever asks a path
for its name, its size or its bytes need not know where the file is. It is read only. Credentials are fsspec's business:
they come from its configuration and from the environment.
"""

from __future__ import annotations

import io
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote

from deixis.errors import DeixisError

_ADDRESS = re.compile(r"(?P<protocols>[A-Za-z][\w+.-]+(::[A-Za-z][\w+.-]+)*)://(?P<rest>.*)", re.DOTALL)
_FIRST_PART = re.compile(r"[A-Za-z][\w+.-]+(::[\w%+.~-]+)*:")
_QUOTED_SLASH = "%2F"
_FETCHED_WHOLE = 64 * 2**20
"""Bytes; larger files are read piece by piece."""

_TIMES = ("mtime", "LastModified", "last_modified", "updated", "modified", "created", "date_time")
_MARKS = ("ETag", "etag", "md5Hash", "checksum", "sha256")
_fetched = threading.local()


def photo_path(place: str | os.PathLike[str]) -> Path:
    """The path of a file or folder here, or elsewhere where an address is given.

    Examples
    --------
    >>> photo_path("photos/a.jpg").name, photo_path("file:///photos/a.jpg").as_posix()
    ('a.jpg', '/photos/a.jpg')
    >>> str(photo_path("s3://bucket/photos") / "a.jpg")
    's3://bucket/photos/a.jpg'
    >>> str(photo_path("zip://photos::/holiday.zip") / "a.jpg")
    'zip://photos/a.jpg::/holiday.zip'
    """
    if isinstance(place, Path):
        return place
    found = _ADDRESS.fullmatch(os.fspath(place))
    if found is None:
        return Path(place)
    protocols, rest = found["protocols"], found["rest"]
    if protocols in ("file", "local"):
        return Path(rest)
    inside, chained, container = rest.partition("::")
    if not chained:
        return RemotePath(f"{protocols}://{rest}")
    # The container goes first, so that whatever is below the folder inside it is below this path.
    container = container if "://" in container else Path(container).absolute().as_posix()
    return RemotePath(f"{protocols}::{quote(container, safe='')}:", *filter(None, inside.split("/")))


def is_remote(path: Path) -> bool:
    """Whether a path is an address elsewhere."""
    return isinstance(path, RemotePath)


def openable(path: Path) -> Path | IO[bytes]:
    """What Pillow and others open: the path of a file here, the bytes of one elsewhere."""
    return path.open("rb") if is_remote(path) else path


class RemotePath(type(Path())):  # type: ignore[misc]
    """The address of a file or a folder; `photo_path` makes one."""

    def __str__(self) -> str:
        first, *rest = self.parts or ("",)
        if not _FIRST_PART.fullmatch(first):  # what `relative_to` gives
            return "/".join(self.parts)
        protocols, chained, container = first.removesuffix(":").rpartition("::")
        inside = "/".join(rest)
        if chained and _QUOTED_SLASH in container:
            return f"{protocols}://{inside}::{unquote(container)}"
        return f"{first}//{inside}"

    def __fspath__(self) -> str:
        return str(self)

    def as_posix(self) -> str:
        """The address."""
        return str(self)

    def absolute(self) -> RemotePath:
        """The address itself."""
        return self

    def resolve(self, strict: bool = False) -> RemotePath:
        """The address itself: there are no links."""
        return self

    def is_absolute(self) -> bool:
        """It always is."""
        return True

    def is_symlink(self) -> bool:
        """Never."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Kind, size and time; where the time is not known, a number that changes with the content."""
        with _reached(self) as (system, key):
            return _status(system.info(key))

    def lstat(self) -> os.stat_result:
        """The same: there are no links."""
        return self.stat()

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is such a file or folder."""
        return self._kind() is not None

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is such a folder."""
        return self._kind() == stat.S_IFDIR

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is such a file."""
        return self._kind() == stat.S_IFREG

    def _kind(self) -> int | None:
        try:
            return stat.S_IFMT(self.stat().st_mode)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DeixisError(f"{self}: cannot be reached ({error.strerror or error})") from None

    def open(self, mode: str = "rb", *_: Any, **__: Any) -> IO[bytes]:
        """Its bytes, in memory unless they are many. A thread that reads a file twice in a row fetches it once."""
        if mode not in ("rb", "r+b"):
            raise OSError(f"{self}: files elsewhere are only read")
        about = self.stat()
        with _reached(self) as (system, key):
            if about.st_size > _FETCHED_WHOLE:
                large: IO[bytes] = system.open(key, "rb")
                return large
            wanted = str(self), about.st_size, about.st_mtime_ns
            if getattr(_fetched, "file", None) != wanted:
                _fetched.file, _fetched.bytes = None, system.cat_file(key)
                _fetched.file = wanted
            return io.BytesIO(_fetched.bytes)

    def listed(self) -> list[tuple[RemotePath, os.stat_result]]:
        """What is right in this folder, sorted by name."""
        with _reached(self) as (system, key):
            entries = [
                (about["name"].rstrip("/").rpartition("/")[2], _status(about))
                for about in system.ls(key, detail=True)
                if about["name"].strip("/") != str(key).strip("/")  # buckets may list the folder itself
            ]
        return sorted(((self / name, about) for name, about in entries if name), key=lambda entry: entry[0].name)


@contextmanager
def _reached(path: Path) -> Iterator[tuple[Any, str]]:
    """The file system of an address, and the name there; whatever goes wrong there is an `OSError`, as it is here."""
    from fsspec.core import url_to_fs

    try:
        yield url_to_fs(str(path))
    except OSError:
        raise
    except ImportError as error:
        raise DeixisError(f"{path}: needs a package: {error}") from None
    except Exception as error:
        if isinstance(error, ValueError) and "protocol" in str(error).lower():
            raise DeixisError(f"{path}: {error}") from None
        raise OSError(f"{type(error).__name__}: {error}") from error


def _status(about: dict[str, Any]) -> os.stat_result:
    kind = stat.S_IFDIR if about["type"] == "directory" else stat.S_IFREG
    fields = (kind | 0o444, 0, 0, 1, 0, 0, int(about.get("size") or 0), 0, 0, 0)
    return os.stat_result(fields, {"st_mtime_ns": _changed(about)})


def _changed(about: dict[str, Any]) -> int:
    for name in _TIMES:
        if (value := about.get(name)) is not None:
            return _nanoseconds(value)
    for name in _MARKS:
        if (value := about.get(name)) is not None:
            return int.from_bytes(blake2b(str(value).encode(), digest_size=7).digest(), "big")
    return 0


def _nanoseconds(value: Any) -> int:
    if isinstance(value, tuple):  # as archives say it
        value = datetime(*value[:6]).replace(tzinfo=UTC)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    seconds = value.timestamp() if isinstance(value, datetime) else float(value)
    return round(seconds * 1e6) * 1000
