"""Transactions that are committed together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection

from deixis.annotate.store import AFTER_COMMIT, Database
from deixis.annotate.web.context import TransactionQueue, WorkTime
from deixis.errors import DeixisError, UnavailableError
from tests.annotate.fakes import add_property, property_keys


def run(database: Database, *works: Callable[[Connection], Any]) -> list[object]:
    async def all_at_once() -> list[object]:
        writer = TransactionQueue(database)
        done = await asyncio.gather(*(writer.run(work) for work in works), return_exceptions=True)
        await writer.close()
        return list(done)

    return asyncio.run(all_at_once())


def test_concurrent_work_is_all_committed(database: Database) -> None:
    names = [f"k{number}" for number in range(250)]
    assert run(database, *map(add_property, names)) == names
    assert property_keys(database) == set(names)


def test_failed_work_is_rolled_back_and_other_work_is_committed(database: Database) -> None:
    def fails(connection: Connection) -> None:
        add_property("half")(connection)
        connection.info[AFTER_COMMIT].append(lambda: pytest.fail("was rolled back"))
        raise DeixisError("no")

    def breaks(connection: Connection) -> None:
        add_property("one")(connection)

    one, failed, broken, two = run(database, add_property("one"), fails, breaks, add_property("two"))
    assert (one, two) == ("one", "two")
    assert str(failed) == "no"
    assert isinstance(broken, DeixisError)
    assert property_keys(database) == {"one", "two"}


def test_a_failed_commit_is_reported_to_every_request(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[str] = []

    def reporting(key: str) -> Callable[[Connection], str]:
        def work(connection: Connection) -> str:
            connection.info[AFTER_COMMIT].append(lambda: reported.append(key))
            return add_property(key)(connection)

        return work

    def disk_full(connection: object) -> None:
        raise OSError("no space left on device")

    async def write() -> list[object]:
        writer = TransactionQueue(database)
        works = [writer.run(reporting(key)) for key in ("a", "b")]
        done = await asyncio.gather(*works, return_exceptions=True)
        await writer.close()
        return list(done)

    with monkeypatch.context() as patched:
        patched.setattr(database.engine.dialect, "do_commit", disk_full)
        done = asyncio.run(write())
    assert [str(each) for each in done] == ["no space left on device"] * 2
    assert reported == []
    assert property_keys(database) == set()
    assert run(database, add_property("later")) == ["later"], "the lock was released"


def test_of_a_transaction_that_breaks_nothing_is_committed(database: Database) -> None:
    def breaks(connection: Connection) -> None:
        connection.exec_driver_sql("RELEASE work")  # as if the database had rolled the whole transaction back

    done = run(database, add_property("one"), breaks, add_property("two"))
    assert [type(each) for each in done[:2]] == [UnavailableError] * 2
    assert property_keys(database) == {each for each in done if isinstance(each, str)}
    assert run(database, add_property("later")) == ["later"], "the lock was released"


def test_work_of_a_disconnected_client_is_committed(database: Database) -> None:
    async def disconnect() -> None:
        writer = TransactionQueue(database)
        waiting = asyncio.create_task(writer.run(add_property("left")))
        await asyncio.sleep(0)
        waiting.cancel()
        await writer.close()

    asyncio.run(disconnect())
    assert property_keys(database) == {"left"}


def test_seconds_are_bounded_by_the_clock_of_the_server() -> None:
    now = 1000.0
    work_time = WorkTime(clock=lambda: now)
    first, second = now, now  # both were fetched ahead
    now += 100
    assert work_time.bound("ann")(first, 40.0) == 40.0
    work_time.add("ann", 40.0)
    assert work_time.bound("ann")(second, 50.0) == 50.0
    assert work_time.bound("ann")(second, 1e9) == 62.0  # what is left, and two seconds for the network
    work_time.add("ann", 62.0)
    assert work_time.bound("ann")(second, 30.0) == 0.0
    assert work_time.bound("bob")(second, 30.0) == 30.0
