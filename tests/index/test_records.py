"""The rows of an index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from deixis.index import Seen, Where, records
from deixis.index.database import make_database, open_to_write
from deixis.index.exif import Taken
from deixis.index.walking import FoundFile

SHA = b"s" * 32


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    make_database(tmp_path, "f", 4, 4)
    opened = open_to_write(tmp_path)
    yield opened
    opened.close()


def file(path: str) -> FoundFile:
    return FoundFile(Path(path), 12, 34)


def add(connection: sqlite3.Connection, path: str, taken: Taken | None = None) -> int:
    boxes, vectors = np.array([[1, 2, 3, 4]], np.float32), np.full((1, 4), 0.5, np.float32)
    seen = Seen(np.arange(4, dtype=np.float32), 64, 48, boxes, vectors, b"jpeg")
    return records.add_photo(connection, file(path), SHA, taken or Taken(), seen)


def test_what_is_written_is_read(connection: sqlite3.Connection) -> None:
    number = add(connection, "/a/b.jpg", Taken(7, "Canon", 6))
    expected = records.IndexedPhoto(number, Path("/a/b.jpg"), 12, 34, SHA, 64, 48, Taken(7, "Canon", 6), 1)
    assert records.photo_at(connection, Path("/a/b.jpg")) == expected
    assert records.photos_by_id(connection, [number, 99]) == {number: expected}
    assert records.photos_of_content(connection, SHA) == [expected]
    assert records.thumbnail(connection, number) == b"jpeg"
    whole = records.whole_of(connection, number)
    assert whole is not None
    assert whole.tolist() == [0, 1, 2, 3]
    boxes, vectors = records.regions_of(connection, [number], 4)[number]
    assert (boxes.tolist(), vectors.tolist()) == ([[1, 2, 3, 4]], [[0.5] * 4])


def test_a_removed_photo_leaves_nothing_but_its_number(connection: sqlite3.Connection) -> None:
    number = add(connection, "/a/b.jpg")
    records.remove_photo(connection, number)
    for table in ("photos", "vectors", "regions", "thumbnails"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    assert connection.execute("SELECT photo FROM removed").fetchall() == [(number,)]


def test_an_interruption_between_the_rows_of_a_photo_undoes_them(
    connection: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupting:
        """Takes one photo's row, and no more."""

        in_transaction = True

        def execute(self, statement: str, *values: object) -> object:
            if statement.startswith("INSERT INTO vectors"):
                raise KeyboardInterrupt
            return connection.execute(statement, *values)

    connection.execute("BEGIN")
    with pytest.raises(KeyboardInterrupt):
        add(Interrupting(), "/a/b.jpg")  # type: ignore[arg-type]
    connection.execute("COMMIT")
    assert connection.execute("SELECT count(*) FROM photos").fetchone() == (0,)


def test_photos_below_a_folder_are_not_those_beside_it(connection: sqlite3.Connection) -> None:
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


def test_a_skipped_file_is_remembered_until_it_is_a_photo(connection: sqlite3.Connection) -> None:
    records.skip_file(connection, file("/a/b.jpg"), SHA, "bad")
    assert records.skipped_at(connection, Path("/a/b.jpg")) == records.SkippedFile(12, 34, SHA, "bad")
    assert records.skipped_below(connection, Path("/a")) == [Path("/a/b.jpg")]
    add(connection, "/a/b.jpg")
    assert records.skipped_at(connection, Path("/a/b.jpg")) is None


def test_a_camera_with_signs_of_sql_in_its_name_is_only_a_name(connection: sqlite3.Connection) -> None:
    number = add(connection, "/a/b.jpg", Taken(1, "100% '_' \"Cam\"; DROP TABLE photos"))
    add(connection, "/a/c.jpg", Taken(1, "1000 Cam"))
    assert records.ids_where(connection, Where(camera="0% '_'")).tolist() == [number]
    assert records.ids_where(connection, Where(camera="'")).tolist() == [number]


def test_more_photos_than_are_asked_for_at_once_are_read(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN")
    numbers = [add(connection, f"/a/{number}.jpg") for number in range(1100)]
    connection.execute("COMMIT")
    assert sorted(records.regions_of(connection, numbers, 4)) == numbers
