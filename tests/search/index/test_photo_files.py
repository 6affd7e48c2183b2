"""Finding photo files and reading their metadata."""

from __future__ import annotations

import io
import os
from datetime import UTC, datetime
from pathlib import Path

import pillow_heif
import pytest
from PIL import Image

from deixis.data import images
from deixis.errors import DeixisError, PhotoError
from deixis.search.index.photo_files import (
    ExifInfo,
    FileMetadata,
    FileSelection,
    FileState,
    find_date,
    find_photos,
    find_roots,
    make_thumbnail,
    parse_name,
    parse_xmp,
    read_exif,
    read_metadata,
)
from tests.search.index.fakes import photo


def fill(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def found(*points: Path) -> list[str]:
    return [each.path.name for each in find_photos(points) if isinstance(each, FileState)]


def refused(*points: Path) -> dict[str, str]:
    return {Path(each.path).name: each.reason for each in find_photos(points) if isinstance(each, PhotoError)}


def test_photos_are_found_at_any_depth_in_order_and_other_files_are_not(tmp_path: Path) -> None:
    fill(tmp_path, "b.JPG", "a.png", "notes.txt", "deep/er/c.heic", ".hidden.jpg", ".trash/d.jpg")
    assert found(tmp_path) == ["a.png", "b.JPG", "c.heic"]


def test_a_named_file_may_have_any_suffix(tmp_path: Path) -> None:
    fill(tmp_path, "photo.dat")
    assert found(tmp_path / "photo.dat") == ["photo.dat"]


def test_cyclic_links_are_no_problem(tmp_path: Path) -> None:
    fill(tmp_path, "a/one.jpg")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "self.jpg").symlink_to(tmp_path / "a" / "self.jpg")
    (tmp_path / "a" / "nowhere.jpg").symlink_to(tmp_path / "nothing")
    (tmp_path / "a" / "folder.jpg").symlink_to(tmp_path)
    assert found(tmp_path) == ["one.jpg"]
    assert sorted(refused(tmp_path)) == ["nowhere.jpg", "self.jpg"]


def test_empty_files_and_pipes_are_reported(tmp_path: Path) -> None:
    (tmp_path / "empty.jpg").touch()
    os.mkfifo(tmp_path / "pipe.jpg")
    assert refused(tmp_path) == {"empty.jpg": "an empty file", "pipe.jpg": "not a file"}


def test_index_folders_are_skipped(tmp_path: Path) -> None:
    fill(tmp_path, "one.jpg", "photos.deixis/.deixis-index", "photos.deixis/two.jpg")
    assert found(tmp_path) == ["one.jpg"]


def test_a_vanished_folder_is_reported_and_the_rest_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, "a/one.jpg", "b/two.jpg")
    scan = os.scandir

    def failing(path: Path) -> object:
        if path.name == "a":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", failing)
    assert found(tmp_path) == ["two.jpg"]
    assert refused(tmp_path) == {"a": "cannot be read (Permission denied)"}


def test_deep_folders_are_searched(tmp_path: Path) -> None:
    here = Path.cwd()
    try:
        os.chdir(tmp_path)
        for _ in range(300):
            Path("d").mkdir()
            os.chdir("d")
        Path("deep.jpg").write_bytes(b"x")
    finally:
        os.chdir(here)
    assert found(tmp_path) == ["deep.jpg"]


def test_nested_roots_count_once(tmp_path: Path) -> None:
    fill(tmp_path, "a/b/one.jpg", "a2/two.jpg")
    points = find_roots([tmp_path / "a" / "b", tmp_path / "a", tmp_path / "a" / "b" / "one.jpg", tmp_path / "a2"])
    assert points == [tmp_path / "a", tmp_path / "a2"]


def test_a_missing_root_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match=r"nowhere: no such file or folder$"):
        find_roots([tmp_path / "nowhere"])


def test_links_to_files_outside_the_folder_are_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "photos", tmp_path / "secret.jpg"
    (inside / "below").mkdir(parents=True)
    outside.write_bytes(b"x")
    (inside / "mine.jpg").write_bytes(b"x")
    (inside / "below" / "again.jpg").symlink_to(inside / "mine.jpg")
    (inside / "away.jpg").symlink_to(outside)
    found = list(find_photos([inside]))
    assert {each.path.name for each in found if isinstance(each, FileState)} == {"mine.jpg", "again.jpg"}
    [refused] = [each for each in found if isinstance(each, PhotoError)]
    assert refused.path == str(inside / "away.jpg")


def test_what_is_ignored_is_counted_by_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deixis.search.index.photo_files.can_read_videos", lambda: False)
    fill(tmp_path, "one.jpg", "Trash/two.jpg", "@eaDir/one.jpg", "node_modules/a/three.jpg", ".cache/four.jpg")
    fill(tmp_path, "film.MP4", "notes.txt", "Screenshots/five.jpg", "2019/raw/six.jpg", "2019/raw.jpg", "anim.GIF")
    selection = FileSelection(["screenshots", "*.gif", "2019/raw"])
    found = [each.path.name for each in find_photos([tmp_path], selection) if isinstance(each, FileState)]
    assert found == ["one.jpg", "raw.jpg"]
    assert selection.ignored == {"system folders": 3, "hidden": 1, "videos": 1, "other files": 1, "excluded": 3}
    assert selection.is_left_out(tmp_path / "2019" / "raw" / "six.jpg", tmp_path)
    assert not selection.is_left_out(tmp_path / "2019" / "raw.jpg", tmp_path)


def test_a_folder_that_is_named_is_searched_whatever_its_name(tmp_path: Path) -> None:
    fill(tmp_path, "trash/one.jpg")
    assert found(tmp_path / "trash") == ["one.jpg"]


@pytest.mark.parametrize("ending", ["jpg", "png", "webp", "heic"])
def test_date_and_camera_are_read(ending: str, tmp_path: Path) -> None:
    pillow_heif.register_heif_opener()
    photo(tmp_path / f"a.{ending}", 1, taken="2024:06:01 12:30:00", camera="Canon EOS 5D")
    assert read_exif(tmp_path / f"a.{ending}") == ExifInfo(1717245000, "Canon EOS 5D", None, "exif")


def test_exif_is_read_from_tiff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(Image.OPEN, "HEIF", raising=False)  # as if no photo had been opened yet
    images._register_heif.cache_clear()
    photo(tmp_path / "a.tif", 1, camera="Canon EOS 5D")  # Pillow does not write the date into a TIFF
    assert read_exif(tmp_path / "a.tif").camera == "Canon EOS 5D"


@pytest.mark.parametrize(
    ("written", "read"),
    [("Canon Canon EOS 5D", "Canon EOS 5D"), ("Evil \x1b[31mCam\n\x00", "Evil [31mCam")],
    ids=["the maker twice", "unprintable characters"],
)
def test_camera_names_are_cleaned(written: str, read: str, tmp_path: Path) -> None:
    photo(tmp_path / "a.jpg", 1, camera=written)
    assert read_exif(tmp_path / "a.jpg").camera == read


def test_orientation_is_read(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg", exif=exif)
    assert read_exif(tmp_path / "a.jpg").orientation == 6


@pytest.mark.parametrize("date", ["0000:00:00 00:00:00", "yesterday", "2024-06-01", "\x00\x00", "2024:13:01 00:00:00"])
def test_invalid_dates_are_ignored(date: str, tmp_path: Path) -> None:
    photo(tmp_path / "a.jpg", 1, taken=date)
    assert read_exif(tmp_path / "a.jpg").taken is None


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize("content", [b"", b"no photo", b"\xff\xd8\xff\xe1\x00\x10Exif\x00\x00MM\x00*\xff\xff\xff\xff"])
def test_a_file_that_is_no_photo_has_no_exif(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(content)
    assert read_exif(tmp_path / "a.jpg") == ExifInfo()


def test_thumbnails_have_a_maximum_size() -> None:
    assert Image.open(io.BytesIO(make_thumbnail(Image.new("RGB", (1000, 500)), 100))).size == (100, 50)
    assert Image.open(io.BytesIO(make_thumbnail(Image.new("RGB", (10, 20)), 100))).size == (10, 20)


def test_thumbnails_have_no_metadata_and_leave_the_photo_unchanged() -> None:
    exif = Image.Exif()
    exif[0x010E] = "secret place"
    original = io.BytesIO()
    Image.new("RGB", (400, 400)).save(original, "JPEG", exif=exif, comment=b"secret place")
    photo = Image.open(original)
    small = make_thumbnail(photo, 100)
    assert photo.size == (400, 400)
    assert b"secret place" in original.getvalue()
    assert b"secret place" not in small


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
