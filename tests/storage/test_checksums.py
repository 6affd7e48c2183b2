from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from add_checksums import add_checksums

from deixis.errors import DeixisError
from deixis.storage.artifacts import CONFIG, WEIGHTS, Artifact, read_artifact, write_artifact
from deixis.storage.checksums import (
    BLOCK,
    CheckedFile,
    FileChecks,
    check_tables,
    checked_views,
    find_damaged_rows,
    is_protected,
    protect_tables,
    refuse_foreign_code,
    register_checks,
    seal,
    unseal,
)
from tests.unchecked import without_checksums

DOCUMENT = {"version": 2, "name": "Žofie", "numbers": [1, 2.5], "none": None}


def test_a_sealed_document_is_json_and_is_read_as_it_was() -> None:
    assert unseal(seal(DOCUMENT)) == DOCUMENT
    assert json.loads(seal(DOCUMENT)).keys() == {*DOCUMENT, "checksum"}


def test_every_flipped_bit_of_a_sealed_document_is_noticed() -> None:
    content = seal(DOCUMENT)
    for position in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(ValueError, match=r"."):
            unseal(bytes(flipped))


def test_documents_of_older_versions_have_no_checksum() -> None:
    assert unseal(json.dumps({"version": 1, "name": "dog"}).encode()) == {"version": 1, "name": "dog"}


@pytest.fixture
def file(tmp_path: Path) -> CheckedFile:
    (tmp_path / "file").write_bytes(np.random.default_rng(0).bytes(3 * BLOCK + 100))
    return CheckedFile(tmp_path / "file", FileChecks.of(tmp_path / "file"))


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("position", [0, BLOCK - 1, BLOCK, 3 * BLOCK + 99])
def test_a_flipped_bit_anywhere_is_noticed(file: CheckedFile, position: int) -> None:
    flip(file.path, position)
    with pytest.raises(ValueError, match=f"{position // BLOCK * BLOCK:,}"):
        file.check()
    with pytest.raises(ValueError, match="checksum"):
        file.read()


def test_only_the_blocks_that_are_read_are_checked(file: CheckedFile) -> None:
    content = file.path.read_bytes()
    flip(file.path, BLOCK + 5)
    assert file.array(np.uint8, (BLOCK,), 0).tobytes() == content[:BLOCK]
    assert file.array(np.uint8, (9,), 2 * BLOCK + 1).tobytes() == content[2 * BLOCK + 1 : 2 * BLOCK + 10]
    with pytest.raises(ValueError, match="checksum"):
        file.array(np.uint8, (2,), BLOCK - 1)


def test_a_file_of_another_length_is_noticed(file: CheckedFile) -> None:
    with file.path.open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(ValueError, match="bytes instead of"):
        file.array(np.uint8, (1,), 0)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    part = Artifact("inner", {}, {"b": np.arange(4)})
    write_artifact(tmp_path / "saved", Artifact("outer", {"seed": 1}, {"a": np.arange(3.0)}, {"part": part}))
    return tmp_path / "saved"


@pytest.mark.parametrize("name", [WEIGHTS, f"part/{WEIGHTS}", CONFIG, f"part/{CONFIG}"])
def test_every_flipped_byte_of_a_saved_model_is_refused_with_the_name_of_the_file(saved: Path, name: str) -> None:
    sound = (saved / name).read_bytes()
    for position in range(len(sound)):
        flip(saved / name, position)
        with pytest.raises(DeixisError, match=name):
            _read_all(saved)
        (saved / name).write_bytes(sound)
    _read_all(saved)


def _read_all(folder: Path) -> None:
    artifact = read_artifact(folder)
    _ = artifact.arrays["a"], artifact.parts["part"].arrays["b"]


def test_weights_without_a_checksum_are_refused(saved: Path, tmp_path: Path) -> None:
    write_artifact(tmp_path / "empty", Artifact("outer", {}))
    (tmp_path / "empty" / WEIGHTS).write_bytes((saved / WEIGHTS).read_bytes())
    with pytest.raises(DeixisError, match=WEIGHTS):
        read_artifact(tmp_path / "empty")


def test_checksums_are_added_to_a_model_of_an_older_version(saved: Path) -> None:
    before = {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()}
    without_checksums(saved)
    flip(saved / WEIGHTS, -1)
    _read_all(saved)  # an older version notices nothing
    flip(saved / WEIGHTS, -1)
    add_checksums(saved)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("size", [0, 100, BLOCK, BLOCK + 1])
def test_the_checksums_of_a_file_that_grew_are_those_of_the_whole_file(tmp_path: Path, size: int) -> None:
    path, random = tmp_path / "file", np.random.default_rng(0)
    path.write_bytes(random.bytes(size))
    before = FileChecks.of(path)
    with path.open("ab") as stream:
        stream.write(random.bytes(BLOCK))
    after = before.after_append(path)
    assert (after.bytes, after.crc32) == (size + BLOCK, FileChecks.of(path).crc32)
    assert CheckedFile(path, before, may_grow=True).array(np.uint8, (size,), 0).size == size
    with pytest.raises(ValueError, match="bytes instead of"):
        CheckedFile(path, before).check()


TABLES = ("words", "pairs")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT, score REAL, code BLOB)")
        connection.execute("CREATE TABLE pairs (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID")
        connection.execute("INSERT INTO words (word) VALUES ('before')")
        assert not is_protected(connection)
        protect_tables(connection, TABLES)
        assert is_protected(connection)
        connection.executemany(
            "INSERT INTO words (word, score, code) VALUES (?, ?, ?)", [("dog", 1, b"\0"), ("cat", None, b"\xff")]
        )
        connection.execute("INSERT INTO pairs (key, value) VALUES ('a', 'b')")
        yield connection


def unnoticed(database: sqlite3.Connection, statement: str) -> None:
    """Change a table as damage would, without its triggers."""
    for table in TABLES:
        for event in ("insert", "update", "delete"):
            database.execute(f"DROP TRIGGER {table}_{event}_checksum")
    database.execute(statement)


def test_what_was_written_passes(database: sqlite3.Connection) -> None:
    database.execute("UPDATE words SET score = 2 WHERE word = 'dog'")
    database.execute(
        "INSERT INTO pairs (key, value) VALUES ('a', 'c') ON CONFLICT DO UPDATE SET value = excluded.value"
    )
    database.execute("DELETE FROM words WHERE word = 'cat'")
    check_tables(database, TABLES)


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE words SET word = 'dot' WHERE word = 'dog'",
        "UPDATE words SET word = 'x' WHERE word = 'before'",
        "UPDATE words SET id = 9 WHERE word = 'dog'",
        "UPDATE words SET score = 1.0000000000000002 WHERE word = 'dog'",
        "UPDATE words SET score = 0 WHERE word = 'cat'",
        "UPDATE words SET code = x'fe' WHERE word = 'cat'",
        "UPDATE words SET row_crc = row_crc + 1 WHERE word = 'cat'",
        "DELETE FROM words WHERE word = 'cat'",
        "INSERT INTO words (word) VALUES ('new')",
        "UPDATE pairs SET key = 'A'",
        "DELETE FROM pairs",
        "UPDATE totals SET number = number + 1",
        "UPDATE totals SET crc = crc + 1",
        "DELETE FROM totals",
    ],
)
def test_every_other_change_is_found(database: sqlite3.Connection, harm: str) -> None:
    unnoticed(database, harm)
    with pytest.raises(sqlite3.DatabaseError, match="checksum|missing"):
        check_tables(database, TABLES)


def test_reading_a_damaged_row_is_an_error_and_other_rows_can_be_read(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    unnoticed(database, "UPDATE words SET word = 'dot' WHERE word = 'dog'")
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as reader:
        checked_views(reader, TABLES)
        assert reader.execute("SELECT word, score FROM words WHERE id = 3").fetchall() == [("cat", None)]
        with pytest.raises(sqlite3.OperationalError):
            reader.execute("SELECT word FROM words WHERE id = 2").fetchall()
    assert len(list(find_damaged_rows(database, "words"))) == 1


def test_a_view_in_place_of_a_table_is_not_read(database: sqlite3.Connection) -> None:
    """One of a stranger's file had rows without end, and `deixis verify` wrote a line for each."""
    names = [name for _, name, *_ in database.execute("PRAGMA table_info(words)")]
    database.execute("ALTER TABLE words RENAME TO others")
    database.execute(
        "CREATE VIEW words AS WITH RECURSIVE rows (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM rows) "
        f"SELECT {', '.join(f'n AS {name}' for name in names)} FROM rows"
    )
    assert list(find_damaged_rows(database, "words")) == ["words is not a table"]


def test_the_triggers_of_checksums_are_not_foreign(database: sqlite3.Connection, tmp_path: Path) -> None:
    refuse_foreign_code(database, TABLES)
    database.execute("ALTER TABLE words ADD COLUMN more TEXT")
    protect_tables(database, TABLES)
    refuse_foreign_code(database, (*TABLES, "not there yet"))


SELECT = "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n)"
CODE = (
    f"CREATE TRIGGER foreign_code AFTER INSERT ON words BEGIN SELECT {SELECT}; END",
    f"CREATE TRIGGER words_update_checksum AFTER DELETE ON words BEGIN SELECT {SELECT}; END",
    f"CREATE VIEW foreign_code AS SELECT {SELECT} AS i",
    f"CREATE VIEW totals AS SELECT 'words' AS name, {SELECT} AS columns",
    "CREATE VIRTUAL TABLE foreign_code USING rtree(id, low, high)",
)


@pytest.mark.parametrize("code", CODE)
def test_triggers_views_and_virtual_tables_of_others_are_refused(database: sqlite3.Connection, code: str) -> None:
    name = code.split()[3 if "VIRTUAL" in code else 2]
    if name == "totals":
        database.execute("DROP TABLE totals")
    database.execute(f"DROP TRIGGER IF EXISTS {name}")
    database.execute(code)
    with pytest.raises(sqlite3.DatabaseError, match="deixis did not make '"):
        refuse_foreign_code(database, TABLES)


@pytest.mark.parametrize("columns", [f'"id", {SELECT}', f'"id", "{SELECT}"', '"id", "word'])
def test_a_list_of_columns_that_is_code_does_not_make_a_trigger_allowed(
    database: sqlite3.Connection, columns: str
) -> None:
    database.execute("UPDATE totals SET columns = ? WHERE name = 'words'", (columns,))
    for check in (refuse_foreign_code, checked_views, check_tables):
        with pytest.raises(sqlite3.DatabaseError, match="name other columns"):
            check(database, TABLES)


def test_columns_can_be_added_later(database: sqlite3.Connection) -> None:
    database.execute("ALTER TABLE words ADD COLUMN more TEXT")
    check_tables(database, TABLES)
    protect_tables(database, TABLES)
    unnoticed(database, "UPDATE words SET more = 'x' WHERE word = 'dog'")
    with pytest.raises(sqlite3.DatabaseError, match="checksum"):
        check_tables(database, TABLES)


def test_a_writer_without_the_function_is_refused(database: sqlite3.Connection, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as other:
        with pytest.raises(sqlite3.OperationalError, match="deixis_crc"):
            other.execute("INSERT INTO words (word) VALUES ('new')")
        register_checks(other)
        other.execute("INSERT INTO words (word) VALUES ('new')")
