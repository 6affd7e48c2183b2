"""Transactions that are committed together."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select

from deixis.annotate.store import schema
from deixis.annotate.store.engine import Database
from deixis.errors import DeixisError
from deixis.server.annotate.writer import Writer


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = Database(f"sqlite:///{tmp_path / 'a.sqlite'}")
    made.make()
    return made


def add(key: str) -> object:
    def work(connection: Connection) -> str:
        connection.execute(insert(schema.about), {"key": key, "value": ""})
        return key

    return work


def keys(database: Database) -> set[str]:
    with database.reading() as connection:
        return set(connection.scalars(select(schema.about.c.key))) - {"format", "version"}


def run(database: Database, *works: object) -> list[object]:
    async def all_at_once() -> list[object]:
        writer = Writer(database)
        done = await asyncio.gather(*(writer.run(work) for work in works), return_exceptions=True)  # type: ignore[arg-type]
        await writer.close()
        return list(done)

    return asyncio.run(all_at_once())


def test_all_that_comes_at_once_is_kept(database: Database) -> None:
    names = [f"k{number}" for number in range(250)]
    assert run(database, *map(add, names)) == names
    assert keys(database) == set(names)


def test_what_fails_leaves_no_trace_and_the_others_stay(database: Database) -> None:
    def fails(connection: Connection) -> None:
        add("half")(connection)  # type: ignore[operator]
        raise DeixisError("no")

    def breaks(connection: Connection) -> None:
        add("one")(connection)  # type: ignore[operator]

    one, failed, broken, two = run(database, add("one"), fails, breaks, add("two"))
    assert (one, two) == ("one", "two")
    assert str(failed) == "no"
    assert isinstance(broken, DeixisError)
    assert keys(database) == {"one", "two"}


def test_nobody_is_told_that_it_is_kept_where_the_commit_failed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []

    def disk_full(self: Connection) -> None:
        raise OSError("no space left on device")

    async def tries() -> list[object]:
        writer = Writer(database)
        works = [writer.run(add(key), told.append) for key in ("a", "b")]  # type: ignore[arg-type]
        done = await asyncio.gather(*works, return_exceptions=True)
        await writer.close()
        return list(done)

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "commit", disk_full)
        done = asyncio.run(tries())
    assert [str(each) for each in done] == ["no space left on device"] * 2
    assert told == []
    assert keys(database) == set()
    assert run(database, add("later")) == ["later"], "the turn was given back"


def test_whoever_does_not_wait_any_more_is_kept_all_the_same(database: Database) -> None:
    async def leaves() -> None:
        writer = Writer(database)
        waiting = asyncio.create_task(writer.run(add("left")))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        waiting.cancel()
        await writer.close()

    asyncio.run(leaves())
    assert keys(database) == {"left"}
