"""Hits for other programs."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.tasks.search.exporting import write_csv, write_links
from deixis.tasks.search.hits import Hit, KnownPhoto


def hits(folder: Path) -> list[Hit]:
    for name in ("a, b.jpg", "c.jpg"):
        (folder / name).write_bytes(name.encode())
    copy = Hit(KnownPhoto("3", folder / "c.jpg", (4, 3)), 0.5, 0.5)
    first = KnownPhoto("1", folder / "a, b.jpg", (4, 3), "2024-06-01T12:30:00", "Canon EOS")
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


def test_links_lead_to_the_photos_in_their_order(tmp_path: Path) -> None:
    assert write_links(tmp_path / "links", hits(tmp_path)) == 3
    links = sorted((tmp_path / "links").iterdir())
    assert [link.name for link in links] == ["1 a, b.jpg", "2 c.jpg", "3 c.jpg"]
    assert links[0].read_bytes() == b"a, b.jpg"


def test_photos_that_are_gone_have_no_links_and_rows_that_say_so(tmp_path: Path) -> None:
    found = hits(tmp_path)
    (tmp_path / "a, b.jpg").unlink()
    assert write_links(tmp_path / "links", found) == 2
    assert all(link.exists() for link in (tmp_path / "links").iterdir())
    write_csv(tmp_path / "hits.csv", found)
    with (tmp_path / "hits.csv").open(newline="", encoding="utf-8") as file:
        assert [row["gone"] for row in csv.DictReader(file)] == ["yes", "", ""]


def test_a_table_that_cannot_be_written_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("nowhere/hits.csv", "folder"):
        with pytest.raises(DeixisError, match=name) as error:
            write_csv(tmp_path / name, hits(tmp_path))
        assert "partial" not in str(error.value)
    assert not list(tmp_path.glob(".*"))


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="not an empty folder"):
        write_links(tmp_path, hits(tmp_path))
