"""Photos inside other files: the JPEG preview of a camera's RAW file, and a frame of a video."""

from __future__ import annotations

import io
import os
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from PIL import Image

from deixis.errors import PhotoError
from deixis.storage.remote import is_remote

RAW_SUFFIXES = frozenset(
    (
        *(".3fr", ".arw", ".cr2", ".cr3", ".dng", ".erf", ".iiq", ".kdc", ".mef", ".mos", ".mrw", ".nef", ".nrw"),
        *(".orf", ".pef", ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f"),
    )
)
VIDEO_SUFFIXES = frozenset((".3gp", ".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".webm", ".wmv"))

_START_OF_JPEG = b"\xff\xd8\xff"
_MAX_CANDIDATES = 64
"""Number of places in a RAW file that are tried: compressed pixels may contain the start of a JPEG by chance."""

_MAX_HEAD = 2**20
"""Bytes of a JPEG in which its size must be found."""

_TIFF_NUMBERS = {b"II": b"*\0", b"MM": b"\0*"}
_EXIF_IFD = 0x8769
_TAGS = (0x010F, 0x0110, 0x0112, 0x0132)
"""Make, model, orientation and time."""

_FRAME_AT_MS = 1000.0


def open_preview(path: Path, content: bytes) -> Image.Image:
    """Open the largest JPEG in the content of a RAW file, with the EXIF data of the file where the preview has none.

    Cameras store one that has been developed, often at full size.
    """
    sizes: dict[int, int] = {}
    begin = content.find(_START_OF_JPEG)
    while begin >= 0 and len(sizes) < _MAX_CANDIDATES:
        try:
            with Image.open(io.BytesIO(content[begin : begin + _MAX_HEAD]), formats=("JPEG",)) as found:
                sizes[begin] = found.width * found.height
        except (OSError, SyntaxError, ValueError):  # lossless JPEG, as RAW pixels often are, or a coincidence
            sizes[begin] = 0
        begin = content.find(_START_OF_JPEG, begin + len(_START_OF_JPEG))
    begin = max(sizes, key=sizes.__getitem__, default=-1)
    if not sizes.get(begin):
        raise PhotoError(path, "a RAW file without a preview")
    preview = Image.open(io.BytesIO(content[begin:]), formats=("JPEG",))
    own, stored = preview.getexif(), _read_tiff_exif(content)
    for tag in _TAGS:
        if tag not in own and tag in stored:
            own[tag] = stored[tag]
    own.get_ifd(_EXIF_IFD).update(stored.get_ifd(_EXIF_IFD) | own.get_ifd(_EXIF_IFD))
    return preview


def _read_tiff_exif(content: bytes) -> Image.Exif:
    """Read the EXIF data of a RAW file that is a TIFF file but for its magic number, as most are; or else empty."""
    exif = Image.Exif()
    number = _TIFF_NUMBERS.get(content[:2])
    if number is not None:
        try:
            exif.load(b"Exif\0\0" + content[:2] + number + content[4:])
        except Exception:  # damaged data can fail in any way
            return Image.Exif()
    return exif


def can_read_videos() -> bool:
    """Return whether the package that decodes videos is installed."""
    return find_spec("cv2") is not None


def open_video_frame(path: Path, file: IO[bytes]) -> Image.Image:
    """Return the frame of a video after one second, or the first one if the video is shorter.

    The opened file is read, where the system can: its path may name another one by now.
    """
    if is_remote(path) or not can_read_videos():
        needed = "a file on this machine" if is_remote(path) else "OpenCV: pip install 'deixis[video]'"
        raise PhotoError(path, f"a video, which needs {needed}")
    for name, value in (("OPENCV_FFMPEG_LOGLEVEL", "-8"), ("OPENCV_LOG_LEVEL", "OFF")):
        os.environ.setdefault(name, value)  # a damaged file is reported here, not by FFmpeg or OpenCV
    import cv2

    opened = f"/dev/fd/{file.fileno()}" if Path("/dev/fd").exists() else str(path)
    capture = cv2.VideoCapture(opened, cv2.CAP_FFMPEG)  # other readers take %02d in a name for several files
    try:
        capture.set(cv2.CAP_PROP_POS_MSEC, _FRAME_AT_MS)
        is_read, frame = capture.read()
        if not is_read:
            capture.set(cv2.CAP_PROP_POS_MSEC, 0.0)
            is_read, frame = capture.read()
    finally:
        capture.release()
    if not is_read or frame is None:
        raise PhotoError(path, "a video without a frame that can be decoded")
    return Image.fromarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
