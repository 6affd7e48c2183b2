"""`deixis index`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deixis.data.samples import SAMPLES
from deixis.search.index.update import remembered_roots
from tests.cli.conftest import Command


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three photos and a broken file, in ./photos."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    for name in ("cat.jpg", "coffee.jpg", "dogs.jpg"):
        shutil.copy(SAMPLES / "images" / name, tmp_path / "photos")
    (tmp_path / "photos" / "broken.jpg").write_bytes(b"no photo")
    return tmp_path / "photos"


def test_only_changes_are_indexed(few: Path, command: Command) -> None:
    def counts() -> tuple[int, ...]:
        found = command.json("index", few, "--into", "index")
        assert found["skipped"] == [{"path": str(few / "broken.jpg"), "reason": "not a photo in a known format"}]
        return tuple(found[name] for name in ("added", "updated", "removed", "photos"))

    assert counts() == (3, 0, 0, 3)
    (few / "dogs.jpg").unlink()
    shutil.copy(SAMPLES / "images" / "bee.jpg", few / "cat.jpg")
    assert counts() == (0, 1, 1, 2)


def test_a_watched_folder_is_updated_when_it_changes(
    few: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changes(roots: list[Path], exclude: list[str]) -> Iterator[None]:
        assert roots == [few]
        shutil.copy(SAMPLES / "images" / "bee.jpg", few)
        yield

    monkeypatch.setattr("deixis.search.index.update.wait_for_changes", changes)
    out, _ = command("index", few, "--into", "mine", "--watch")
    assert out.splitlines() == ["mine: 3 photos (3 added, 1 skipped)", "mine: 4 photos (1 added, 1 skipped)"]


def test_the_result_and_the_next_step_are_printed(few: Path, command: Command) -> None:
    out, err = command("index", "photos", "--into", "mine")
    assert out == "mine: 3 photos (3 added, 1 skipped)\n"
    assert f"skipped: {few / 'broken.jpg'}: not a photo in a known format" in err
    assert 'next: deixis search "two dogs in the snow" --index mine' in err
    assert command("index", "photos", "--into", "mine")[0] == "mine: 3 photos (nothing new, 1 skipped)\n"
    Path("none").mkdir()
    assert "no photos found" in command.error("index", "none", "--into", "mine")  # though the index has photos
    assert "nowhere" in command.error("index", "nowhere")


def test_the_index_of_the_user_is_found_from_every_directory(
    few: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert "no photo index yet; run: deixis index FOLDER" in command.error("search", "a cat")
    assert command.json("index", "--list")[0]["photos"] is None
    _, err = command("index", few)
    assert err.endswith('next: deixis search "two dogs in the snow"\n')
    command("index", few / "cat.jpg", "--into", "@cats")
    monkeypatch.chdir(few)
    assert command("search", "a cat", "--paths", "--all", "--top", 1)[0] == f"{few / 'cat.jpg'}\n"
    assert len(command.json("search", "a cat", "--index", "@cats", "--all")["hits"]) == 1
    default, cats = command.json("index", "--list")
    assert (default["name"], default["photos"], default["default"]) == ("photos", 3, True)
    assert (cats["name"], cats["photos"], cats["default"]) == ("cats", 1, False)


def test_what_is_left_out_is_counted_and_an_index_can_be_removed(few: Path, command: Command) -> None:
    (few / "notes.txt").write_text("no photo")
    (few / "Trash").mkdir()
    _, err = command("index", few, "--into", "index", "--exclude", "dogs*")
    assert "ignored: 1 system folder, 1 excluded, 1 other file" in err
    assert command.json("index", few, "--into", "index")["photos"] == 2
    assert command.json("index", "--remove", few / "cat.jpg", "--into", "index")["removed"] == 1
    assert "has no photos in" in command.error("index", "--remove", few / "cat.jpg", "--into", "index")
    out, _ = command("index", "--remove", "--into", "index")
    assert out == "index: removed the index of 1 photo; no photo was deleted\n"
    assert not Path("index").exists()
    assert "no photo index yet" in command.error("index", "--remove", "--into", "index")
    assert (few / "cat.jpg").exists()


def test_an_index_is_updated_without_naming_its_folders(few: Path, command: Command) -> None:
    assert "give folders" in command.error("index", "--into", "index")
    command("index", few, "--into", "index")
    out, err = command("index", "--into", "index")
    assert f"updating {few}" in err
    assert out == "index: 3 photos (nothing new, 1 skipped)\n"
    shutil.copy(few / "cat.jpg", few / "dogs 2.jpg")
    assert command.json("index", "--into", "index")["added"] == 1
    _, err = command("index", "--remove", few / "cat.jpg", "--into", "index")
    assert "--exclude" in err
    assert command.json("index", "--into", "index")["added"] == 1
    _, err = command("index", "--remove", few, "--into", "index")
    assert "--exclude" not in err
    assert "give folders" in command.error("index", "--into", "index")


def test_links_that_are_not_followed_are_named(few: Path, tmp_path: Path, command: Command) -> None:
    (few / "other disk").symlink_to(tmp_path)
    (few / "gone.jpg").symlink_to(few / "nothing.jpg")
    found = command.json("index", few, "--into", "index")
    assert found["ignored"] == {"links to folders": 1}
    assert "a link to a file that does not exist" in [skipped["reason"] for skipped in found["skipped"]]
    assert "1 link to a folder (name" in command("index", few, "--into", "index")[1]


def test_files_that_are_no_photos_are_refused_and_never_remembered(few: Path, command: Command) -> None:
    notes = few / "notes.txt"
    notes.write_text("no photo")
    for file in (notes, few / "broken.jpg"):
        assert f"{file}: not a photo" in command.error("index", file, "--into", "index")
    assert not Path("index").exists()
    assert command.json("index", *few.iterdir(), "--into", "index")["photos"] == 3
    assert sorted(remembered_roots("index")) == sorted(few / f"{name}.jpg" for name in ("cat", "coffee", "dogs"))
    assert command.json("index", "--into", "index")["unchanged"] == 3
