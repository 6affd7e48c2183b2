"""When and with what a photo was taken."""

from __future__ import annotations

from pathlib import Path

import pillow_heif
import pytest
from PIL import Image

from deixis.index.exif import Taken, taken_of
from tests.index.fakes import photo


def test_date_and_camera_are_read(tmp_path: Path) -> None:
    photo(tmp_path / "a.jpg", 1, taken="2024:06:01 12:30:00", camera="Canon EOS 5D")
    assert taken_of(tmp_path / "a.jpg") == Taken(1717245000, "Canon EOS 5D", None)


@pytest.mark.parametrize("ending", ["png", "webp", "heic"])
def test_other_formats_say_it_too(ending: str, tmp_path: Path) -> None:
    pillow_heif.register_heif_opener()
    photo(tmp_path / f"a.{ending}", 1, taken="2024:06:01 12:30:00", camera="Canon EOS 5D")
    assert taken_of(tmp_path / f"a.{ending}") == Taken(1717245000, "Canon EOS 5D", None)


def test_a_tiff_names_its_camera(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(Image.OPEN, "HEIF", raising=False)  # as if no photo had been opened yet
    photo(tmp_path / "a.tif", 1, camera="Canon EOS 5D")  # Pillow does not write the date into a TIFF
    assert taken_of(tmp_path / "a.tif").camera == "Canon EOS 5D"


def test_a_maker_is_not_said_twice(tmp_path: Path) -> None:
    photo(tmp_path / "a.jpg", 1, camera="Canon Canon EOS 5D")
    assert taken_of(tmp_path / "a.jpg").camera == "Canon EOS 5D"


def test_orientation_is_read(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg", exif=exif)
    assert taken_of(tmp_path / "a.jpg").orientation == 6


@pytest.mark.parametrize("date", ["0000:00:00 00:00:00", "yesterday", "2024-06-01", "\x00\x00", "2024:13:01 00:00:00"])
def test_a_date_that_is_none_says_nothing(date: str, tmp_path: Path) -> None:
    photo(tmp_path / "a.jpg", 1, taken=date)
    assert taken_of(tmp_path / "a.jpg").seconds is None


def test_signs_that_cannot_be_printed_are_left_out(tmp_path: Path) -> None:
    photo(tmp_path / "a.jpg", 1, camera="Evil \x1b[31mCam\n\x00")
    assert taken_of(tmp_path / "a.jpg").camera == "Evil [31mCam"


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize("content", [b"", b"no photo", b"\xff\xd8\xff\xe1\x00\x10Exif\x00\x00MM\x00*\xff\xff\xff\xff"])
def test_a_file_that_is_no_photo_says_nothing(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(content)
    assert taken_of(tmp_path / "a.jpg") == Taken()
