"""The rows of an index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.search.index import PhotoFilter, PhotoVectors, records
from deixis.search.index.base import Connection, IndexInfo, IndexPath
from deixis.search.index.photo_files import ExifInfo, FileState
from deixis.search.index.photo_index import open_writer
from tests.search.index.fakes import on_both

SHA = b"s" * 32


@pytest.fixture
def connection(index_path: IndexPath) -> Iterator[Connection]:
    """An index with a transaction begun."""
    with open_writer(index_path, IndexInfo("", "f", 4, 4)) as writer:
        writer.begin()
        yield writer.connection
        writer.rollback()


def file(path: str) -> FileState:
    return FileState(Path(path), 12, 34)


def add(connection: Connection, path: str, taken: ExifInfo | None = None) -> int | None:
    boxes, vectors = np.array([[1, 2, 3, 4]], np.float32), np.full((1, 4), 0.5, np.float32)
    encoded = PhotoVectors(np.arange(4, dtype=np.float32), 64, 48, boxes, vectors, b"jpeg")
    return records.add_photo(connection, file(path), SHA, taken or ExifInfo(), encoded)


@on_both
def test_stored_photos_are_read_back(connection: Connection) -> None:
    number = add(connection, "/a/b.jpg", ExifInfo(7, "Canon", 6))
    assert number is not None
    expected = records.IndexedPhoto(number, Path("/a/b.jpg"), 12, 34, SHA, 64, 48, ExifInfo(7, "Canon", 6), 1)
    assert records.photo_at(connection, Path("/a/b.jpg")) == expected
    assert records.photos_by_id(connection, [number, 99]) == {number: expected}
    assert records.photos_with_content(connection, SHA) == [expected]
    assert connection.thumbnail_of(number) == b"jpeg"
    whole = connection.whole_vectors([number])[number]
    assert whole is not None
    assert whole.tolist() == [0, 1, 2, 3]
    boxes, vectors = connection.regions_of([number], 4)[number]
    assert (boxes.tolist(), vectors.tolist()) == ([[1, 2, 3, 4]], [[0.5] * 4])


def test_a_removed_photo_leaves_nothing_but_its_number(connection: Connection) -> None:
    number = add(connection, "/a/b.jpg")
    assert number is not None
    records.remove_photo(connection, number)
    for table in ("photos", "vectors", "regions", "thumbnails"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    if isinstance(connection, sqlite3.Connection):  # whose readers remember numbers
        assert connection.execute("SELECT photo FROM removed").fetchall() == [(number,)]


@on_both
def test_an_interrupted_insert_is_undone(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(connection), "insert_encoded", interrupt)
    with pytest.raises(KeyboardInterrupt):
        add(connection, "/a/b.jpg")
    connection.execute("COMMIT")
    assert records.count(connection) == 0


def test_a_path_has_one_photo(connection: Connection) -> None:
    assert add(connection, "/a/b.jpg") is not None
    assert add(connection, "/a/b.jpg") is None
    assert records.count(connection) == 1


def test_photos_below_a_folder_are_not_those_beside_it(connection: Connection) -> None:
    for path in ("/a/1.jpg", "/a/b/2.jpg", "/ab/3.jpg", "/4.jpg"):
        add(connection, path)
    assert [p.path.name for p in records.photos_below(connection, Path("/a"))] == ["1.jpg", "2.jpg"]
    assert [p.path.name for p in records.photos_below(connection, Path("/a/1.jpg"))] == ["1.jpg"]
    assert sorted(p.path.stem for p in records.photos_below(connection, Path("/"))) == list("1234")


def test_a_skipped_file_is_recorded_until_it_is_a_photo(connection: Connection) -> None:
    records.skip_file(connection, file("/a/b.jpg"), SHA, "bad")
    assert records.skipped_at(connection, Path("/a/b.jpg")) == records.SkippedFile(file("/a/b.jpg"), SHA, "bad")
    assert records.skipped_below(connection, Path("/a")) == [Path("/a/b.jpg")]
    add(connection, "/a/b.jpg")
    assert records.skipped_at(connection, Path("/a/b.jpg")) is None


def test_camera_names_are_escaped_in_sql(connection: Connection) -> None:
    number = add(connection, "/a/b.jpg", ExifInfo(1, "100% '_' \"Cam\"; DROP TABLE photos"))
    add(connection, "/a/c.jpg", ExifInfo(1, "1000 Cam"))
    assert records.filtered_numbers(connection, PhotoFilter(camera="0% '_'")).tolist() == [number]
    assert records.filtered_numbers(connection, PhotoFilter(camera="'")).tolist() == [number]


def test_regions_of_many_photos_are_read(connection: Connection) -> None:
    numbers = [add(connection, f"/a/{number}.jpg") or 0 for number in range(1100)]
    assert sorted(connection.regions_of(numbers, 4)) == numbers


@pytest.mark.parametrize(
    ("date", "seconds"),
    [("1970", 0), ("1970-01-02", 86400), ("1970-02", 31 * 86400), ("1970-01-01 01:30", 5400), ("1970-1-1T00:01", 60)],
)
def test_a_date_starts_at_its_first_second(date: str, seconds: int) -> None:
    assert PhotoFilter(after=date).first_second() == seconds
    assert PhotoFilter(before=date).end_second() == seconds


@pytest.mark.parametrize("date", ["yesterday", "2024-13", "2024-02-30", "24", "2024-06-", "2024-06-01 25:00"])
def test_invalid_dates_are_errors(date: str) -> None:
    with pytest.raises(DeixisError, match=date):
        PhotoFilter(after=date)


def test_an_empty_filter_includes_everything() -> None:
    assert not PhotoFilter()
    assert PhotoFilter(camera="x")
    assert PhotoFilter().allows_folder(b"/a")


@pytest.mark.parametrize(
    ("folder", "path", "allowed"),
    [
        ("holiday", b"/photos/Holiday 2023/beach", True),
        ("HOLIDAY", b"/photos/holiday", True),
        ("holiday", b"/photos/work", False),
        ("2023/beach", b"/photos/Holiday 2023/beach", True),
        ("holiday/beach", b"/photos/holiday 2023/beach", False),
        ("/photos", b"/photos/holiday", True),
        ("caf", b"/photos/caf\xe9", True),
    ],
)
def test_folders_match_by_part_of_a_name_or_path(folder: str, path: bytes, allowed: bool) -> None:
    assert PhotoFilter(folder=folder).allows_folder(path) is allowed
