"""A thread pool with a bounded queue: work that does not fit is rejected at once."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class BusyError(Exception):
    """The queue is full."""


class BoundedExecutor:
    """A thread pool in which `queue` calls may wait; a further one raises `BusyError`.

    A call that has waited longer than `max_wait_s` is not started but raises `BusyError`, and while there is such a
    call, no further one may queue. So no call that is answered has waited longer.
    """

    def __init__(self, name: str, threads: int, queue: int, max_wait_s: float = math.inf) -> None:
        self._name = name
        self._count = threads
        self._free_slots = threads + queue
        self._max_wait_s = max_wait_s
        self._threads: ThreadPoolExecutor | None = None
        self._tickets = count()
        self._waiting_since: dict[int, float] = {}
        self._lock = threading.Lock()

    async def run(
        self, work: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        """Run a function in a thread. Its slot is released when it ends, even if the caller has stopped waiting."""
        if self.is_busy:
            raise BusyError
        self._free_slots -= 1
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._count, thread_name_prefix=f"deixis-{self._name}")
        ticket = next(self._tickets)
        with self._lock:
            self._waiting_since[ticket] = time.monotonic()

        def start() -> Result:
            with self._lock:
                since = self._waiting_since.pop(ticket, None)
            if since is not None and time.monotonic() - since > self._max_wait_s:
                raise BusyError
            return work(*args, **kwargs)

        future = asyncio.get_running_loop().run_in_executor(self._threads, start)
        future.add_done_callback(self._release)
        return await asyncio.shield(future)

    @property
    def is_busy(self) -> bool:
        """Whether a further call would be rejected now."""
        return self._free_slots <= 0 or self._longest_wait_s() > self._max_wait_s

    def close(self) -> None:
        """Cancel waiting calls and stop the threads; a later call starts new ones."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
            with self._lock:
                self._waiting_since.clear()

    def _longest_wait_s(self) -> float:
        """Return how long the first waiting call has waited."""
        with self._lock:
            first = next(iter(self._waiting_since.values()), None)
        return 0.0 if first is None else time.monotonic() - first

    def _release(self, done: asyncio.Future[Result]) -> None:
        self._free_slots += 1
        if not done.cancelled():
            done.exception()  # retrieved, so that asyncio does not log it if the caller has stopped waiting
