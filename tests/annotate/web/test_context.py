"""Transactions that are committed together."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select

from deixis.annotate import schema
from deixis.annotate.database import Database
from deixis.annotate.web.context import TransactionQueue
from deixis.errors import DeixisError


@pytest.fixture
def database(tmp_path: Path) -> Database:
    made = Database(f"sqlite:///{tmp_path / 'a.sqlite'}")
    made.create_tables()
    return made


def add(key: str) -> object:
    def work(connection: Connection) -> str:
        connection.execute(insert(schema.properties), {"key": key, "value": ""})
        return key

    return work


def keys(database: Database) -> set[str]:
    with database.reading() as connection:
        return set(connection.scalars(select(schema.properties.c.key))) - {"format", "version"}


def run(database: Database, *works: object) -> list[object]:
    async def all_at_once() -> list[object]:
        writer = TransactionQueue(database)
        done = await asyncio.gather(*(writer.run(work) for work in works), return_exceptions=True)  # type: ignore[arg-type]
        await writer.close()
        return list(done)

    return asyncio.run(all_at_once())


def test_concurrent_work_is_all_committed(database: Database) -> None:
    names = [f"k{number}" for number in range(250)]
    assert run(database, *map(add, names)) == names
    assert keys(database) == set(names)


def test_failed_work_is_rolled_back_and_other_work_is_committed(database: Database) -> None:
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


def test_a_failed_commit_is_reported_to_every_request(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    reported = []

    def disk_full(self: Connection) -> None:
        raise OSError("no space left on device")

    async def tries() -> list[object]:
        writer = TransactionQueue(database)
        works = [writer.run(add(key), reported.append) for key in ("a", "b")]  # type: ignore[arg-type]
        done = await asyncio.gather(*works, return_exceptions=True)
        await writer.close()
        return list(done)

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "commit", disk_full)
        done = asyncio.run(tries())
    assert [str(each) for each in done] == ["no space left on device"] * 2
    assert reported == []
    assert keys(database) == set()
    assert run(database, add("later")) == ["later"], "the turn was given back"


def test_work_of_a_disconnected_client_is_committed(database: Database) -> None:
    async def leaves() -> None:
        writer = TransactionQueue(database)
        waiting = asyncio.create_task(writer.run(add("left")))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        waiting.cancel()
        await writer.close()

    asyncio.run(leaves())
    assert keys(database) == {"left"}
