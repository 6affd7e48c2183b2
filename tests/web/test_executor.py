"""A thread pool with a bounded queue."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import pytest

from deixis.web.executor import BoundedExecutor, BusyError


def test_calls_beyond_the_queue_are_rejected_until_there_is_room() -> None:
    executor, go = BoundedExecutor("test", threads=1, queue=1), threading.Event()

    async def crowd() -> list[object]:
        first = [asyncio.create_task(executor.run(go.wait, 10)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await executor.run(int)
        go.set()
        return [*await asyncio.gather(*first), await executor.run(int)]

    assert asyncio.run(crowd()) == [True, True, 0]


def test_a_cancelled_call_keeps_its_slot_until_it_ends() -> None:
    executor, go = BoundedExecutor("test", threads=1, queue=0), threading.Event()

    async def impatient() -> int:
        asked = asyncio.create_task(executor.run(go.wait, 10))
        await asyncio.sleep(0.01)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        with pytest.raises(BusyError):
            await executor.run(int)
        go.set()
        while True:
            with suppress(BusyError):  # until the thread has noticed
                return await executor.run(int)
            await asyncio.sleep(0.01)

    assert asyncio.run(impatient()) == 0


def test_no_call_may_queue_behind_one_that_has_waited_too_long() -> None:
    executor, go = BoundedExecutor("test", threads=1, queue=9, max_wait_s=0.05), threading.Event()

    async def crowd() -> list[object]:
        running = asyncio.create_task(executor.run(go.wait, 10))
        await asyncio.sleep(0.01)
        waiting = asyncio.create_task(executor.run(int))
        await asyncio.sleep(0.1)
        with pytest.raises(BusyError):
            await executor.run(int)
        go.set()
        with pytest.raises(BusyError):  # nobody waits longer than the limit and then still gets an answer
            await waiting
        return [await running, await executor.run(int)]

    assert asyncio.run(crowd()) == [True, 0]


def test_long_work_does_not_block_free_threads() -> None:
    executor, go = BoundedExecutor("test", threads=2, queue=9, max_wait_s=1.0), threading.Event()

    async def two() -> int:
        long = asyncio.create_task(executor.run(go.wait, 10))
        await asyncio.sleep(1.1)
        quick = await executor.run(int)
        go.set()
        await long
        return quick

    assert asyncio.run(two()) == 0


def test_errors_are_raised_to_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(BoundedExecutor("test", threads=1, queue=0).run(divmod, 1, 0))
