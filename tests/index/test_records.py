"""The rows of an index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from deixis.index import Seen, Where, records
from deixis.index.about import About
from deixis.index.connection import Connection
from deixis.index.exif import Taken
from deixis.index.places import Place
from deixis.index.walking import FoundFile
from deixis.index.writing import opened_to_write

SHA = b"s" * 32


@pytest.fixture
def connection(place: Place) -> Iterator[Connection]:
    """An index with a transaction begun."""
    with opened_to_write(place, About("", "f", 4, 4)) as writer:
        writer.begin()
        yield writer.connection
        writer.rollback()


def file(path: str) -> FoundFile:
    return FoundFile(Path(path), 12, 34)


def add(connection: Connection, path: str, taken: Taken | None = None) -> int | None:
    boxes, vectors = np.array([[1, 2, 3, 4]], np.float32), np.full((1, 4), 0.5, np.float32)
    seen = Seen(np.arange(4, dtype=np.float32), 64, 48, boxes, vectors, b"jpeg")
    return records.add_photo(connection, file(path), SHA, taken or Taken(), seen)


def test_what_is_written_is_read(connection: Connection) -> None:
    number = add(connection, "/a/b.jpg", Taken(7, "Canon", 6))
    assert number is not None
    expected = records.IndexedPhoto(number, Path("/a/b.jpg"), 12, 34, SHA, 64, 48, Taken(7, "Canon", 6), 1)
    assert records.photo_at(connection, Path("/a/b.jpg")) == expected
    assert records.photos_by_id(connection, [number, 99]) == {number: expected}
    assert records.photos_of_content(connection, SHA) == [expected]
    assert records.thumbnail(connection, number) == b"jpeg"
    whole = connection.whole_of(number)
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


def test_an_interruption_between_the_rows_of_a_photo_undoes_them(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(connection), "keep_seen", interrupt)
    with pytest.raises(KeyboardInterrupt):
        add(connection, "/a/b.jpg")
    connection.execute("COMMIT")
    assert records.count(connection) == 0


def test_a_path_is_taken_once(connection: Connection) -> None:
    assert add(connection, "/a/b.jpg") is not None
    assert add(connection, "/a/b.jpg") is None
    assert records.count(connection) == 1


def test_photos_below_a_folder_are_not_those_beside_it(connection: Connection) -> None:
    for path in ("/a/1.jpg", "/a/b/2.jpg", "/ab/3.jpg", "/4.jpg"):
        add(connection, path)
    assert [p.path.name for p in records.photos_below(connection, Path("/a"))] == ["1.jpg", "2.jpg"]
    assert [p.path.name for p in records.photos_below(connection, Path("/a/1.jpg"))] == ["1.jpg"]
    assert sorted(p.path.name for p in records.photos_below(connection, Path("/"))) == [
        "1.jpg",
        "2.jpg",
        "3.jpg",
        "4.jpg",
    ]


def test_a_skipped_file_is_remembered_until_it_is_a_photo(connection: Connection) -> None:
    records.skip_file(connection, file("/a/b.jpg"), SHA, "bad")
    assert records.skipped_at(connection, Path("/a/b.jpg")) == records.SkippedFile(12, 34, SHA, "bad")
    assert records.skipped_below(connection, Path("/a")) == [Path("/a/b.jpg")]
    add(connection, "/a/b.jpg")
    assert records.skipped_at(connection, Path("/a/b.jpg")) is None


def test_a_camera_with_signs_of_sql_in_its_name_is_only_a_name(connection: Connection) -> None:
    number = add(connection, "/a/b.jpg", Taken(1, "100% '_' \"Cam\"; DROP TABLE photos"))
    add(connection, "/a/c.jpg", Taken(1, "1000 Cam"))
    assert records.ids_where(connection, Where(camera="0% '_'")).tolist() == [number]
    assert records.ids_where(connection, Where(camera="'")).tolist() == [number]


def test_more_photos_than_are_asked_for_at_once_are_read(connection: Connection) -> None:
    numbers = [add(connection, f"/a/{number}.jpg") or 0 for number in range(1100)]
    assert sorted(connection.regions_of(numbers, 4)) == numbers
