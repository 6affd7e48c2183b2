"""Safe file names and file hashes."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path, PureWindowsPath

_MAX_NAME_BYTES = 200
"""File systems allow 255; this leaves room for suffixes."""

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


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
