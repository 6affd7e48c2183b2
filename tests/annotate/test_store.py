"""Transactions on SQLite and PostgreSQL."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select, text

from deixis.annotate.store import AFTER_COMMIT, Database, messages, properties
from deixis.errors import DeixisError
from tests.annotate.fakes import add_property, property_keys


def test_tables_are_created_once(database: Database) -> None:
    database.check_version()
    with pytest.raises(DeixisError, match="a.sqlite"):
        database.create_tables()


def test_other_databases_and_other_versions_are_errors(tmp_path: Path) -> None:
    other = Database(f"sqlite:///{tmp_path / 'b.sqlite'}")
    with pytest.raises(DeixisError, match="sqlite|memory"):
        other.check_version()
    other.create_tables()
    with other.writing() as connection:
        connection.execute(text("UPDATE about SET value = '99' WHERE key = 'version'"))
    with pytest.raises(DeixisError, match="version 99"):
        other.check_version()
    (tmp_path / "c.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(DeixisError, match="c.sqlite"):
        Database(f"sqlite:///{tmp_path / 'c.sqlite'}").check_version()


@pytest.mark.parametrize(
    "url",
    [
        *("nonsense", "oracle9://x/y", "postgresql://nobody:secret@127.0.0.1:1/none"),
        *("nobody:my secret@127.0.0.1/none", "postgresql//nobody:secret@127.0.0.1/none", "oracle9://x:secret@y"),
    ],
)
def test_errors_about_an_address_do_not_contain_the_password(url: str) -> None:
    with pytest.raises(DeixisError) as error:
        Database(url).check_version()
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_number_that_sqlite_cannot_store_is_an_error_of_one_line(database: Database) -> None:
    def work(connection: Connection) -> None:
        connection.execute(insert(messages), {"attempts": 2**63})

    with pytest.raises(DeixisError, match="too large"):
        database.run(work)


def test_failed_work_is_rolled_back_without_affecting_work_of_other_threads(database: Database) -> None:
    begin, results = threading.Barrier(5), {}

    def work(name: str) -> None:
        def do(connection: Connection) -> str:
            add_property(name)(connection)
            time.sleep(0.01)
            if name == "bad":
                raise ZeroDivisionError
            return name

        begin.wait()
        try:
            results[name] = database.run(do)
        except ZeroDivisionError:
            results[name] = "failed"

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b", "bad", "c", "d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {"a": "a", "b": "b", "bad": "failed", "c": "c", "d": "d"}
    assert property_keys(database) == {"a", "b", "c", "d"}


def test_work_that_waits_for_the_commit_is_done_once_after_it(database: Database) -> None:
    committed = []

    def do(connection: Connection) -> str:
        add_property("new")(connection)
        committed.append("new" in property_keys(database))
        connection.info[AFTER_COMMIT].append(lambda: committed.append("new" in property_keys(database)))
        return "new"

    database.run(do)
    database.run(add_property("other"))
    assert committed == [False, True]


def test_a_reader_sees_one_state_and_does_not_block_writers(database: Database) -> None:
    with database.reading() as connection:
        before = set(connection.scalars(select(properties.c.key)))
        with database.writing() as other:
            add_property("later")(other)
        assert set(connection.scalars(select(properties.c.key))) == before
    assert "later" in property_keys(database)
