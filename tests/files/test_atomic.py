"""Directories and files that appear whole or not at all, through kills and full disks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.files.atomic import new_directory, new_file


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_a_directory_appears_when_the_block_ends(tmp_path: Path) -> None:
    with new_directory(tmp_path / "made") as folder:
        (folder / "a").write_text("a")
        assert visible(tmp_path) == []
    assert visible(tmp_path) == ["made"]
    assert visible(tmp_path / "made") == ["a"]


def test_nothing_is_left_when_the_block_fails(tmp_path: Path) -> None:
    def fail() -> None:
        with new_directory(tmp_path / "made") as folder:
            (folder / "a").write_text("a")
            raise KeyboardInterrupt

    pytest.raises(KeyboardInterrupt, fail)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_never_replaced_unasked(tmp_path: Path) -> None:
    with new_directory(tmp_path / "made") as folder:
        (folder / "a").write_text("old")
    with pytest.raises(DeixisError, match="exists already"), new_directory(tmp_path / "made"):
        pass
    assert (tmp_path / "made" / "a").read_text() == "old"


def test_a_directory_of_the_users_is_never_replaced_even_when_asked(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "final.tex").write_text("years of work")
    with pytest.raises(DeixisError, match="not made by deixis"), new_directory(tmp_path / "thesis", replace=True):
        pass
    assert (tmp_path / "thesis" / "final.tex").read_text() == "years of work"


def test_the_old_directory_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    with new_directory(tmp_path / "made") as folder:
        (folder / "a").write_text("old")
    with pytest.raises(ZeroDivisionError), new_directory(tmp_path / "made", replace=True) as folder:
        (folder / "a").write_text("new")
        1 / 0  # noqa: B018
    assert (tmp_path / "made" / "a").read_text() == "old"
    with new_directory(tmp_path / "made", replace=True) as folder:
        (folder / "a").write_text("new")
    assert (tmp_path / "made" / "a").read_text() == "new"
    assert visible(tmp_path) == ["made"]


def test_an_old_directory_that_was_set_aside_when_the_process_died_comes_back(tmp_path: Path) -> None:
    with new_directory(tmp_path / "made") as folder:
        (folder / "a").write_text("old")
    (tmp_path / "made").rename(tmp_path / ".made.old")
    with pytest.raises(DeixisError, match="exists already"), new_directory(tmp_path / "made"):
        pass
    assert (tmp_path / "made" / "a").read_text() == "old"


WRITE_SLOWLY = """
import sys, time
from deixis.files.atomic import new_directory
with new_directory(sys.argv[1]) as folder:
    (folder / "a").write_text("a")
    print("begun", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def slow_writer(tmp_path: Path):  # type: ignore[no-untyped-def]
    command = [sys.executable, "-c", WRITE_SLOWLY, str(tmp_path / "made")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_process_is_refused(tmp_path: Path, slow_writer: subprocess.Popen[str]) -> None:
    with pytest.raises(DeixisError, match="another process is writing it"), new_directory(tmp_path / "made"):
        pass


def test_a_killed_process_leaves_nothing_in_the_way(tmp_path: Path, slow_writer: subprocess.Popen[str]) -> None:
    slow_writer.send_signal(signal.SIGKILL)
    slow_writer.wait()
    assert visible(tmp_path) == []
    with new_directory(tmp_path / "made") as folder:
        (folder / "a").write_text("b")
    assert (tmp_path / "made" / "a").read_text() == "b"
    assert not list(tmp_path.glob(".made.partial-*"))


@pytest.fixture
def small_disk(tmp_path: Path):  # type: ignore[no-untyped-def]
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("no right to mount a small file system here")
    yield folder
    time.sleep(0.05)
    subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_full_disk_is_one_clear_line_and_leaves_nothing(small_disk: Path) -> None:
    with pytest.raises(DeixisError, match="the disk is full"), new_directory(small_disk / "made") as folder:
        (folder / "a").write_bytes(b"x" * 100_000)
    assert visible(small_disk) == []
    with pytest.raises(DeixisError, match="the disk is full"), new_file(small_disk / "file") as unfinished:
        unfinished.write_bytes(b"x" * 100_000)
    assert visible(small_disk) == []


def test_a_file_keeps_its_old_content_when_the_block_fails(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(ZeroDivisionError), new_file(tmp_path / "a") as unfinished:
        unfinished.write_text("half")
        1 / 0  # noqa: B018
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_what_is_made_can_be_read_by_others_as_the_umask_says(tmp_path: Path) -> None:
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


def filled(path: Path, text: str, **options: object) -> None:
    with new_directory(path, **options) as folder:  # type: ignore[arg-type]
        (folder / "a").write_text(text)


@pytest.mark.parametrize("inside", ["", "a", "not/there/yet"])
def test_a_directory_that_is_or_holds_an_input_is_not_replaced(tmp_path: Path, inside: str) -> None:
    filled(tmp_path / "made", "old")
    inputs = [None, tmp_path / "elsewhere", tmp_path / "made" / inside]
    with pytest.raises(DeixisError, match="is being read from it"):
        filled(tmp_path / "made", "new", replace=True, inputs=inputs)
    assert (tmp_path / "made" / "a").read_text() == "old"
    filled(tmp_path / "made", "new", replace=True, inputs=inputs[:2])
    assert (tmp_path / "made" / "a").read_text() == "new"


def test_an_input_is_recognised_through_a_link(tmp_path: Path) -> None:
    filled(tmp_path / "made", "old")
    (tmp_path / "link").symlink_to(tmp_path / "made")
    with pytest.raises(DeixisError, match="is being read from it"):
        filled(tmp_path / "made", "new", replace=True, inputs=[tmp_path / "link" / "a"])
    with pytest.raises(DeixisError, match="is being read from it"):
        filled(tmp_path / "link", "new", replace=True, inputs=[tmp_path / "made" / "a"])
    assert (tmp_path / "made" / "a").read_text() == "old"


def test_a_link_is_replaced_itself_and_what_it_led_to_stays(tmp_path: Path) -> None:
    filled(tmp_path / "disk", "old")
    (tmp_path / "made").symlink_to(tmp_path / "disk")
    for text in ("new", "newer"):
        filled(tmp_path / "made", text, replace=True)
        assert (tmp_path / "made" / "a").read_text() == text
    assert not (tmp_path / "made").is_symlink()
    assert (tmp_path / "disk" / "a").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["disk", "made"]


def test_missing_parents_are_made_and_go_again_when_the_block_fails(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with pytest.raises(ZeroDivisionError), new_directory(tmp_path / "here" / "a" / "b" / "made"):
        1 / 0  # noqa: B018
    assert list((tmp_path / "here").iterdir()) == []
    filled(tmp_path / "here" / "a" / "b" / "made", "new")
    assert (tmp_path / "here" / "a" / "b" / "made" / "a").read_text() == "new"


def test_parents_that_were_there_stay_when_the_block_fails(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with pytest.raises(ZeroDivisionError), new_directory(tmp_path / "here" / "made"):
        1 / 0  # noqa: B018
    assert (tmp_path / "here").is_dir()


def test_the_root_is_no_place_for_a_directory() -> None:
    with pytest.raises(DeixisError, match="/: choose a directory below it"), new_directory("/", replace=True):
        pass
