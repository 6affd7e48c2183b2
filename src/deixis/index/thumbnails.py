"""Small pictures of photos, encoded anew, so that nothing of a stranger's file is ever shown as it is."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image

SIDE = 320
QUALITY = 80


def thumbnail_of(photo: Image.Image, side: int = SIDE) -> bytes:
    """A decoded photo as a small JPEG without any of its metadata.

    Parameters
    ----------
    photo
        From `deixis.data.images.open_photo`; it is not changed.
    side
        The longer side is at most this many pixels.

    Examples
    --------
    >>> from PIL import Image
    >>> jpeg = thumbnail_of(Image.new("RGB", (640, 480)))
    >>> Image.open(io.BytesIO(jpeg)).size
    (320, 240)
    """
    small = photo.convert("RGB")
    small.thumbnail((side, side), reducing_gap=2.0)
    small.info.clear()
    written = io.BytesIO()
    small.save(written, "JPEG", quality=QUALITY)
    return written.getvalue()
