"""When and with what a photo was taken, as its file says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_EXIF, _TAKEN, _CHANGED = 0x8769, 0x9003, 0x0132
_MAKE, _MODEL, _ORIENTATION = 0x010F, 0x0110, 0x0112
_LONGEST = 200
"""Characters of a camera's name; more is no name."""


@dataclass(frozen=True)
class Taken:
    """What EXIF says of a photo; None where it says nothing.

    Attributes
    ----------
    seconds
        When, by the camera's clock, as seconds since 1970 as if that clock showed UTC: cameras rarely say where they
        were, and photos of one camera compare well.
    camera
        Make and model.
    orientation
        1 to 8, as EXIF counts.
    """

    seconds: int | None = None
    camera: str | None = None
    orientation: int | None = None


def taken_of(path: Path) -> Taken:
    """Read EXIF without decoding the photo; a file that cannot be understood says nothing.

    Examples
    --------
    >>> taken_of(Path("nothing.jpg"))
    Taken(seconds=None, camera=None, orientation=None)
    """
    import pi_heif
    from PIL import Image

    from deixis.data.images import FORMATS
    from deixis.files.remote import openable

    pi_heif.register_heif_opener()
    try:
        with Image.open(openable(path), formats=FORMATS) as image:
            exif = image.getexif()
            when = exif.get_ifd(_EXIF).get(_TAKEN) or exif.get(_CHANGED)
            return Taken(_seconds(when), _camera(exif.get(_MAKE), exif.get(_MODEL)), _turn(exif.get(_ORIENTATION)))
    except Exception:  # a stranger's metadata can break in any way, and is never worth losing the photo
        return Taken()


def _seconds(when: object) -> int | None:
    try:
        moment = datetime.strptime(_text(when)[:19], "%Y:%m:%d %H:%M:%S")
        return int(moment.replace(tzinfo=UTC).timestamp())
    except ValueError:
        return None


def _camera(make: object, model: object) -> str | None:
    maker, name = _text(make), _text(model)
    # Many models begin with the name of their maker.
    together = name if name.casefold().startswith(maker.casefold()) else f"{maker} {name}".strip()
    return together[:_LONGEST] or None


def _text(value: object) -> str:
    text = value.decode("latin-1") if isinstance(value, bytes) else value if isinstance(value, str) else ""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def _turn(orientation: object) -> int | None:
    return orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else None
