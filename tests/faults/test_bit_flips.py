"""Flipped bits in the databases of an index and a project: the same answer or one clear line, never another number."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sqlalchemy import select

from deixis.annotate.people import Role, invite
from deixis.annotate.project import make_project, open_project
from deixis.annotate.store import PROTECTED_TABLES, metadata
from deixis.errors import DeixisError
from deixis.search.index import PhotoFilter, update_index
from tests.faults.conftest import assert_one_line, trials
from tests.search.index.fakes import DIMENSION, ColourEncoder, ReadIndex, photo


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flips")
    for number in range(12):
        path = photo(folder / "photos" / f"trip {number % 3}" / f"a{number}.jpg", 20 * number)
        exif = Image.Exif()
        exif[0x0110], exif[0x0132] = "Camera", f"2024:{number % 12 + 1:02}:01 10:00:00"
        Image.open(path).convert("RGB").save(path, exif=exif)
    (folder / "photos" / "broken.jpg").write_bytes(b"no photo")
    update_index(folder / "index", [folder / "photos"], ColourEncoder())
    shutil.rmtree(folder / "index" / "cache")  # so that the database is read
    return folder / "index"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.faults.scenarios import answer_all, new_project

    folder = tmp_path_factory.mktemp("flips") / "project"
    made = new_project(folder)
    workers = [invite(made, name, vouched=True, role=Role.WORKER)[0] for name in ("Ann", "Bob", "Cy", "Di")]
    answer_all(made, workers, lambda event: None)
    made.close()
    return folder


def read_index(folder: Path) -> Any:
    with ReadIndex(folder) as opened:
        found = opened.search(np.ones(DIMENSION), 100)
        filtered = opened.search(np.ones(DIMENSION), 100, photo_filter=PhotoFilter(after="2024-05", folder="trip 1"))
        with opened.snapshot() as snapshot:
            counted = snapshot.folders_and_months()
        about = [
            (each.path, each.width, each.height, each.exif, each.sha256, each.regions) for each in opened.newest(99)
        ]
        regions = [np.concatenate([part.ravel() for part in opened.regions_of(each.id)]).tolist() for each in found]
        thumbnails = [opened.thumbnail(each.id) for each in found]
        scores = [[(each.path, round(each.score, 4)) for each in some] for some in (found, filtered)]
        return scores, counted, about, regions, thumbnails, opened.info, len(opened)


def read_project(folder: Path) -> Any:
    opened = open_project(folder, checked=True)
    try:
        with opened.database.reading() as connection:
            tables = [table for table in metadata.sorted_tables if table.name in PROTECTED_TABLES]
            rows = [sorted(map(repr, connection.execute(select(table)))) for table in tables]
            states = [opened.snapshots.read(connection, f"dog{number}").state for number in range(3)]
        return rows, repr(states)
    finally:
        opened.close()


def flip(content: bytes, rng: random.Random) -> tuple[bytes, int]:
    offset = rng.randrange(len(content))
    return content[:offset] + bytes([content[offset] ^ (1 << rng.randrange(8))]) + content[offset + 1 :], offset


def check_flips(
    folder: Path, file: str, read: Callable[[Path], Any], rng: random.Random, copy: Path, flips: int
) -> int:
    """Flip bits one at a time; return how many were reported."""
    expected = read(folder)
    sound = (folder / file).read_bytes()
    reported = 0
    for _ in range(flips):
        damaged, offset = flip(sound, rng)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*-wal", "*-shm", "cache"))
        (copy / file).write_bytes(damaged)
        try:
            found = read(copy)
        except DeixisError as error:
            assert_one_line(str(error))
            assert str(copy) in str(error)
            reported += 1
        else:
            assert found == expected, f"another answer after a flip at byte {offset:,}"
    return reported


@trials(40, 150)
def test_of_an_index(index: Path, rng: random.Random, tmp_path: Path, trials: int) -> None:
    assert check_flips(index, "index.sqlite", read_index, rng, tmp_path / "copy", trials) > 0


@trials(40, 150)
def test_of_a_project(project: Path, rng: random.Random, tmp_path: Path, trials: int) -> None:
    assert check_flips(project, "annotations.sqlite", read_project, rng, tmp_path / "copy", trials) > 0


def test_a_project_without_checksums_gets_them_when_it_is_opened(tmp_path: Path) -> None:
    import sqlite3

    from deixis.storage.checksums import is_protected, register_checks

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


def test_the_server_of_a_damaged_project_ends_with_one_line(project: Path, tmp_path: Path) -> None:
    import sqlite3
    import subprocess
    import sys

    shutil.copytree(project, tmp_path / "project")
    with sqlite3.connect(tmp_path / "project" / "annotations.sqlite") as connection:
        connection.execute("DROP TRIGGER events_update_checksum")
        connection.execute("UPDATE events SET seconds = seconds + 1 WHERE number = 3")
    connection.close()
    command = [sys.executable, "-m", "deixis.cli.main", "annotate", "serve", str(tmp_path / "project"), "--no-open"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "events does not match its checksum" in done.stderr.splitlines()[-1]
