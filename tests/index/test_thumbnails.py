"""Small pictures of photos."""

from __future__ import annotations

import io

from PIL import Image

from deixis.index.thumbnails import thumbnail_of


def test_the_longer_side_fits_and_small_photos_stay_small() -> None:
    assert Image.open(io.BytesIO(thumbnail_of(Image.new("RGB", (1000, 500)), 100))).size == (100, 50)
    assert Image.open(io.BytesIO(thumbnail_of(Image.new("RGB", (10, 20)), 100))).size == (10, 20)


def test_the_photo_is_not_changed_and_its_metadata_stays_behind() -> None:
    exif = Image.Exif()
    exif[0x010E] = "secret place"
    original = io.BytesIO()
    Image.new("RGB", (400, 400)).save(original, "JPEG", exif=exif, comment=b"secret place")
    photo = Image.open(original)
    small = thumbnail_of(photo, 100)
    assert photo.size == (400, 400)
    assert b"secret place" in original.getvalue()
    assert b"secret place" not in small
