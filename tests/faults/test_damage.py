"""Damaged files that can be computed again are repaired by the next run; `test_every_file` damages all others."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from deixis.annotate.project import make_project, open_project
from deixis.annotate.store import PROTECTED_TABLES
from deixis.storage.checksums import is_protected, register_checks
from tests.faults.conftest import SEED, FaultRunner, Scenario


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
