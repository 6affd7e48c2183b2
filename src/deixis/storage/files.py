"""Safe file names, file hashes, and the folders of the user for data, settings and caches."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from pathlib import Path, PureWindowsPath
from typing import IO, Any

_MAX_NAME_BYTES = 200
"""File systems allow 255; this leaves room for suffixes."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Beginnings of formulas; the last four are wide forms, which some spreadsheets take for the first four."""

_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f/\\]")


def is_file_name(name: str) -> bool:
    """Return whether `name` is a portable file name: one path component without control characters."""
    if len(name.encode(errors="replace")) > _MAX_NAME_BYTES or not name.strip() or name in (".", ".."):
        return False
    return not PureWindowsPath(name).drive and not _NOT_IN_NAMES.search(name)


def is_relative_path(path: str) -> bool:
    """Return whether `path` is relative and stays inside its base folder."""
    parsed = PureWindowsPath(path)  # the stricter flavour: knows drives and both slashes
    return bool(parsed.parts) and "\0" not in path and not parsed.anchor and ".." not in parsed.parts


def escape_formula(text: str) -> str:
    """Keep spreadsheets from evaluating a cell of a CSV file as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def open_regular(path: Path, inside: Path | None = None) -> IO[bytes]:
    """Open a regular file for reading; raises `OSError` for anything else, and never waits, as for a pipe.

    With `inside`, a resolved folder, a file that lies elsewhere is refused: a part of the path may have become a link.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if inside is not None and not _lies_inside(path, status, inside):
            raise OSError(errno.EPERM, "a link to a file outside its folder", str(path))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path) -> bytes:
    """Read a regular file; as `open_regular`, it never waits."""
    with open_regular(path) as file:
        return file.read()


def _lies_inside(path: Path, opened: os.stat_result, folder: Path) -> bool:
    real = Path(os.path.realpath(path))
    # Compare the files: the path may have been changed after it was opened.
    return real.is_relative_to(folder) and os.path.samestat(real.stat(), opened)


def open_file(path: Path, inside: Path | None = None) -> IO[bytes]:
    """Open a local file as `open_regular` does, or a remote one, whose `open` is its own."""
    return open_regular(path, inside) if type(path).open is Path.open else path.open("rb")


def size_and_time(status: os.stat_result) -> tuple[int, int]:
    """Return the size of a file and its time of change in nanoseconds. Times after 2262 do not fit into 64 bits."""
    return status.st_size, min(max(status.st_mtime_ns, -(2**63)), 2**63 - 1)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    import hashlib  # not at the start of every command

    with open_file(path) as file:
        content: Any = file  # as `file_digest` expects
        return hashlib.file_digest(content, "sha256").hexdigest()


# Folders of the user, as this system has them.

_OURS = "deixis"


def data_folder() -> Path:
    """Return the folder for what the user would miss: ``~/.local/share/deixis`` on Linux."""
    return _folder("XDG_DATA_HOME", ".local/share", "Library/Application Support", "")


def config_folder() -> Path:
    """Return the folder for settings: ``~/.config/deixis`` on Linux."""
    return _folder("XDG_CONFIG_HOME", ".config", "Library/Application Support", "")


def cache_folder() -> Path:
    """Return the folder for what can be made again: ``~/.cache/deixis`` on Linux."""
    return _folder("XDG_CACHE_HOME", ".cache", "Library/Caches", "Cache")


def _folder(variable: str, linux: str, mac: str, windows: str) -> Path:
    if base := os.environ.get(variable):
        return Path(base) / _OURS
    if sys.platform == "darwin":
        return Path.home() / mac / _OURS
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / _OURS / windows
    return Path.home() / linux / _OURS
