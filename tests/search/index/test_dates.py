"""The dates of photos."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from PIL import Image

from deixis.search.index.dates import find_date, parse_name, parse_xmp
from deixis.search.index.photo_files import FileMetadata, read_metadata

XMP = b'<x:xmpmeta><rdf:Description %s="2021-03-04T05:06:07+02:00"/></x:xmpmeta>'


def text(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("name", "date"),
    [
        ("IMG_20240612_103059.jpg", "2024-06-12 10:30:59"),
        ("PXL_20240612_103059123.jpg", "2024-06-12 10:30:59"),
        ("2024-06-12 10.30.59.jpg", "2024-06-12 10:30:59"),
        ("Screenshot 2024-06-12 at 10.30.59.png", "2024-06-12 10:30:59"),
        ("2024-06-12.jpg", "2024-06-12 00:00:00"),
        ("IMG-20240612-WA0042.jpg", "2024-06-12 00:00:00"),
        ("beach_2024_06_12_9999.jpg", "2024-06-12 00:00:00"),
        ("signal-2024-06-12-103059.jpeg", "2024-06-12 10:30:59"),
        ("IMG_4711.jpg", None),
        ("12345620240612.jpg", None),
        ("20241312.jpg", None),
        ("1080x1920.jpg", None),
    ],
)
def test_dates_in_names(name: str, date: str | None) -> None:
    assert text(parse_name(name)) == date


@pytest.mark.parametrize("tag", [b"exif:DateTimeOriginal", b"photoshop:DateCreated", b"xmp:CreateDate"])
def test_dates_in_xmp(tag: bytes) -> None:
    assert text(parse_xmp(XMP % tag)) == "2021-03-04 05:06:07"
    assert text(parse_xmp(b"<" + tag + b">2021-03-04</" + tag + b">")) == "2021-03-04 00:00:00"
    assert parse_xmp(b"<" + tag + b">2021-13-44</" + tag + b">") is None


def test_a_date_comes_from_exif_or_else_xmp_or_else_the_name_or_else_the_file(tmp_path: Path) -> None:
    image, path = Image.new("RGB", (8, 8)), tmp_path / "IMG_20220607.jpg"

    def found(path: Path) -> tuple[str | None, str | None]:
        metadata = read_metadata(path)[1]
        assert isinstance(metadata, FileMetadata)
        return text(metadata.exif.taken), metadata.exif.date_source

    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2020:01:02 03:04:05"
    image.save(path, exif=exif, xmp=XMP % b"xmp:CreateDate")
    assert found(path) == ("2020-01-02 03:04:05", "exif")
    image.save(path, xmp=XMP % b"xmp:CreateDate")
    assert found(path) == ("2021-03-04 05:06:07", "xmp")
    image.save(path)
    assert found(path) == ("2022-06-07 00:00:00", "name")
    path.with_suffix(".xmp").write_bytes(XMP % b"exif:DateTimeOriginal")
    assert found(path) == ("2021-03-04 05:06:07", "xmp")
    path = path.rename(tmp_path / "beach.jpg")
    os.utime(path, (1_600_000_000, 1_600_000_000))
    assert find_date(path) == (int(datetime.fromtimestamp(1_600_000_000).replace(tzinfo=UTC).timestamp()), "file")
