"""Finding photo files: every one once, nothing else, and never round in circles."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deixis.errors import DeixisError, PhotoError
from deixis.index.walking import FoundFile, starting_points, walk


def fill(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def found(*points: Path) -> list[str]:
    return [each.path.name for each in walk(points) if isinstance(each, FoundFile)]


def refused(*points: Path) -> dict[str, str]:
    return {Path(each.path).name: each.reason for each in walk(points) if isinstance(each, PhotoError)}


def test_photos_are_found_at_any_depth_in_order_and_other_files_are_not(tmp_path: Path) -> None:
    fill(tmp_path, "b.JPG", "a.png", "notes.txt", "deep/er/c.heic", ".hidden.jpg", ".trash/d.jpg")
    assert found(tmp_path) == ["a.png", "b.JPG", "c.heic"]


def test_a_file_that_is_named_is_taken_whatever_its_ending(tmp_path: Path) -> None:
    fill(tmp_path, "photo.dat")
    assert found(tmp_path / "photo.dat") == ["photo.dat"]


def test_links_that_go_round_in_circles_end(tmp_path: Path) -> None:
    fill(tmp_path, "a/one.jpg")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "a" / "self.jpg").symlink_to(tmp_path / "a" / "self.jpg")
    (tmp_path / "a" / "nowhere.jpg").symlink_to(tmp_path / "nothing")
    (tmp_path / "a" / "folder.jpg").symlink_to(tmp_path)
    assert found(tmp_path) == ["one.jpg"]
    assert sorted(refused(tmp_path)) == ["nowhere.jpg", "self.jpg"]


def test_empty_files_and_pipes_are_told(tmp_path: Path) -> None:
    (tmp_path / "empty.jpg").touch()
    os.mkfifo(tmp_path / "pipe.jpg")
    assert refused(tmp_path) == {"empty.jpg": "an empty file", "pipe.jpg": "not a file"}


def test_a_folder_that_is_an_index_is_passed_by(tmp_path: Path) -> None:
    fill(tmp_path, "one.jpg", "photos.deixis/.deixis-index", "photos.deixis/two.jpg")
    assert found(tmp_path) == ["one.jpg"]


def test_a_folder_that_vanishes_is_told_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "a/one.jpg", "b/two.jpg")
    scan = os.scandir

    def failing(path: Path) -> object:
        if path.name == "a":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", failing)
    assert found(tmp_path) == ["two.jpg"]
    assert refused(tmp_path) == {"a": "cannot be read (Permission denied)"}


def test_folders_of_great_depth_are_walked(tmp_path: Path) -> None:
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


def test_places_within_places_count_once(tmp_path: Path) -> None:
    fill(tmp_path, "a/b/one.jpg", "a2/two.jpg")
    points = starting_points([tmp_path / "a" / "b", tmp_path / "a", tmp_path / "a" / "b" / "one.jpg", tmp_path / "a2"])
    assert points == [tmp_path / "a", tmp_path / "a2"]


def test_a_place_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match=r"nowhere: no such file or folder$"):
        starting_points([tmp_path / "nowhere"])


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "photos", tmp_path / "secret.jpg"
    (inside / "below").mkdir(parents=True)
    outside.write_bytes(b"x")
    (inside / "mine.jpg").write_bytes(b"x")
    (inside / "below" / "again.jpg").symlink_to(inside / "mine.jpg")
    (inside / "away.jpg").symlink_to(outside)
    found = list(walk([inside]))
    assert {each.path.name for each in found if isinstance(each, FoundFile)} == {"mine.jpg", "again.jpg"}
    [refused] = [each for each in found if isinstance(each, PhotoError)]
    assert (refused.path, refused.reason) == (str(inside / "away.jpg"), f"a link that leads out of {inside}")
