"""Damaged files that can be computed again are repaired by the next run; `test_every_file` damages all others."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from deixis.annotate import store
from deixis.annotate.project import find_damage as find_project_damage
from deixis.annotate.project import make_project, open_project
from deixis.annotate.store import PROTECTED_TABLES
from deixis.errors import DeixisError
from deixis.search.index import update, update_index
from deixis.search.index.photo_index import find_damage as find_index_damage
from deixis.storage.checksums import is_protected, register_checks
from tests.annotate.fakes import people
from tests.faults.conftest import SEED, FaultRunner, Scenario, assert_one_line, trials
from tests.faults.scenarios import SCENARIOS, answer_all, new_project
from tests.search.index.fakes import ColourEncoder, photos


def damage(content: bytes, how: str, rng: random.Random) -> bytes:
    offset = rng.randrange(len(content))
    if how == "bit":
        return content[:offset] + bytes([content[offset] ^ (1 << rng.randrange(8))]) + content[offset + 1 :]
    if how == "cut":
        return content[:offset]
    if how == "zeros":
        return content[:offset] + bytes(min(512, len(content) - offset)) + content[offset + 512 :]
    return content + rng.randbytes(64)


@pytest.mark.parametrize("how", ["bit", "cut", "zeros", "more"])
@pytest.mark.parametrize("scenario", ["extracting", "indexing"])
def test_the_next_run_repairs_files_that_can_be_computed_again(
    scenario: str, how: str, run: Scenario, runner: FaultRunner, rng: random.Random, tmp_path: Path
) -> None:
    runner.run(scenario, run.copy(tmp_path / "scenario"))  # here: an index has the paths of its photos
    inside = tmp_path / "scenario" / "out" / {"extracting": "store", "indexing": "index/cache"}[scenario]
    files = [path for path in inside.iterdir() if path.suffix in (".safetensors", ".bin") and path.stat().st_size]
    path = rng.choice(sorted(files, key=lambda each: each.stat().st_size))
    path.write_bytes(damage(path.read_bytes(), how, rng))
    assert runner.run(scenario, tmp_path / "scenario").error is None
    assert runner.inspect(scenario, tmp_path / "scenario").state == run.expected, f"seed {SEED}, {how} in {path.name}"


def test_a_project_without_checksums_gets_them_when_it_is_opened(tmp_path: Path) -> None:
    make_project(tmp_path / "project").close()
    path = tmp_path / "project" / "annotations.sqlite"
    with sqlite3.connect(path) as connection:
        register_checks(connection)
        for table in PROTECTED_TABLES:
            for event in ("insert", "update", "delete"):
                connection.execute(f"DROP TRIGGER {table}_{event}_checksum")
        connection.execute("DROP TABLE totals")
    connection.close()
    open_project(tmp_path / "project").close()
    with sqlite3.connect(path) as connection:
        assert is_protected(connection)
    connection.close()


@pytest.mark.parametrize("scenario", ["annotating"])
def test_the_server_of_a_damaged_project_ends_with_one_line(scenario: str, run: Scenario, tmp_path: Path) -> None:
    project = Path(shutil.copytree(run.complete / "out" / "project", tmp_path / "project"))
    with sqlite3.connect(project / "annotations.sqlite") as connection:
        connection.execute("DROP TRIGGER events_update_checksum")
        connection.execute("UPDATE events SET seconds = seconds + 1 WHERE number = 3")
    connection.close()
    command = [sys.executable, "-m", "deixis.cli.main", "annotate", "serve", str(project), "--no-open"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "events does not match its checksum" in done.stderr.splitlines()[-1]


def killed_index(folder: Path) -> None:
    """Copy the files of an index while a process has the last commit in its write-ahead log, as after a kill."""
    photos(folder / "in" / "photos", 12)
    index = folder / "open" / "index"

    def copy(path: Path) -> None:
        shutil.copytree(index, folder / "out" / "index", dirs_exist_ok=True)

    update_index(index, [folder / "in" / "photos"], ColourEncoder(), on_committed=copy)
    for path in (folder / "out" / "index").glob("*-shm"):
        path.unlink()


def killed_project(folder: Path) -> None:
    project = new_project(folder / "open" / "project")
    answer_all(project, people(project, "Ann", "Bob", "Cy", "Di"), lambda event: None)
    time.sleep(2 * store.RECORD_AFTER_S)
    shutil.copytree(folder / "open" / "project", folder / "out" / "project")
    project.close()
    (folder / "out" / "project" / "annotations.sqlite-shm").unlink(missing_ok=True)


LOGS: dict[str, tuple[Callable[[Path], None], str, Callable[[Path], Iterable[str]]]] = {
    "indexing": (killed_index, "index/index.sqlite", find_index_damage),
    "annotating": (killed_project, "project/annotations.sqlite", find_project_damage),
}


@trials(few=8, many=1000)
@pytest.mark.parametrize("scenario", LOGS)
def test_a_lost_tail_of_the_write_ahead_log_is_reported(
    scenario: str, trials: int, rng: random.Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update, "BATCH", 3)
    make, database, find_damage = LOGS[scenario]
    make(tmp_path)
    out, copy = tmp_path / "out", tmp_path / "copy"
    log = (out / f"{database}-wal").read_bytes()
    page = int.from_bytes(log[8:12], "big")
    shutil.copytree(out, copy / "out")
    expected = SCENARIOS[scenario].inspect(copy)
    assert list(find_damage((copy / "out" / database).parent)) == []
    frames = range(32, len(log), page + 24)
    salt = log[16:24]
    live = [at for at in frames if log[at + 8 : at + 16] == salt]  # others are left from before a checkpoint
    last = max(at for at in live if any(log[at + 4 : at + 8]))  # the last frame of a commit
    assert len(live) > 10
    for at in sorted(rng.sample([0, *frames], min(trials, len(frames) + 1))):
        end = at + page + 24 if at else 32
        place = rng.randrange(at, end)
        shutil.rmtree(copy)
        shutil.copytree(out, copy / "out")
        flipped = log[:place] + bytes([log[place] ^ (1 << rng.randrange(8))]) + log[place + 1 :]
        (copy / "out" / f"{database}-wal").write_bytes(flipped)
        try:
            assert SCENARIOS[scenario].inspect(copy) == expected, f"seed {SEED}: a flip at {place} loses commits"
            assert at > last or at not in live, f"seed {SEED}: a flip at {place} was not noticed"
        except DeixisError as error:
            assert_one_line(str(error))
            assert str(copy / "out" / database) in str(error)
            assert list(find_damage((copy / "out" / database).parent)) == [str(error)]


def test_indexing_again_repairs_a_lost_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "BATCH", 3)
    killed_index(tmp_path)
    index = tmp_path / "out" / "index"
    (index / "index.sqlite-wal").unlink()
    assert "0 instead of 12 photos" in next(iter(find_index_damage(index)))
    assert update_index(index, [tmp_path / "in" / "photos"], ColourEncoder()).added == 12
    assert list(find_index_damage(index)) == []
