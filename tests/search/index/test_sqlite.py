"""The database file of an index: creation, damage and settings."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.search.index import IndexInfo, update_index
from deixis.search.index import sqlite as database
from deixis.search.index.sqlite import connect_writer, create_database, open_for_reading
from deixis.storage.checksums import register_checks
from tests.search.index.fakes import DIMENSION, ColourEncoder, ReadIndex, photos

MODEL = IndexInfo("", "f", 4, 4)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    photos(tmp_path / "photos", 20)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder())
    with closing(sqlite3.connect(tmp_path / "index" / "index.sqlite")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return tmp_path / "index"


def overwrite_header(path: Path) -> None:
    path.write_bytes(b"this is no database" * 1000)


def overwrite_the_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[2 * 16384 :] = b"\xa5" * (len(content) - 2 * 16384)
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20000])


def shorten_a_vector(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE vectors SET whole = x'00' WHERE photo = 3")


def say_another_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        register_checks(connection)
        connection.execute("UPDATE about SET value = '99' WHERE key = 'version'")


HARMS = [overwrite_header, overwrite_the_middle, cut, shorten_a_vector, say_another_version]


@pytest.mark.parametrize("harm", HARMS)
def test_damage_is_an_error_and_a_rebuild_repairs_it(harm: Callable[[Path], None], index: Path, tmp_path: Path) -> None:
    for path in (index / "cache").iterdir():
        path.unlink()
    harm(index / "index.sqlite")
    with pytest.raises(DeixisError, match="--rebuild") as raised, ReadIndex(index) as opened:
        opened.search(np.ones(DIMENSION))
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith(str(index / "index.sqlite"))
    report = update_index(index, [tmp_path / "photos"], ColourEncoder(), rebuild=True)
    assert report.photos == 20
    with ReadIndex(index) as opened:
        assert len(opened.search(np.ones(DIMENSION), 50)) == 20


@pytest.mark.parametrize("harm", [overwrite_header, overwrite_the_middle, cut, say_another_version])
def test_a_writer_reports_damage_and_removes_nothing(harm: Callable[[Path], None], index: Path, tmp_path: Path) -> None:
    harm(index / "index.sqlite")
    before = (index / "index.sqlite").read_bytes()
    with pytest.raises(DeixisError, match="--rebuild"):
        update_index(index, [tmp_path / "photos"], ColourEncoder())
    assert (index / "index.sqlite").read_bytes() == before


def test_another_database_is_an_error(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "index.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE about (key, value)")
    with pytest.raises(DeixisError, match="index.sqlite: damaged"):
        open_for_reading(tmp_path)


def test_a_rebuild_does_not_replace_other_databases(tmp_path: Path) -> None:
    photos(tmp_path / "photos", 1)
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "index.sqlite").write_bytes(b"somebody's own" * 100)
    with pytest.raises(DeixisError, match="index.sqlite: not replaced"):
        update_index(tmp_path / "index", [tmp_path / "photos"], ColourEncoder(), rebuild=True)
    assert (tmp_path / "index" / "index.sqlite").read_bytes() == b"somebody's own" * 100


def test_an_interrupted_creation_leaves_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(database, "_write_info", stop)
    with pytest.raises(KeyboardInterrupt):
        create_database(tmp_path / "index", MODEL)
    assert [path.name for path in (tmp_path / "index").iterdir()] == [".deixis-index"]


def test_writers_use_durable_settings_and_readers_cannot_write(index: Path) -> None:
    with closing(connect_writer(index)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    with closing(open_for_reading(index)) as connection, pytest.raises(sqlite3.OperationalError):
        connection.execute("DELETE FROM photos")


def test_folder_names_with_special_characters_work(tmp_path: Path) -> None:
    folder = tmp_path / "50% of? my #photos ü"
    create_database(folder, MODEL)
    open_for_reading(folder).close()


def test_numbers_of_removed_photos_are_not_reused(index: Path, tmp_path: Path) -> None:
    (tmp_path / "photos" / "019.png").unlink()
    update_index(index, [tmp_path / "photos"], ColourEncoder())
    photos(tmp_path / "photos" / "again", 21)
    update_index(index, [tmp_path / "photos"], ColourEncoder())
    with closing(open_for_reading(index)) as connection:
        numbers = [number for (number,) in connection.execute("SELECT id FROM photos")]
    assert 20 not in numbers
    assert max(numbers) > 20


def test_a_description_that_is_nested_without_end_is_damage(index: Path) -> None:
    with closing(sqlite3.connect(index / "index.sqlite")) as connection:
        register_checks(connection)
        connection.execute("UPDATE about SET value = ? WHERE key = 'roots'", ("[" * 100_000,))
        connection.commit()
    with pytest.raises(DeixisError, match=r"damaged \(RecursionError"):
        open_for_reading(index)


def test_an_index_of_a_stranger_with_a_trigger_is_refused(index: Path, tmp_path: Path) -> None:
    """It ran when the index was brought up to date."""
    with closing(sqlite3.connect(index / "index.sqlite")) as connection:
        connection.execute("CREATE TRIGGER emptied AFTER UPDATE ON totals BEGIN DELETE FROM vectors; END")
    uses: list[Callable[[], object]] = [lambda: open_for_reading(index), lambda: connect_writer(index)]
    uses.append(lambda: update_index(index, [tmp_path / "photos"], ColourEncoder()))
    for use in uses:
        with pytest.raises(DeixisError, match="deixis did not make 'emptied'"):
            use()
