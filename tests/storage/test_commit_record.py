"""A record is compared with its own database only; lost commits are in `tests/faults/test_damage.py`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from deixis.storage.checksums import TOTALS, protect_tables
from deixis.storage.commit_record import RECORD_ENDING, count_commit, find_lost_commits, start_counting, write_record


def create(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE dogs (name TEXT)")
    protect_tables(connection, ["dogs"])
    start_counting(connection)
    return connection


def add(connection: sqlite3.Connection, path: Path, *, recorded: bool = True) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO dogs (name) VALUES ('Rex')")
    expected = count_commit(connection)
    connection.execute("COMMIT")
    if recorded:
        write_record(path, expected)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dogs.sqlite"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(create(path)) as opened:
        add(opened, path)
        yield opened


def record_of(path: Path) -> Path:
    return path.with_name(path.name + RECORD_ENDING)


def older(connection: sqlite3.Connection) -> None:
    connection.execute(f"DELETE FROM {TOTALS} WHERE name = 'commits'")


SOUND: dict[str, Callable[[Path, sqlite3.Connection], object]] = {
    "killed before the record": lambda path, connection: add(connection, path, recorded=False),
    "no record": lambda path, connection: record_of(path).unlink(),
    "an empty record": lambda path, connection: record_of(path).write_bytes(b""),
    "written by an older version": lambda path, connection: older(connection),
    "a record of another database": lambda path, connection: (older(connection), start_counting(connection)),
    "counted twice": lambda path, connection: start_counting(connection),
}


@pytest.mark.parametrize("case", SOUND)
def test_no_false_damage(case: str, path: Path, connection: sqlite3.Connection) -> None:
    SOUND[case](path, connection)
    assert find_lost_commits(path, connection) is None


def test_lost_commits_are_counted(path: Path, connection: sqlite3.Connection) -> None:
    connection.execute(f"UPDATE {TOTALS} SET number = number - 1")
    lost = find_lost_commits(path, connection)
    assert lost == f"{path}: damaged (the last 1 commits are lost, 0 instead of 1 dogs)"


@pytest.mark.parametrize("content", [b"{", b"[]", b"1", b'{"version": 2}', b"\0" * 200, b'{"database": "a"}'])
def test_a_damaged_record_is_named(content: bytes, path: Path, connection: sqlite3.Connection) -> None:
    record_of(path).write_bytes(content)
    assert str(find_lost_commits(path, connection)).startswith(f"{record_of(path)}: damaged")


def test_a_record_that_cannot_be_written_lags(path: Path, connection: sqlite3.Connection) -> None:
    record_of(path).unlink()
    record_of(path).mkdir()
    add(connection, path)
    assert [each.name for each in path.parent.iterdir() if "partial" in each.name] == []
