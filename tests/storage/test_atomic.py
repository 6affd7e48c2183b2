"""Atomic directories and files; kills, two processes and full disks are in `tests/faults`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.storage.atomic import new_directory, new_file


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def write(path: Path, text: str, **options: object) -> None:
    with new_directory(path, **options) as folder:  # type: ignore[arg-type]
        (folder / "a").write_text(text)


def test_a_directory_appears_when_the_block_ends(tmp_path: Path) -> None:
    with new_directory(tmp_path / "made") as folder:
        (folder / "a").write_text("a")
        assert visible(tmp_path) == []
    assert visible(tmp_path) == ["made"]
    assert visible(tmp_path / "made") == ["a"]


def test_a_failed_block_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with new_directory(tmp_path / "made") as folder:
            (folder / "a").write_text("a")
            raise KeyboardInterrupt

    pytest.raises(KeyboardInterrupt, fail)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_directory_is_not_replaced_by_default(tmp_path: Path) -> None:
    write(tmp_path / "made", "old")
    with pytest.raises(DeixisError, match="made"):
        write(tmp_path / "made", "new")
    assert (tmp_path / "made" / "a").read_text() == "old"


def test_a_directory_that_deixis_did_not_create_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "final.tex").write_text("years of work")
    with pytest.raises(DeixisError, match="thesis"):
        write(tmp_path / "thesis", "new", replace=True)
    assert (tmp_path / "thesis" / "final.tex").read_text() == "years of work"


def test_the_old_directory_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    write(tmp_path / "made", "old")
    with pytest.raises(ZeroDivisionError), new_directory(tmp_path / "made", replace=True) as folder:
        (folder / "a").write_text("new")
        1 / 0  # noqa: B018
    assert (tmp_path / "made" / "a").read_text() == "old"
    write(tmp_path / "made", "new", replace=True)
    assert (tmp_path / "made" / "a").read_text() == "new"
    assert visible(tmp_path) == ["made"]


def test_an_old_directory_moved_away_by_a_killed_process_is_restored(tmp_path: Path) -> None:
    write(tmp_path / "made", "old")
    (tmp_path / "made").rename(tmp_path / ".made.old")
    with pytest.raises(DeixisError, match="made"):
        write(tmp_path / "made", "new")
    assert (tmp_path / "made" / "a").read_text() == "old"


def test_a_file_keeps_its_old_content_when_the_block_fails(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(ZeroDivisionError), new_file(tmp_path / "a") as unfinished:
        unfinished.write_text("half")
        1 / 0  # noqa: B018
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        with new_directory(tmp_path / "made"):
            pass
        with new_file(tmp_path / "file"):
            pass
    finally:
        os.umask(mask)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("inside", ["", "a", "not/there/yet"])
def test_a_directory_that_is_or_contains_an_input_is_not_replaced(tmp_path: Path, inside: str) -> None:
    write(tmp_path / "made", "old")
    inputs = [None, tmp_path / "elsewhere", tmp_path / "made" / inside]
    with pytest.raises(DeixisError, match="made"):
        write(tmp_path / "made", "new", replace=True, inputs=inputs)
    assert (tmp_path / "made" / "a").read_text() == "old"
    write(tmp_path / "made", "new", replace=True, inputs=inputs[:2])
    assert (tmp_path / "made" / "a").read_text() == "new"


def test_an_input_is_recognized_through_a_link(tmp_path: Path) -> None:
    write(tmp_path / "made", "old")
    (tmp_path / "link").symlink_to(tmp_path / "made")
    with pytest.raises(DeixisError, match="made"):
        write(tmp_path / "made", "new", replace=True, inputs=[tmp_path / "link" / "a"])
    with pytest.raises(DeixisError, match="made"):
        write(tmp_path / "link", "new", replace=True, inputs=[tmp_path / "made" / "a"])
    assert (tmp_path / "made" / "a").read_text() == "old"


def test_a_symbolic_link_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    write(tmp_path / "disk", "old")
    (tmp_path / "made").symlink_to(tmp_path / "disk")
    for text in ("new", "newer"):
        write(tmp_path / "made", text, replace=True)
        assert (tmp_path / "made" / "a").read_text() == text
    assert not (tmp_path / "made").is_symlink()
    assert (tmp_path / "disk" / "a").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["disk", "made"]


def test_missing_parents_are_created_and_removed_again_if_the_block_fails(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with pytest.raises(ZeroDivisionError), new_directory(tmp_path / "here" / "a" / "b" / "made"):
        1 / 0  # noqa: B018
    assert list((tmp_path / "here").iterdir()) == []
    write(tmp_path / "here" / "a" / "b" / "made", "new")
    assert (tmp_path / "here" / "a" / "b" / "made" / "a").read_text() == "new"


def test_the_root_folder_is_refused() -> None:
    with pytest.raises(DeixisError, match="^/: "), new_directory("/", replace=True):
        pass
