"""Opening databases, and work that is done together."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select, text

from deixis.annotate.store import schema
from deixis.annotate.store.engine import Database
from deixis.errors import DeixisError


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = Database(f"sqlite:///{tmp_path / 'a.sqlite'}")
    made.make()
    return made


def add(key: str) -> object:
    return insert(schema.about).values(key=key, value="")


def keys(database: Database) -> set[str]:
    with database.reading() as connection:
        return set(connection.scalars(select(schema.about.c.key)))


def test_a_database_is_made_once_and_known_again(database: Database) -> None:
    database.check()
    with pytest.raises(DeixisError, match="there is a project in this database already"):
        database.make()


def test_a_database_of_somebody_else_and_of_another_version_are_one_clear_line(tmp_path: Path) -> None:
    other = Database(f"sqlite:///{tmp_path / 'b.sqlite'}")
    with pytest.raises(DeixisError, match="there is no annotation project"):
        other.check()
    other.make()
    with other.writing() as connection:
        connection.execute(text("UPDATE about SET value = '99' WHERE key = 'version'"))
    with pytest.raises(DeixisError, match="written for version 99 of the layout"):
        other.check()
    (tmp_path / "c.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(DeixisError, match="file is not a database"):
        Database(f"sqlite:///{tmp_path / 'c.sqlite'}").check()


@pytest.mark.parametrize("url", ["nonsense", "oracle9://x/y", "postgresql://nobody:secret@127.0.0.1:1/none"])
def test_an_address_that_cannot_be_used_is_one_line_without_the_password(url: str) -> None:
    with pytest.raises(DeixisError) as error:
        Database(url).check()
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_what_fails_leaves_no_trace_and_does_not_touch_what_is_done_together_with_it(database: Database) -> None:
    begin, results = threading.Barrier(5), {}

    def work(name: str) -> None:
        def do(connection: Connection) -> str:
            connection.execute(add(name))  # type: ignore[arg-type]
            time.sleep(0.01)
            if name == "bad":
                raise DeixisError("refused")
            return name

        begin.wait()
        try:
            results[name] = database.run(do)
        except DeixisError as error:
            results[name] = str(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b", "bad", "c", "d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {"a": "a", "b": "b", "bad": "refused", "c": "c", "d": "d"}
    assert keys(database) == {"format", "version", "a", "b", "c", "d"}


def test_a_failure_of_ours_reaches_the_one_who_asked_and_nothing_is_half_kept(database: Database) -> None:
    def do(connection: Connection) -> None:
        connection.execute(add("half"))  # type: ignore[arg-type]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        database.run(do)
    assert "half" not in keys(database)
    assert database.run(lambda connection: 7) == 7


def test_what_follows_is_told_only_after_the_commit(database: Database) -> None:
    seen = []

    def do(connection: Connection) -> str:
        connection.execute(add("new"))  # type: ignore[arg-type]
        seen.append("new" in keys(database))
        return "new"

    database.run(do, lambda key: seen.append(key in keys(database)))
    assert seen == [False, True]


def test_a_reader_sees_one_moment_and_keeps_no_writer_waiting(database: Database) -> None:
    with database.reading() as connection:
        before = set(connection.scalars(select(schema.about.c.key)))
        with database.writing() as other:
            other.execute(add("later"))  # type: ignore[arg-type]
        assert set(connection.scalars(select(schema.about.c.key))) == before
    assert "later" in keys(database)


def test_a_project_of_an_earlier_version_is_brought_up_to_date(database: Database) -> None:
    with database.writing() as connection:
        connection.execute(text("DROP TABLE sessions"))
        connection.execute(text("UPDATE about SET value = '1' WHERE key = 'version'"))
    database.check()
    with database.reading() as connection:
        assert connection.execute(select(schema.sessions)).all() == []
        kept = connection.scalar(select(schema.about.c.value).where(schema.about.c.key == "version"))
    assert kept == str(schema.VERSION)


def test_a_transaction_in_steps_is_kept_or_not_and_gives_the_turn_back(database: Database) -> None:
    for key, keep in (("kept", True), ("not", False)):
        transaction = database.begin()
        transaction.connection.execute(add(key))
        transaction.end(keep=keep)
    assert keys(database) - {"format", "version"} == {"kept"}
