"""Photo files: found, looked at and opened, with limits on what a stranger's file may cost."""

from __future__ import annotations

import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from deixis.errors import PhotoError
from deixis.files.hashes import hash_of_file
from deixis.files.remote import RemotePath, openable

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".heic", ".heif", ".tif", ".tiff", ".bmp", ".gif")
)
FORMATS = ("JPEG", "PNG", "WEBP", "HEIF", "TIFF", "BMP", "GIF")
MAX_BYTES = 256 * 2**20
MAX_PIXELS = 150_000_000
# Our own limit stands above, and odd EXIF is no reason to speak. Filters are the process's, so they are set once.
warnings.filterwarnings("ignore", module=r"PIL\.")
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
_EXIF_ORIENTATION = 0x0112
_SIDEWAYS = (5, 6, 7, 8)
_TURNS = {
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
    """What a photo's file says without decoding it: its size after EXIF rotation, and a hash of its bytes."""

    width: int
    height: int
    sha256: str


def find_photos(folder: Path) -> list[Path]:
    """All photo files below a folder, sorted by path; hidden ones are left out."""
    if isinstance(folder, RemotePath):
        return sorted(_below(folder))
    found = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    return sorted(path for path in found if not any(p.startswith(".") for p in path.relative_to(folder).parts))


def _below(folder: RemotePath) -> Iterator[Path]:
    for path, about in folder.listed():
        if path.name.startswith("."):
            continue
        if stat.S_ISDIR(about.st_mode):
            yield from _below(path)
        elif path.suffix.lower() in SUFFIXES:
            yield path


def look_at(path: Path) -> PhotoFile:
    """Read a photo's size and hash.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (40, 30)).save(Path(folder) / "a.png")
    ...     found = look_at(Path(folder) / "a.png")
    >>> found.width, found.height
    (40, 30)
    """
    width, height = size_of(path)
    return PhotoFile(width, height, hash_of_file(path))


def size_of(path: Path) -> tuple[int, int]:
    """A photo's width and height after EXIF rotation, read without decoding it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (40, 30)).save(Path(folder) / "a.png")
    ...     size_of(Path(folder) / "a.png")
    (40, 30)
    """
    with _opened(path) as image:
        width, height = image.size
        # Pillow turns TIFFs, and pi-heif its photos, when it opens them.
        if image.format not in ("TIFF", "HEIF") and image.getexif().get(_EXIF_ORIENTATION) in _SIDEWAYS:
            return height, width
        return width, height


def open_photo(path: Path, at_least: int | None = None, most_pixels: int | None = None) -> Image.Image:
    """Decode a photo to RGB: EXIF rotation applied, the first frame only, transparency on white.

    Parameters
    ----------
    path
        The file.
    at_least
        If given, both sides need only be this many pixels long. A colour JPEG is then decoded to a half, a quarter or
        an eighth where that is enough, at a fraction of the cost; everything else comes in full. `size_of` tells the
        full size.
    most_pixels
        A photo that says that it has more is not decoded; `MAX_PIXELS` where nothing is said.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("LA", (40, 30)).save(Path(folder) / "a.png")
    ...     open_photo(Path(folder) / "a.png").mode
    'RGB'
    """
    with _opened(path, most_pixels) as image:
        if at_least is not None and image.mode == "RGB":
            image.draft("RGB", (at_least, at_least))  # only JPEGs know how
        upright = _upright(image)
        if upright.mode in ("I", "F") or upright.mode.startswith("I;16"):
            return _from_deep_grey(upright)
        if upright.has_transparency_data:
            layers = upright.convert("RGBA")
            white = Image.new("RGBA", layers.size, "white")
            return Image.alpha_composite(white, layers).convert("RGB")
        return upright.convert("RGB")


def _upright(image: Image.Image) -> Image.Image:
    """As EXIF says that it is held. Pillow's own function writes the EXIF anew, and fails where that is damaged."""
    image.load()
    turn = _TURNS.get(image.getexif().get(_EXIF_ORIENTATION, 1))
    return image if turn is None else image.transpose(turn)


def _from_deep_grey(image: Image.Image) -> Image.Image:
    """Greys that Pillow's own conversion would clip to white; what is not a number becomes black."""
    import numpy as np

    values = np.asarray(image, dtype=np.float64)
    highest = float(values[np.isfinite(values)].max(initial=0))
    values = np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)
    grey = np.clip(values / _white(image.mode, highest) * 255, 0, 255)
    grey[values == image.info.get("transparency")] = 255
    return Image.fromarray(grey.astype(np.uint8)).convert("RGB")


def _white(mode: str, highest: float) -> float:
    """The value that is white. A dark 16-bit scan stays dark; other modes do not say how deep they are, so we guess.

    Whole numbers of 32 bits (I) reach 255 or 65535, and fractions (F) also 1, whichever is enough for the highest.
    """
    if mode.startswith("I;16"):
        return 65535.0
    enough = (1.0, 255.0, 65535.0) if mode == "F" else (255.0, 65535.0)
    return next((white for white in enough if highest <= white), enough[-1])


@contextmanager
def _opened(path: Path, most_pixels: int | None = None) -> Iterator[Image.Image]:
    """Open within the limits; whatever goes wrong, here or in the block, becomes one line about this photo."""
    import pi_heif

    pi_heif.register_heif_opener()
    try:
        if path.stat().st_size > MAX_BYTES:
            raise PhotoError(path, f"larger than {MAX_BYTES // 2**20} MB")
        with Image.open(openable(path), formats=FORMATS) as image:
            if image.width * image.height > (MAX_PIXELS if most_pixels is None else most_pixels):
                raise PhotoError(path, f"{image.width} × {image.height} pixels are too many")
            yield image
    except PhotoError:
        raise
    except UnidentifiedImageError:
        raise PhotoError(path, "not a photo in a known format") from None
    except FileNotFoundError:
        raise PhotoError(path, "no such file") from None
    except IsADirectoryError:
        raise PhotoError(path, "a folder, not a photo") from None
    except Image.DecompressionBombError:
        raise PhotoError(path, "its pixels are too many") from None
    except (
        OSError,
        ValueError,
        SyntaxError,
        EOFError,
        TypeError,
        RuntimeError,
        MemoryError,
        OverflowError,
    ) as error:
        raise PhotoError(path, f"cannot be read ({' '.join(str(error).split()) or type(error).__name__})") from error
