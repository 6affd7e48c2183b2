"""Which photos a search looks at: dates, folders, cameras."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from deixis.errors import DeixisError

_DATE = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})(?:[T ](?P<hour>\d{1,2}):(?P<minute>\d{2}))?)?)?"
)


@dataclass(frozen=True)
class Where:
    """Only photos that are all of this; what is None does not matter.

    Attributes
    ----------
    after, before
        ``2024``, ``2024-06``, ``2024-06-01`` or ``2024-06-01 12:30``: taken from its beginning on, or before its
        beginning. Photos that do not say when they were taken are left out.
    folder
        Part of the name of a folder that the photo is in, at any depth, or, with a ``/``, of its path; upper and lower
        case are the same.
    camera
        Part of the name of the camera; upper and lower case are the same.

    Examples
    --------
    >>> Where(after="2024-06").seconds_from()
    1717200000
    """

    after: str | None = None
    before: str | None = None
    folder: str | None = None
    camera: str | None = None

    def __bool__(self) -> bool:
        """Whether anything is left out."""
        return any((self.after, self.before, self.folder, self.camera))

    def seconds_from(self) -> int | None:
        """The first moment that counts, in seconds of `Taken`."""
        return _moment(self.after) if self.after else None

    def seconds_until(self) -> int | None:
        """The first moment that no longer counts."""
        return _moment(self.before) if self.before else None

    def allows_folder(self, path: bytes) -> bool:
        """Whether photos in a folder are looked at.

        Examples
        --------
        >>> Where(folder="holiday").allows_folder(b"/photos/Holidays 2023/beach")
        True
        >>> Where(folder="2023/beach").allows_folder(b"/photos/Holidays 2023/beach")
        True
        """
        if self.folder is None:
            return True
        wanted = self.folder.replace("\\", "/").casefold()
        there = os.fsdecode(path).replace(os.sep, "/").casefold()
        if "/" in wanted:
            return wanted.rstrip("/") in there
        return any(wanted in part for part in there.split("/"))


def _moment(date: str) -> int:
    parts = _DATE.fullmatch(date.strip())
    try:
        if parts is None:
            raise ValueError
        given = {name: int(value) for name, value in parts.groupdict().items() if value}
        return int(datetime(**{"month": 1, "day": 1, **given}, tzinfo=UTC).timestamp())
    except ValueError:
        raise DeixisError(f"{date!r}: not a date; write one like 2024, 2024-06 or 2024-06-01") from None
