"""Find, inspect and decode photo files, with limits for untrusted files.

Of a camera's RAW file the JPEG preview is opened, of a video a frame.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, cast

from PIL import Image, UnidentifiedImageError

from deixis.errors import DeixisError, PhotoError
from deixis.storage.files import hash_file, open_file
from deixis.storage.remote import RemotePath, is_remote

RAW_SUFFIXES = frozenset(
    (
        *(".3fr", ".arw", ".cr2", ".cr3", ".dng", ".erf", ".iiq", ".kdc", ".mef", ".mos", ".mrw", ".nef", ".nrw"),
        *(".orf", ".pef", ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f"),
    )
)
VIDEO_SUFFIXES = frozenset((".3gp", ".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".webm", ".wmv"))

SUFFIXES = frozenset(
    (
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".heic", ".heif", ".avif", ".jxl"),
        *(".tif", ".tiff", ".bmp", ".gif"),
        *RAW_SUFFIXES,
    )
)
FORMATS = ("JPEG", "PNG", "WEBP", "HEIF", "AVIF", "TIFF", "BMP", "GIF")
MAX_BYTES = 256 * 2**20
MAX_PIXELS = 150_000_000
LIMIT_VARIABLE = "DEIXIS_MAX_MEGAPIXELS"
"""The environment variable that replaces `MAX_PIXELS`, and the limits of memory with it."""

_MEGAPIXELS = re.compile("0*[1-9][0-9]{0,5}")
"""The values that it takes."""

_BUDGET_BYTES = 4
"""Bytes for each pixel of the limit that all threads together may decode at once. A photo that needs more is alone."""

_MOST_BYTES = 8
"""Bytes for each pixel of the limit that one decoder may need."""

_DECODER_BYTES = {"BMP": 4, "GIF": 4, "JPEG": 4, "MPO": 4, "PNG": 4, "AVIF": 12, "HEIF": 12, "TIFF": 8}
"""Bytes that a decoder needs for a pixel, measured. Those of WebP hold the photo four times."""

_OTHER_DECODER_BYTES = 16
_COPIES_BYTES = 12
"""Bytes for a pixel of a photo that is not reduced: the decoded one, the one that is used, and a copy of it."""

_LARGE_PIXELS = 50_000_000
"""Larger photos are reduced, where the caller needs a smaller one, before anything else is done with them."""

_STRIP_PIXELS = 4_000_000
_RAW_COPIES = 3
"""How often a RAW file is in memory while its preview is looked for."""

MAX_SCANS = 500
MAX_SCANNED_PIXELS = 3_000_000_000
"""Pixels times scans of a JPEG. A scan without content takes a few bytes, and as long as any other: this many
take about two seconds. Cameras and encoders write at most a dozen."""

_START_OF_SCAN = b"\xff\xda"
_SAFE_LIBHEIF = (1, 23, 4)
"""Older versions write outside of buffers (CVE-2026-84383 and others). The newest pi-heif has 1.23.0."""

_PNG_START, _PNG_END = b"\x89PNG\r\n\x1a\n", b"\0\0\0\0IEND\xaeB`\x82"
_PNG_METADATA = (b"IHDR", b"eXIf", b"iTXt", b"tEXt", b"zTXt")
_MAX_PNG_METADATA, _MAX_PNG_CHUNKS = 2**20, 100_000
_FTYP_BYTES = 12
_AVIF_BRANDS = (b"avif", b"avis")
# MAX_PIXELS replaces Pillow's limit, and odd EXIF is harmless. Warning filters are global, so they are set once.
warnings.filterwarnings("ignore", module=r"PIL\.")
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
_EXIF_ORIENTATION = 0x0112
_SIDEWAYS = (5, 6, 7, 8)
_ROTATIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True)
class PhotoFile:
    """Size after EXIF rotation and hash of a photo file."""

    width: int
    height: int
    sha256: str


def find_photos(folder: Path) -> list[Path]:
    """Return all photo files below a folder, sorted by path, without hidden ones."""
    if isinstance(folder, RemotePath):
        return sorted(_find_remote(folder))
    found = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    return sorted(path for path in found if not any(p.startswith(".") for p in path.relative_to(folder).parts))


def _find_remote(folder: RemotePath) -> Iterator[Path]:
    for path, about in folder.list_folder():
        if path.name.startswith("."):
            continue
        if stat.S_ISDIR(about.st_mode):
            yield from _find_remote(path)
        elif path.suffix.lower() in SUFFIXES:
            yield path


def inspect_photo(path: Path) -> PhotoFile:
    """Return the size and hash of a photo file, without decoding it."""
    width, height = photo_size(path)
    return PhotoFile(width, height, hash_file(path))


def photo_size(path: Path) -> tuple[int, int]:
    """Return width and height of a photo after EXIF rotation, without decoding it."""
    with _open_checked(path) as image:
        width, height = image.size
        # Pillow rotates TIFF files, and pi-heif HEIF files, when it opens them.
        if image.format not in ("TIFF", "HEIF") and exif_of(image).get(_EXIF_ORIENTATION) in _SIDEWAYS:
            return height, width
        return width, height


def exif_of(image: Image.Image) -> Image.Exif:
    """Return the EXIF data of an opened photo, and complete its `info`, without decoding it as Pillow does for PNG."""
    if image.format != "PNG":
        return image.getexif()
    file, kept = cast(Any, image).fp, [_PNG_START]
    position = file.tell()
    file.seek(len(_PNG_START))
    for _ in range(_MAX_PNG_CHUNKS):
        length, kind = int.from_bytes(file.read(4), "big"), file.read(4)
        if kind in (b"", b"IEND"):
            break
        if kind in _PNG_METADATA and length <= _MAX_PNG_METADATA:
            kept.append(length.to_bytes(4, "big") + kind + file.read(length + 4))
        else:
            file.seek(length + 4, os.SEEK_CUR)
    file.seek(position)
    with suppress(Exception), Image.open(io.BytesIO(b"".join((*kept, _PNG_END))), formats=("PNG",)) as pixelless:
        image.info = pixelless.info | image.info  # chunks behind the pixels, where ExifTool writes them
    return Image.Image.getexif(image)


def open_photo(
    path: Path,
    min_side: int | None = None,
    max_pixels: int | None = None,
    inside: Path | None = None,
    content: IO[bytes] | None = None,
) -> Image.Image:
    """Decode a photo to RGB, with EXIF rotation. Takes the first frame and puts transparency on white.

    A colour JPEG is decoded at a half, a quarter or an eighth of its size if both sides are still at least `min_side`,
    which is much faster. With `inside`, a resolved folder, a file that lies elsewhere is refused. `content` is
    read if it is given, and `path` only names it.
    """
    with opened_photo(path, min_side, max_pixels, inside, content) as photo:
        return photo


@contextmanager
def opened_photo(
    path: Path,
    min_side: int | None = None,
    max_pixels: int | None = None,
    inside: Path | None = None,
    content: IO[bytes] | None = None,
) -> Iterator[Image.Image]:
    """Decode a photo as `open_photo` does, and count its memory as used until the end of the block.

    Waits while the photos of other threads fill the budget. Very large photos are reduced as JPEGs are, but to any
    fraction of their size.
    """
    with _open_checked(path, max_pixels, inside, content) as image:
        _check_scans(path, image)
        pixels = image.width * image.height
        if min_side is not None and image.mode == "RGB":
            image.draft("RGB", (min_side, min_side))  # has an effect on JPEG only
        factor = min(image.size) // (min_side or MAX_PIXELS) if image.width * image.height > _LARGE_PIXELS else 0
        needed = _decoder_bytes(image, pixels)
        # A pointer to each row takes as much as two pixels.
        copies_bytes = 0 if factor > 1 else _COPIES_BYTES * (image.width + 2) * image.height
        if min_side is not None:  # so a long strip, which cannot be reduced, is refused
            needed = max(needed, copies_bytes)
        limit = pixel_limit()
        if max_pixels is None and needed > _MOST_BYTES * limit:
            what = f"{image.width} × {image.height} pixels of {image.format}"
            raise PhotoError(path, _too_many(what, max(pixels, -(-needed // _MOST_BYTES))))
        with _decoding.reserve(max(needed, copies_bytes), _BUDGET_BYTES * limit):
            image.load()
            photo = _apply_orientation(_convert(image, max(factor, 1)), image)
            image.close()  # frees its pixels
            yield photo


def pixel_limit() -> int:
    """Return the maximum number of pixels of a photo."""
    text = os.environ.get(LIMIT_VARIABLE)
    if text is None:
        return MAX_PIXELS
    if not _MEGAPIXELS.fullmatch(text):
        raise DeixisError(f"{LIMIT_VARIABLE}: {text[:40]!r} is not a number of megapixels, such as 200")
    return int(text) * 10**6


def _too_many(what: str, needed: int) -> str:
    megapixels = str(-(-needed // 10**6))
    hint = f"; set {LIMIT_VARIABLE}={megapixels} and retry to read it" if _MEGAPIXELS.fullmatch(megapixels) else ""
    return f"{what} are too many{hint}"


def _decoder_bytes(image: Image.Image, pixels: int) -> int:
    """Return what decoding takes; a progressive JPEG is kept at its full size of `pixels`, too."""
    needed = image.width * image.height * _DECODER_BYTES.get(image.format or "BMP", _OTHER_DECODER_BYTES)
    is_progressive = image.format in ("JPEG", "MPO") and "progressive" in image.info
    return needed + (2 * len(image.getbands()) * pixels if is_progressive else 0)


class _Budget:
    """Bytes that threads use at the same time."""

    def __init__(self) -> None:
        self._used = 0
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, needed: int, limit: int) -> Iterator[None]:
        """Wait until there is room, or nothing else is in use."""
        with self._changed:
            self._changed.wait_for(lambda: not self._used or self._used + needed <= limit)
            self._used += needed
        try:
            yield
        finally:
            with self._changed:
                self._used -= needed
                self._changed.notify_all()


_decoding = _Budget()


def _convert(image: Image.Image, factor: int) -> Image.Image:
    """Return a decoded photo as RGB, `factor` times smaller. Strips of it are converted, which takes less memory."""
    width, height = image.size
    rows = max(_STRIP_PIXELS // width // factor, 1) * factor
    convert: Callable[[Image.Image], Image.Image] = flatten
    boxes = [(0, top, width, min(top + rows, height)) for top in range(0, height, rows)]
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        convert = partial(_convert_deep_grey, white=_white(image.mode, max(_highest(image.crop(box)) for box in boxes)))
    if len(boxes) == 1 and factor == 1:
        return convert(image)
    whole = Image.new("RGB", (-(-width // factor), -(-height // factor)))
    for box in boxes:
        whole.paste(convert(image.crop(box)).reduce(factor), (0, box[1] // factor))
    return whole


def flatten(image: Image.Image) -> Image.Image:
    """Return an image as RGB, on white where it is transparent."""
    if image.has_transparency_data:
        layers = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layers.size, "white"), layers)
    return image.convert("RGB")


@contextmanager
def open_image_file(path: Path, inside: Path | None = None, content: IO[bytes] | None = None) -> Iterator[Image.Image]:
    """Open a photo, the preview of a RAW file, or a frame of a video, by its suffix; the pixels are not decoded yet.

    With `inside`, a resolved folder, a file that lies elsewhere is refused. `content` is that of `open_photo`; it comes
    from a stranger, and HEIF is refused unless libheif is a version without known holes.
    """
    libheif = _register_heif()
    suffix = path.suffix.lower()
    formats: tuple[str, ...] = (*FORMATS, "JXL") if _has_jpeg_xl(path) else FORMATS
    if content is not None and libheif < _SAFE_LIBHEIF:
        _refuse_heif(path, content, libheif)
        formats = tuple(each for each in formats if each != "HEIF")
    with open_file(path, inside) if content is None else nullcontext(content) as file:
        if content is None and suffix not in VIDEO_SUFFIXES and path.stat().st_size > MAX_BYTES:
            raise PhotoError(path, f"larger than {MAX_BYTES // 2**20} MB")
        if suffix in VIDEO_SUFFIXES:
            image = open_video_frame(path, file)
        elif suffix in RAW_SUFFIXES:
            with _decoding.reserve(_RAW_COPIES * path.stat().st_size, _BUDGET_BYTES * pixel_limit()):
                image = open_preview(path, file.read())
        else:
            image = Image.open(file, formats=formats)
        with image:
            yield image


@cache
def _register_heif() -> tuple[int, ...]:
    """Register a reader of HEIF with Pillow, pillow-heif if it is installed; return the version of libheif."""
    reader: Any = import_module("pillow_heif" if find_spec("pillow_heif") else "pi_heif")
    reader.register_heif_opener()
    return tuple(map(int, re.findall(r"\d+", reader.libheif_version())))


def _refuse_heif(path: Path, content: IO[bytes], libheif: tuple[int, ...]) -> None:
    """Refuse a HEIF photo of a stranger; AVIF, which begins in the same way, is read by Pillow."""
    head = content.read(_FTYP_BYTES)
    content.seek(0)
    if head[4:8] == b"ftyp" and head[8:12] not in _AVIF_BRANDS:
        version = ".".join(map(str, libheif))
        raise PhotoError(path, f"HEIF uploads need a newer libheif than {version}: pip install pillow-heif")


def _has_jpeg_xl(path: Path) -> bool:
    if path.suffix.lower() != ".jxl":
        return False
    try:
        import pillow_jxl  # noqa: F401 # registers the format
    except ModuleNotFoundError:
        raise PhotoError(path, "JPEG XL needs a plugin: pip install 'deixis[jxl]'") from None
    return True


def _check_scans(path: Path, image: Image.Image) -> None:
    """Refuse a JPEG whose scans would take long to decode."""
    if image.format not in ("JPEG", "MPO"):
        return
    file = cast(Any, image).fp
    position = file.tell()
    file.seek(0)
    scans, last = 0, b""
    while block := file.read(2**20):
        scans += (last + block).count(_START_OF_SCAN)
        last = block[-1:]
    file.seek(position)
    if scans > MAX_SCANS or scans * image.width * image.height > MAX_SCANNED_PIXELS:
        raise PhotoError(path, f"{scans} scans of {image.width} × {image.height} pixels are too many")


def _apply_orientation(photo: Image.Image, image: Image.Image) -> Image.Image:
    """Rotate as the EXIF data of `image` says. `ImageOps.exif_transpose` also rewrites them, and fails on damage."""
    rotation = _ROTATIONS.get(image.getexif().get(_EXIF_ORIENTATION, 1))
    return photo if rotation is None else photo.transpose(rotation)


def _highest(image: Image.Image) -> float:
    import numpy as np

    values = np.asarray(image, dtype=np.float64)
    return float(values[np.isfinite(values)].max(initial=0))


def _convert_deep_grey(image: Image.Image, white: float) -> Image.Image:
    """Scale grey values that Pillow would clip to white. NaN becomes black."""
    import numpy as np

    values = np.asarray(image, dtype=np.float64)
    values = np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)
    grey = np.clip(values / white * 255, 0, 255)
    grey[values == image.info.get("transparency")] = 255
    return Image.fromarray(grey.astype(np.uint8)).convert("RGB")


def _white(mode: str, highest: float) -> float:
    """Return the value of white. It is known for 16-bit images and guessed from the highest value in other modes."""
    if mode.startswith("I;16"):
        return 65535.0
    candidates = (1.0, 255.0, 65535.0) if mode == "F" else (255.0, 65535.0)
    return next((white for white in candidates if highest <= white), candidates[-1])


# Photos inside other files.

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
    """Open the largest JPEG in a RAW file, with the EXIF data of the file where the preview has none."""
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


@contextmanager
def _open_checked(
    path: Path, max_pixels: int | None = None, inside: Path | None = None, content: IO[bytes] | None = None
) -> Iterator[Image.Image]:
    """Open a photo within the limits. Errors, also of the block, become a `PhotoError`."""
    limit = pixel_limit() if max_pixels is None else max_pixels
    if Image.MAX_IMAGE_PIXELS is not None and limit > MAX_PIXELS:
        Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS, limit)
    try:
        with open_image_file(path, inside, content) as image:
            if image.width * image.height > limit:
                what = f"{image.width} × {image.height} pixels"
                reason = f"{what} are too many" if max_pixels else _too_many(what, image.width * image.height)
                raise PhotoError(path, reason)
            yield image
    except PhotoError:
        raise
    except UnidentifiedImageError:
        raise PhotoError(path, "not a photo in a known format") from None
    except FileNotFoundError:
        raise PhotoError(path, "no such file") from None
    except IsADirectoryError:
        raise PhotoError(path, "a folder, not a photo") from None
    except Image.DecompressionBombError as error:
        found = re.search(r"\((\d+) pixels\)", str(error))
        pixels = int(found[1]) if found and max_pixels is None else 0
        raise PhotoError(path, _too_many("its pixels", pixels) if pixels else "its pixels are too many") from None
    except (OSError, ValueError, SyntaxError, EOFError, TypeError, RuntimeError, MemoryError, OverflowError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0]  # without advice to programmers
        code = error.errno if isinstance(error, OSError) else None
        # Pillow's words for a decoder that got no memory.
        no_memory = isinstance(error, MemoryError) or reason.startswith(("codec configuration error", "out of memory"))
        is_temporary = no_memory or code not in (None, errno.EINVAL, errno.EOVERFLOW)
        raise PhotoError(path, f"cannot be read ({reason or type(error).__name__})", is_temporary) from error
