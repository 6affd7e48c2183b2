"""Remote paths behave like local ones for reading photos."""

from __future__ import annotations

import io
import os
import re
import time
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import deixis
from deixis.data.images import find_photos, inspect_photo, open_photo
from deixis.errors import DeixisError, PhotoError
from deixis.storage.files import hash_file
from deixis.storage.remote import RemotePath, is_remote, photo_path, split_url


def png(colour: str = "red") -> bytes:
    written = io.BytesIO()
    Image.new("RGB", (40, 30), colour).save(written, "PNG")
    return written.getvalue()


@pytest.fixture
def bucket() -> Any:
    """A folder in memory: a.png, below/b.PNG, .hidden/c.png and words.txt."""
    system = fsspec.filesystem("memory")
    system.pipe(
        {"/bucket/a.png": png(), "/bucket/below/b.PNG": png("blue"), "/bucket/.hidden/c.png": png()}
        | {"/bucket/words.txt": b"words"}
    )
    yield system
    system.rm("/bucket", recursive=True)


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket/photos/a b.jpg",
        "sftp://me@host:22/photos/a.jpg",
        "memory://a.jpg",
        "simplecache::s3://bucket/a.jpg",
        "zip://photos/a.jpg::/holiday.zip",
        "zip://a.jpg::s3://bucket/holiday.zip",
        "simplecache::zip://photos/a.jpg::https://host/holiday.zip",
    ],
)
def test_path_operations_keep_the_url(address: str) -> None:
    path = photo_path(address)
    assert isinstance(path, RemotePath)
    assert str(path) == path.as_posix() == os.fspath(path) == str(path.absolute()) == str(path.resolve()) == address
    assert photo_path(str(path)) == photo_path(path) == path.parent / path.name == path
    assert path.suffix == ".jpg"
    assert path.is_relative_to(path.parent)
    assert path.relative_to(path.parent).as_posix() == path.name


@given(st.lists(st.text("ab .%#é", min_size=1).filter(lambda part: part.strip(" .")), min_size=1, max_size=4))
def test_children_of_an_archive_path_are_inside_the_archive(parts: list[str]) -> None:
    folder = photo_path("zip://photos::/holiday.zip")
    path = folder.joinpath(*parts)
    assert str(path) == f"zip://photos/{'/'.join(parts)}::/holiday.zip"
    assert photo_path(str(path)) == path
    assert path.relative_to(folder).as_posix() == "/".join(parts)


@pytest.mark.parametrize("place", ["a.jpg", "/photos/a.jpg", "odd::name.jpg", "C:/photos", Path("a.jpg")])
def test_other_paths_are_local(place: str | Path) -> None:
    assert photo_path(place) == Path(place)
    assert not is_remote(photo_path(place))


def test_files_and_folders_are_distinguished_and_listed(bucket: Any) -> None:
    folder = photo_path("memory://bucket")
    assert folder.is_dir()
    assert (folder / "a.png").is_file()
    assert not (folder / "a.png").is_dir()
    assert not (folder / "nothing.png").exists()
    assert [path.name for path, _ in folder.list_folder()] == [".hidden", "a.png", "below", "words.txt"]
    assert list(map(str, find_photos(folder))) == ["memory://bucket/a.png", "memory://bucket/below/b.PNG"]


def test_a_remote_photo_is_read_like_a_local_one(bucket: Any, tmp_path: Path) -> None:
    elsewhere, here = photo_path("memory://bucket/a.png"), tmp_path / "a.png"
    here.write_bytes(png())
    assert inspect_photo(elsewhere) == inspect_photo(here)
    assert open_photo(elsewhere).tobytes() == open_photo(here).tobytes()
    with pytest.raises(PhotoError, match=r"^memory://bucket/no\.png: "):
        open_photo(photo_path("memory://bucket/no.png"))
    with pytest.raises(PhotoError, match=r"^memory://bucket/words\.txt: "):
        open_photo(photo_path("memory://bucket/words.txt"))
    with pytest.raises(OSError, match="a.png"):
        elsewhere.open("wb")


def test_a_file_that_is_read_twice_in_a_row_is_fetched_once_unless_it_has_changed(
    bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    fetch = type(bucket).cat_file

    def counted(self: Any, path: str, *more: Any, **others: Any) -> Any:
        fetched.append(path)
        return fetch(self, path, *more, **others)

    monkeypatch.setattr(type(bucket), "cat_file", counted)
    path = photo_path("memory://bucket/a.png")
    first = hash_file(path)
    inspect_photo(path)
    assert len(fetched) == 1
    time.sleep(0.01)
    bucket.pipe_file("/bucket/a.png", png("lime"))
    assert hash_file(path) != first


def test_an_archive_is_a_folder(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "holiday.zip", "w") as archive:
        archive.writestr("photos/a.png", png())
        archive.writestr("photos/below/b.png", png("blue"))
    folder = photo_path(f"zip://photos::{tmp_path / 'holiday.zip'}")
    assert [path.relative_to(folder).as_posix() for path in find_photos(folder)] == ["a.png", "below/b.png"]
    assert (folder / "a.png").stat().st_mtime_ns > 0
    assert open_photo(folder / "below" / "b.png").getpixel((0, 0)) == (0, 0, 255)


@pytest.mark.parametrize(
    ("about", "changed"),
    [
        ({"mtime": 1.5}, 1_500_000_000),
        ({"LastModified": "2024-01-01T00:00:00+00:00"}, 1_704_067_200 * 10**9),
        ({"date_time": (2024, 1, 1, 0, 0, 0)}, 1_704_067_200 * 10**9),
        ({}, 0),
    ],
)
def test_modification_times_are_read_in_all_formats(
    about: dict[str, Any], changed: int, bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(bucket), "info", lambda self, path: {"name": path, "type": "file", "size": 3, **about})
    assert photo_path("memory://bucket/a.png").stat().st_mtime_ns == changed


def test_without_a_time_the_checksum_is_used(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = iter(["one", "one", "two"])
    monkeypatch.setattr(
        type(bucket), "info", lambda self, path: {"name": path, "type": "file", "size": 3, "ETag": next(marks)}
    )
    first, same, other = (photo_path("memory://bucket/a.png").stat().st_mtime_ns for _ in range(3))
    assert first == same != other


@pytest.mark.parametrize("address", ["carrier-pigeon://attic/a.jpg", "dropbox://a.jpg"])
def test_an_unreachable_url_is_named(address: str) -> None:
    with pytest.raises(DeixisError, match=f"^{address}: ") as error:
        photo_path(address).exists()
    assert "\n" not in str(error.value)


def test_errors_of_a_remote_file_system_become_os_errors(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, path: str) -> Any:
        raise RuntimeError("no credentials")

    monkeypatch.setattr(type(bucket), "info", fail)
    with pytest.raises(OSError, match="RuntimeError: no credentials"):
        photo_path("memory://bucket/a.png").stat()
    with pytest.raises(DeixisError, match=r"^memory://bucket/a\.png: .*no credentials"):
        photo_path("memory://bucket/a.png").exists()


@pytest.mark.parametrize("address", ["http://[", "http://]", "http://[::1", "//[x]y/", "http://a\u2100b/"])
def test_an_address_that_is_none_has_no_parts(address: str) -> None:
    assert not any(split_url(address))


def test_addresses_are_split_in_one_place() -> None:
    """`urlsplit` raises for some addresses, which strangers send."""
    source = Path(deixis.__file__).parent
    users = [path for path in source.rglob("*.py") if re.search(r"urlsplit|urlparse", path.read_text(encoding="utf-8"))]
    assert [path.relative_to(source).as_posix() for path in users] == ["storage/remote.py"]
