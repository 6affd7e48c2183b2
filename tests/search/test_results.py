"""Search results as JSON, CSV and links."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.search.results import Hit, HitPhrase, PhotoRecord, format_time, write_csv, write_links


def hits(folder: Path) -> list[Hit]:
    for name in ("a, b.jpg", "c.jpg"):
        (folder / name).write_bytes(name.encode())
    copy = Hit(PhotoRecord("3", folder / "c.jpg", (4, 3)), 0.5, 0.5)
    first = PhotoRecord("1", folder / "a, b.jpg", (4, 3), "2024-06-01T12:30:00", "Canon EOS")
    return [Hit(first, 2.0, 0.9, duplicates=(copy,)), Hit(copy.photo, 0.5, None)]


def test_a_table_has_a_row_for_each_photo(tmp_path: Path) -> None:
    write_csv(tmp_path / "hits.csv", hits(tmp_path))
    with (tmp_path / "hits.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["rank"], Path(row["path"]).name, row["probability"]) for row in rows] == [
        ("1", "a, b.jpg", "0.9000"),
        ("1", "c.jpg", "0.5000"),
        ("2", "c.jpg", ""),
    ]
    assert rows[0]["taken"] == "2024-06-01T12:30:00"
    assert rows[1]["duplicate_of"] == str(tmp_path / "a, b.jpg")


def test_links_are_named_in_the_order_of_the_results(tmp_path: Path) -> None:
    assert write_links(tmp_path / "links", hits(tmp_path)) == 3
    links = sorted((tmp_path / "links").iterdir())
    assert [link.name for link in links] == ["1 a, b.jpg", "2 c.jpg", "3 c.jpg"]
    assert links[0].read_bytes() == b"a, b.jpg"


def test_missing_photos_have_no_links_and_marked_rows(tmp_path: Path) -> None:
    found = hits(tmp_path)
    (tmp_path / "a, b.jpg").unlink()
    assert write_links(tmp_path / "links", found) == 2
    assert all(link.exists() for link in (tmp_path / "links").iterdir())
    write_csv(tmp_path / "hits.csv", found)
    with (tmp_path / "hits.csv").open(newline="", encoding="utf-8") as file:
        assert [row["gone"] for row in csv.DictReader(file)] == ["yes", "", ""]


def test_a_table_that_cannot_be_written_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("nowhere/hits.csv", "folder"):
        with pytest.raises(DeixisError, match=name) as error:
            write_csv(tmp_path / name, hits(tmp_path))
        assert "partial" not in str(error.value)
    assert not list(tmp_path.glob(".*"))


def test_links_need_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match=re.escape(str(tmp_path))):
        write_links(tmp_path, hits(tmp_path))


def test_json_has_the_documented_keys() -> None:
    phrase = HitPhrase("a dog", (0, 5), (1.04, 2.0, 30.0, 40.0), 0.91234)
    other = Hit(PhotoRecord("2", Path("copy.jpg"), (64, 48)), 1.0, 0.7)
    hit = Hit(PhotoRecord("1", Path("dog.jpg"), (64, 48)), 1.23456, 0.77777, (phrase,), (other,))
    assert hit.as_json() == {
        "path": "dog.jpg",
        "score": 1.2346,
        "probability": 0.7778,
        "phrases": [
            {
                "text": "a dog",
                "span": [0, 5],
                "box": [1.0, 2.0, 30.0, 40.0],
                "boxes": [[1.0, 2.0, 30.0, 40.0]],
                "score": 0.9123,
                "absent": False,
                "guess": False,
            }
        ],
        "duplicates": ["copy.jpg"],
        "taken": None,
        "date_source": None,
    }
    assert Hit(hit.photo, 0.5).as_json()["probability"] is None


def test_times_are_formatted_by_the_camera_clock() -> None:
    assert format_time(0) == "1970-01-01T00:00:00"
    assert format_time(None) is None
