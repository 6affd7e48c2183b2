"""When a photo was taken: by its EXIF data, by XMP, by its file name, or by the time of the file."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from deixis.storage.files import open_regular, size_and_time
from deixis.storage.remote import is_remote

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
