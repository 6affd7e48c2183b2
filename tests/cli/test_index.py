"""`deixis index`."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from deixis.cli.main import _run
from deixis.data.samples import SAMPLES
from deixis.search.index.sqlite import open_for_reading
from tests.conftest import Run

FEW = ("cat.jpg", "coffee.jpg", "dogs.jpg")


@pytest.fixture
def few(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    for name in FEW:
        shutil.copy(SAMPLES / "images" / name, tmp_path / "photos" / name)
    return tmp_path / "photos"


def indexed(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, object]:
    assert _run(["index", *map(str, arguments), "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_only_changes_are_indexed(few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    into = ("--into", tmp_path / "index")
    (few / "broken.jpg").write_bytes(b"no photo")
    first = indexed(capsys, few, *into)
    assert (first["added"], first["updated"], first["removed"], first["photos"]) == (3, 0, 0, 3)
    [skipped] = first["skipped"]  # type: ignore[misc]
    assert skipped["path"] == str(few / "broken.jpg")
    assert skipped["reason"] == "not a photo in a known format"
    (few / "dogs.jpg").unlink()
    shutil.copy(SAMPLES / "images" / "bee.jpg", few / "cat.jpg")
    second = indexed(capsys, few, *into)
    assert (second["added"], second["updated"], second["removed"], second["photos"]) == (0, 1, 1, 2)


def test_the_result_and_the_next_step_are_printed(
    few: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(few.parent)
    (few / "broken.jpg").write_bytes(b"no photo")
    assert _run(["index", "photos"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "photos.deixis: 3 photos (3 added, 1 skipped)\n"
    assert f"skipped {few / 'broken.jpg'}: not a photo in a known format" in printed.err
    assert 'next: deixis search "two dogs in the snow"' in printed.err
    assert _run(["index", "photos"]) == 0
    assert capsys.readouterr().out == "photos.deixis: 3 photos (1 skipped)\n"
    (few.parent / "none").mkdir()
    assert _run(["index", "none"]) == 2  # though the index has photos
    assert "no photos found" in capsys.readouterr().err


def test_user_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none").mkdir()
    for arguments, message in (
        (["nowhere"], "nowhere"),
        ([str(tmp_path / "none"), "--into", str(tmp_path / "index")], "no photos found"),
    ):
        assert _run(["index", *arguments]) == 2
        assert message in capsys.readouterr().err.splitlines()[-1]


def test_an_index_of_other_models_needs_rebuild(
    few: Path, tmp_path: Path, sample_index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import sqlite3

    shutil.copytree(sample_index, tmp_path / "index")
    with closing(sqlite3.connect(tmp_path / "index" / "index.sqlite")) as connection, connection:
        connection.execute("UPDATE about SET value = 'other' WHERE key = 'fingerprint'")
    assert _run(["index", str(few), "--into", str(tmp_path / "index")]) == 2
    assert "--rebuild" in capsys.readouterr().err.splitlines()[-1]
    assert indexed(capsys, few, "--into", tmp_path / "index", "--rebuild")["photos"] == 3


def test_help_lists_the_options(deixis: Run) -> None:
    shown = deixis("index", "--help")
    assert shown.returncode == 0
    assert "--rebuild" in shown.stdout


_CHILD = """
import sys
from pathlib import Path
from deixis.search.index import update_index
from deixis.search.collection import default_encoder
update_index(sys.argv[1], [sys.argv[2]], default_encoder(), on_committed=lambda path: print(path.name, flush=True))
"""
"""Does what `deixis index` does and prints each photo as soon as it is committed."""


@pytest.mark.slow
def test_killed_processes_neither_lose_nor_duplicate_photos(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two kills at random times; DEIXIS_KILLS=20 for more."""
    rng, photos, index = random.Random(0), tmp_path / "photos", tmp_path / "index"
    photos.mkdir()
    for number in range(4):
        for name in sorted(path.name for path in (SAMPLES / "images").glob("*.jpg")):
            data = (SAMPLES / "images" / name).read_bytes()
            (photos / f"{number} {name}").write_bytes(data + bytes([number]))  # other bytes, the same photo
    reported: set[str] = set()
    for _ in range(int(os.environ.get("DEIXIS_KILLS", "2"))):
        child = subprocess.Popen([sys.executable, "-c", _CHILD, index, photos], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        child.stdout.readline()  # the first photos are done
        time.sleep(rng.uniform(0, 2))
        child.send_signal(signal.SIGKILL)
        reported |= set(child.stdout.read().split("\n")) - {""}
        child.wait()
        with closing(open_for_reading(index)) as connection:
            names = [row[0].decode() for row in connection.execute("SELECT name FROM photos")]
        assert len(names) == len(set(names))
        assert reported <= set(names)
        if len(reported) > 42:
            shutil.rmtree(index)
            reported = set()
    report = indexed(capsys, photos, "--into", index)
    assert report["photos"] == 56
