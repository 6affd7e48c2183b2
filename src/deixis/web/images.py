"""Photos as JPEG responses, and uploaded photos, read within limits."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from deixis.errors import PhotoError
from deixis.search.index.photo_files import make_thumbnail

if TYPE_CHECKING:
    from PIL import Image

MAX_SIDE = 1600
_UPLOAD = "the photo"
_CHUNK_BYTES = 2**20


def check_link(path: Path) -> None:
    """Raise an error if a photo is a link to a file outside its folder."""
    folder = os.path.realpath(path.parent)
    if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(folder):
        raise PhotoError(path, "a link to a file outside its folder")


def encode_jpeg(path: Path, side: int = MAX_SIDE) -> bytes:
    """Return a photo as a new JPEG without metadata, at most `side` pixels long.

    A file that is missing, broken or a link to a file outside its folder raises `PhotoError`.
    """
    from deixis.data.images import open_photo

    check_link(path)
    return make_thumbnail(open_photo(path, min_side=side), side)


def open_upload(upload: BinaryIO, max_bytes: int, max_pixels: int) -> Image.Image:
    """Decode an uploaded photo, after checking its size in bytes and in pixels."""
    from deixis.data.images import open_photo

    with tempfile.TemporaryDirectory(prefix="deixis-") as folder:
        copy = Path(folder) / _UPLOAD
        _write_copy(upload, copy, max_bytes)
        try:
            return open_photo(copy, max_pixels=max_pixels)
        except PhotoError as error:
            raise PhotoError(_UPLOAD, error.reason) from None


def _write_copy(upload: BinaryIO, copy: Path, max_bytes: int) -> None:
    written = 0
    with copy.open("wb") as file:
        while chunk := upload.read(_CHUNK_BYTES):
            written += len(chunk)
            if written > max_bytes:
                raise PhotoError(_UPLOAD, f"larger than {max_bytes // 2**20} MB")
            file.write(chunk)
    if not written:
        raise PhotoError(_UPLOAD, "an empty file")
