"""Database addresses, and database errors in words that say what to do."""

from __future__ import annotations

import errno
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from deixis.storage import sql
from deixis.storage.sql import explain_failed_read, explain_sql_error, hide_password, is_corruption, is_postgres


def error_of(path: Path, statement: str) -> sqlite3.Error:
    with pytest.raises(sqlite3.Error) as raised, closing(sqlite3.connect(path, timeout=0)) as connection:
        connection.execute(statement)
    return raised.value


def test_a_locked_file_is_reported_as_in_use(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        error = error_of(path, "CREATE TABLE a (b)")
    assert "another process" in (explain_sql_error(error) or "")
    assert not is_corruption(error)


def test_a_missing_folder_is_reported_as_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    assert "folder" in (explain_sql_error(error_of(tmp_path / "none" / "a.sqlite", "SELECT 1")) or "")


def test_bytes_that_are_not_a_database_are_damage(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").write_bytes(b"something else entirely " * 100)
    error = error_of(tmp_path / "a.sqlite", "SELECT * FROM a")
    assert is_corruption(error)
    assert explain_sql_error(error) is None


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE a (b)")
        connection.executemany("INSERT INTO a VALUES (?)", [(bytes(3000),)] * 20)
    return tmp_path / "a.sqlite"


def malformed() -> sqlite3.DatabaseError:
    """The error of SQLite for a damaged page, and for one that the disk did not give."""
    error = sqlite3.DatabaseError("database disk image is malformed")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


UNREAD = "*** in database main *** Page 5: unable to get the page. error code=8458"


@pytest.mark.parametrize("problem", [malformed(), UNREAD], ids=["error", "line"])
def test_a_read_that_failed_once_is_no_damage(database: Path, problem: object) -> None:
    assert "try again" in (explain_failed_read(problem, database) or "")
    assert explain_failed_read("a row does not match its checksum", database) is None


@pytest.mark.parametrize("problem", [malformed(), UNREAD], ids=["error", "line"])
def test_a_disk_that_fails_to_read_is_no_damage(
    database: Path, problem: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(sql, "open_regular", fail)
    assert "cannot be read (Input/output error)" in (explain_failed_read(problem, database) or "")


@pytest.mark.parametrize("problem", [malformed(), UNREAD], ids=["error", "line"])
def test_a_page_that_is_wrong_is_damage(database: Path, problem: object) -> None:
    content = bytearray(database.read_bytes())
    content[4096:8192] = b"\xff" * 4096
    database.write_bytes(content)
    assert explain_failed_read(problem, database) is None
    assert explain_failed_read(problem, database.with_name("none.sqlite")) is None


def test_a_closed_connection_is_reported_as_closed() -> None:
    connection = sqlite3.connect(":memory:")
    connection.close()
    with pytest.raises(sqlite3.Error) as raised:
        connection.execute("SELECT 1")
    assert "closed" in (explain_sql_error(raised.value) or "")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ada:se:cr@et@host/family",
        "postgresql+psycopg://ada:se:cr@et@host/family",
        "postgres://ada:se/cr@et@host:5432/family?sslpassword=cr@et&x=1",
        "postgresql://:cret",
        "host=db user=ada password=cr@et",
    ],
)
def test_no_part_of_a_password_is_printed(address: str) -> None:
    assert not any(part in hide_password(address) for part in ("se:", "se/", "cr", "et@"))


def test_folders_are_printed_as_they_are() -> None:
    assert hide_password("a@b:c/photos.deixis") == "a@b:c/photos.deixis"
    assert not is_postgres("postgresql/photos.deixis")
