"""Threads with a short queue."""

from __future__ import annotations

import asyncio
import threading

import pytest

from deixis.server.work import BusyError, Workers


def test_what_does_not_fit_is_refused_at_once_and_room_comes_back() -> None:
    workers, go = Workers("test", threads=1, waiting=1), threading.Event()

    async def crowd() -> list[object]:
        first = [asyncio.create_task(workers.run(go.wait, 10)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await workers.run(int)
        go.set()
        return [*await asyncio.gather(*first), await workers.run(int)]

    assert asyncio.run(crowd()) == [True, True, 0]


def test_somebody_who_gives_up_keeps_the_place_until_the_work_is_done() -> None:
    workers, go = Workers("test", threads=1, waiting=0), threading.Event()

    async def impatient() -> int:
        asked = asyncio.create_task(workers.run(go.wait, 10))
        await asyncio.sleep(0.01)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        with pytest.raises(BusyError):
            await workers.run(int)
        go.set()
        await asyncio.sleep(0.1)
        return await workers.run(int)

    assert asyncio.run(impatient()) == 0


def test_nobody_may_queue_behind_one_who_has_waited_too_long() -> None:
    workers, go = Workers("test", threads=1, waiting=9, patience_s=0.05), threading.Event()

    async def crowd() -> list[object]:
        waiting = [asyncio.create_task(workers.run(go.wait, 10)) for _ in range(2)]
        await asyncio.sleep(0.02)
        waiting.append(asyncio.create_task(workers.run(go.wait, 10)))  # the second has waited, but not long
        await asyncio.sleep(0.1)
        with pytest.raises(BusyError):
            await workers.run(int)
        go.set()
        return [*await asyncio.gather(*waiting), await workers.run(int)]

    assert asyncio.run(crowd()) == [True, True, True, 0]


def test_work_that_takes_long_is_no_reason_to_refuse_where_nobody_waits() -> None:
    workers, go = Workers("test", threads=2, waiting=9, patience_s=0.01), threading.Event()

    async def two() -> int:
        long = asyncio.create_task(workers.run(go.wait, 10))
        await asyncio.sleep(0.05)
        quick = await workers.run(int)
        go.set()
        await long
        return quick

    assert asyncio.run(two()) == 0


def test_an_error_reaches_whoever_waits() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(Workers("test", threads=1, waiting=0).run(divmod, 1, 0))
