"""Which photos a search looks at: dates, folders, cameras."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime

from deixis.errors import DeixisError

_DATE = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})(?:[T ](?P<hour>\d{1,2}):(?P<minute>\d{2}))?)?)?"
)


When = str | date
"""A moment as people write it, or as Python has it."""


@dataclass(frozen=True)
class Where:
    """Only photos that are all of this; what is None does not matter.

    Attributes
    ----------
    after, before
        ``2024``, ``2024-06``, ``2024-06-01`` or ``2024-06-01 12:30``, or a date or datetime of Python, as the camera's
        clock showed it: taken from its beginning on, or before its beginning. Photos that do not say when they were
        taken are left out.
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

    after: When | None = None
    before: When | None = None
    folder: str | None = None
    camera: str | None = None

    def __post_init__(self) -> None:
        for name in ("folder", "camera"):
            given = getattr(self, name)
            if not isinstance(given, str | None):
                raise DeixisError(f"{name}: give a part of its name, as text, not {type(given).__name__}")
        self.seconds_from(), self.seconds_until()  # says at once what is no date

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


def _moment(when: When) -> int:
    if isinstance(when, date):
        return int(datetime(*when.timetuple()[:6], tzinfo=UTC).timestamp())
    parts = _DATE.fullmatch(when.strip()) if isinstance(when, str) else None
    try:
        if parts is None:
            raise ValueError
        given = {name: int(value) for name, value in parts.groupdict().items() if value}
        return int(datetime(**{"month": 1, "day": 1, **given}, tzinfo=UTC).timestamp())
    except ValueError:
        raise DeixisError(f"{when!r}: not a date; write one like 2024, 2024-06 or 2024-06-01") from None
