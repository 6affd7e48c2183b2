"""SQLite's errors in words that say what to do."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from deixis.files.sqlite import is_damage, reason_of


def error_of(path: Path, statement: str, **options: object) -> sqlite3.Error:
    try:
        with closing(sqlite3.connect(path, timeout=0, **options)) as connection:  # type: ignore[call-overload]
            connection.execute(statement)
    except sqlite3.Error as error:
        return error
    raise AssertionError("it worked")


def test_a_file_in_use_is_to_be_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        error = error_of(path, "CREATE TABLE a (b)")
    assert reason_of(error) == "another process is writing it; wait until it is done"
    assert not is_damage(error)


def test_a_folder_that_is_not_there_is_asked_about(tmp_path: Path) -> None:
    reason = reason_of(error_of(tmp_path / "none" / "a.sqlite", "SELECT 1"))
    assert reason is not None
    assert reason.endswith("are the file and its folder there, and writable?")


def test_bytes_that_are_no_database_are_damage(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").write_bytes(b"something else entirely " * 100)
    error = error_of(tmp_path / "a.sqlite", "SELECT * FROM a")
    assert is_damage(error)
    assert reason_of(error) is None


def test_a_connection_that_was_closed_is_told() -> None:
    connection = sqlite3.connect(":memory:")
    connection.close()
    try:
        connection.execute("SELECT 1")
    except sqlite3.Error as error:
        assert reason_of(error) == "was closed; open it again"
