"""Photos on their way out, encoded anew, and photos that somebody sends, read within limits."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from deixis.errors import PhotoError
from deixis.index.thumbnails import thumbnail_of

if TYPE_CHECKING:
    from PIL import Image

LONGEST_SIDE = 1600
_UPLOAD = "the photo"
_COPIED_AT_ONCE = 2**20


def refuse_link_elsewhere(path: Path) -> None:
    """A photo may lie behind a link within its folder; where it leads elsewhere, it is not ours to show."""
    here = os.path.realpath(path.parent)
    if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(here):
        raise PhotoError(path, "a link that leads out of its folder")


def picture_of(path: Path, side: int = LONGEST_SIDE) -> bytes:
    """A photo of the index as a JPEG of ours, at most `side` pixels long; nothing of its file is sent as it is.

    Raises
    ------
    PhotoError
        Where the file is gone or broken, or has become a link that leads out of its folder.
    """
    from deixis.data.images import open_photo

    refuse_link_elsewhere(path)
    return thumbnail_of(open_photo(path, at_least=side), side)


def uploaded_photo(sent: BinaryIO, most_bytes: int, most_pixels: int) -> Image.Image:
    """A photo that somebody sends: refused by its size in bytes, then by its size in pixels, and only then decoded."""
    from deixis.data.images import open_photo

    with tempfile.TemporaryDirectory(prefix="deixis-") as folder:
        copy = Path(folder) / _UPLOAD
        _write_copy(sent, copy, most_bytes)
        try:
            return open_photo(copy, most_pixels=most_pixels)
        except PhotoError as error:
            raise PhotoError(_UPLOAD, error.reason) from None


def _write_copy(sent: BinaryIO, copy: Path, most_bytes: int) -> None:
    written = 0
    with copy.open("wb") as file:
        while some := sent.read(_COPIED_AT_ONCE):
            written += len(some)
            if written > most_bytes:
                raise PhotoError(_UPLOAD, f"larger than {most_bytes // 2**20} MB")
            file.write(some)
    if not written:
        raise PhotoError(_UPLOAD, "an empty file")
