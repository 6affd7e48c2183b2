"""Names from strangers that shall become names of files."""

from __future__ import annotations

import re
from pathlib import PureWindowsPath

_LONGEST = 200
"""Bytes; file systems allow 255, and endings must fit too."""

_NOT_IN_NAMES = re.compile(r"[\x00-\x1f\x7f/\\]")


def is_plain(name: str) -> bool:
    """Whether a file in any folder can be called so: one part, no control characters, no way out.

    Examples
    --------
    >>> is_plain("1000268201"), is_plain("../1000268201")
    (True, False)
    """
    if len(name.encode(errors="replace")) > _LONGEST or not name.strip() or name in (".", ".."):
        return False
    return not PureWindowsPath(name).drive and not _NOT_IN_NAMES.search(name)


def is_below(path: str) -> bool:
    """Whether a path leads to something below the folder it starts from.

    Examples
    --------
    >>> is_below("train/1.jpg"), is_below("/etc/passwd"), is_below("a/../../b")
    (True, False, False)
    """
    parsed = PureWindowsPath(path)  # the stricter kind: it knows both slashes, and drives
    return bool(parsed.parts) and "\0" not in path and not parsed.anchor and ".." not in parsed.parts
