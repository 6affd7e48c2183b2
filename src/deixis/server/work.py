"""Work in a few threads, with a short queue: what does not fit is refused at once."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Made = TypeVar("Made")


class BusyError(Exception):
    """There is more to do than can wait."""


class Workers:
    """A few threads and those who wait for them.

    Parameters
    ----------
    name
        Of the threads.
    threads
        At work at once.
    waiting
        Calls that may wait; one more raises `BusyError`.
    patience_s
        Nobody may queue behind a call that has waited longer than this. Under more load than can be borne, the queue
        then stays about this long, in seconds rather than in calls, and those who are refused hear it at once.

    Examples
    --------
    >>> workers = Workers("sums", threads=1, waiting=1)
    >>> asyncio.run(workers.run(sum, [1, 2]))  # doctest: +SKIP
    3
    """

    def __init__(self, name: str, threads: int, waiting: int, patience_s: float = math.inf) -> None:
        self._name = name
        self._count = threads
        self._room = threads + waiting
        self._patience_s = patience_s
        self._threads: ThreadPoolExecutor | None = None
        self._tickets = count()
        self._waiting_since: dict[int, float] = {}
        self._lock = threading.Lock()

    async def run(self, work: Callable[Given, Made], *given: Given.args, **named: Given.kwargs) -> Made:
        """Do something in a thread; the room it takes is free again when it is really done, whoever still waits."""
        if self._room <= 0 or self._longest_wait_s() > self._patience_s:
            raise BusyError
        self._room -= 1
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._count, thread_name_prefix=f"deixis-{self._name}")
        ticket = next(self._tickets)
        with self._lock:
            self._waiting_since[ticket] = time.monotonic()

        def begin() -> Made:
            with self._lock:
                self._waiting_since.pop(ticket, None)
            return work(*given, **named)

        doing = asyncio.get_running_loop().run_in_executor(self._threads, begin)
        doing.add_done_callback(self._make_room)
        return await asyncio.shield(doing)

    def close(self) -> None:
        """Drop what waits and let the threads go; a later call starts new ones."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
            with self._lock:
                self._waiting_since.clear()

    def _longest_wait_s(self) -> float:
        """Of those who still wait; the first of them came first."""
        with self._lock:
            first = next(iter(self._waiting_since.values()), None)
        return 0.0 if first is None else time.monotonic() - first

    def _make_room(self, done: asyncio.Future[Made]) -> None:
        self._room += 1
        if not done.cancelled():
            done.exception()  # asked for, so that asyncio does not complain where nobody waits any more
