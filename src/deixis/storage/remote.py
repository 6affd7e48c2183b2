"""Read-only paths to remote files, such as ``s3://bucket/photos/a.jpg``, through fsspec.

A `RemotePath` behaves like a `Path`, so that callers can ask for a name, size or bytes without knowing where the file
is. Credentials come from the configuration of fsspec and from the environment.
"""

from __future__ import annotations

import io
import ipaddress
import os
import re
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import SplitResult, quote, unquote, urlsplit

from deixis.errors import DeixisError
from deixis.storage.atomic import explain_os_errors
from deixis.storage.files import data_folder

_URL = re.compile(r"(?P<protocols>[A-Za-z][\w+.-]+(::[A-Za-z][\w+.-]+)*)://(?P<rest>.*)", re.DOTALL)
_FIRST_PART = re.compile(r"[A-Za-z][\w+.-]+(::[\w%+.~-]+)*:")
_QUOTED_SLASH = "%2F"
_MAX_IN_MEMORY = 64 * 2**20
"""Larger files are streamed instead of fetched at once."""

_TIME_KEYS = ("mtime", "LastModified", "last_modified", "updated", "modified", "created", "date_time")
_CHECKSUM_KEYS = ("ETag", "etag", "md5Hash", "checksum", "sha256")
_fetched = threading.local()


def photo_path(location: str | os.PathLike[str]) -> Path:
    """Return a `Path` for a local file or folder, or a `RemotePath` for a URL."""
    if isinstance(location, Path):
        return location
    if not os.fspath(location).strip():
        raise DeixisError("an empty path; name a file or folder, such as . for this one")
    found = _URL.fullmatch(os.fspath(location))
    if found is None:
        return Path(location)
    protocols, rest = found["protocols"], found["rest"]
    if protocols in ("file", "local"):
        return Path(rest)
    inside, chained, container = rest.partition("::")
    if not chained:
        return RemotePath(f"{protocols}://{rest}")
    # The container comes first, so that paths inside it are children of this path.
    container = container if "://" in container else Path(container).absolute().as_posix()
    return RemotePath(f"{protocols}::{quote(container, safe='')}:", *filter(None, inside.split("/")))


def split_url(url: str) -> SplitResult:
    """Split an address as `urlsplit` does; one that it refuses, such as ``http://[``, has no parts."""
    try:
        return urlsplit(url)
    except ValueError:
        return SplitResult("", "", "", "", "")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, so that only this machine can reach a server on it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_remote(path: Path) -> bool:
    return isinstance(path, RemotePath)


def allow_address(path: Path | str) -> None:
    """Remember that the user has named an address: data sets and projects of others may name any."""
    if not is_allowed(path):
        file = _allowed_addresses()
        with explain_os_errors(file):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with file.open("a", encoding="utf-8") as lines:
                lines.write(f"{path}\n")


def is_allowed(path: Path | str) -> bool:
    """Return whether the user has named an address before."""
    try:
        return str(path) in _allowed_addresses().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False


def _allowed_addresses() -> Path:
    return data_folder() / "addresses.txt"


class RemotePath(type(Path())):  # type: ignore[misc]
    """URL of a remote file or folder. Create it with `photo_path`."""

    def __str__(self) -> str:
        first, *rest = self.parts or ("",)
        if not _FIRST_PART.fullmatch(first):  # a result of `relative_to`
            return "/".join(self.parts)
        protocols, chained, container = first.removesuffix(":").rpartition("::")
        inside = "/".join(rest)
        if chained and _QUOTED_SLASH in container:
            return f"{protocols}://{inside}::{unquote(container)}"
        return f"{first}//{inside}"

    def __fspath__(self) -> str:
        return str(self)

    def as_posix(self) -> str:
        return str(self)

    def absolute(self) -> RemotePath:
        return self

    def resolve(self, strict: bool = False) -> RemotePath:
        return self

    def is_absolute(self) -> bool:
        return True

    def is_symlink(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return type, size and modification time; without a known time, a number derived from the checksum."""
        with _connect(self) as (system, key):
            return _status(system.info(key))

    def lstat(self) -> os.stat_result:
        return self.stat()

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        return self._kind() is not None

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._kind() == stat.S_IFDIR

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._kind() == stat.S_IFREG

    def _kind(self) -> int | None:
        try:
            return stat.S_IFMT(self.stat().st_mode)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DeixisError(f"{self}: cannot be reached ({error.strerror or error})") from None

    def open(self, mode: str = "rb", *_: Any, **__: Any) -> IO[bytes]:
        """Open for reading. A thread that opens the same file twice in a row fetches it once."""
        if mode not in ("rb", "r+b"):
            raise OSError(f"{self}: remote files are read-only")
        about = self.stat()
        with _connect(self) as (system, key):
            if about.st_size > _MAX_IN_MEMORY:
                large: IO[bytes] = system.open(key, "rb")
                return large
            content_key = str(self), about.st_size, about.st_mtime_ns
            if getattr(_fetched, "file", None) != content_key:
                _fetched.file, _fetched.bytes = None, system.cat_file(key)
                _fetched.file = content_key
            return io.BytesIO(_fetched.bytes)

    def list_folder(self) -> list[tuple[RemotePath, os.stat_result]]:
        """Return the direct children of this folder with their status, sorted by name."""
        with _connect(self) as (system, key):
            entries = [
                (about["name"].rstrip("/").rpartition("/")[2], _status(about))
                for about in system.ls(key, detail=True)
                if about["name"].strip("/") != str(key).strip("/")  # some buckets list the folder itself
            ]
        return sorted(((self / name, about) for name, about in entries if name), key=lambda entry: entry[0].name)


@contextmanager
def _connect(path: Path) -> Iterator[tuple[Any, str]]:
    """Yield the fsspec file system and the key of a path; errors become `OSError` as for local files."""
    from fsspec.core import url_to_fs

    try:
        yield url_to_fs(str(path))
    except OSError:
        raise
    except ImportError as error:
        raise DeixisError(f"{path}: a package is missing: {error}") from None
    except Exception as error:
        if isinstance(error, ValueError) and "protocol" in str(error).lower():
            raise DeixisError(f"{path}: {error}") from None
        raise OSError(f"{type(error).__name__}: {error}") from error


def _status(about: dict[str, Any]) -> os.stat_result:
    kind = stat.S_IFDIR if about["type"] == "directory" else stat.S_IFREG
    fields = (kind | 0o444, 0, 0, 1, 0, 0, int(about.get("size") or 0), 0, 0, 0)
    return os.stat_result(fields, {"st_mtime_ns": _modified(about)})


def _modified(about: dict[str, Any]) -> int:
    for name in _TIME_KEYS:
        if (value := about.get(name)) is not None:
            return _nanoseconds(value)
    for name in _CHECKSUM_KEYS:
        if (value := about.get(name)) is not None:
            from hashlib import blake2b

            return int.from_bytes(blake2b(str(value).encode(), digest_size=7).digest(), "big")
    return 0


def _nanoseconds(value: Any) -> int:
    if isinstance(value, tuple):  # archives
        value = datetime(*value[:6]).replace(tzinfo=UTC)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    seconds = value.timestamp() if isinstance(value, datetime) else float(value)
    return round(seconds * 1e6) * 1000
