"""Transactions for many at once: whatever came while the disk was busy is committed together, with one write."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import Connection

from deixis.annotate.store.engine import Database, Piece
from deixis.server.work import BusyError, Workers

T = TypeVar("T")
_MOST_WAITING = 2000
_MOST_AT_ONCE = 100
_THREADS = 8


class Writer:
    """Does transactions. Nobody is answered before what they did is on the disk.

    On SQLite the work itself is done on the event loop, a millisecond at a time, because a thread that computes would
    keep the loop from the processor as often as it computes itself; only waiting for the turn and for the disk is done
    in a thread. PostgreSQL is given a transaction each, in a few threads.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[tuple[Piece, asyncio.Future[Any]]] = deque()
        self._writing: asyncio.Task[None] | None = None
        self._disk: ThreadPoolExecutor | None = None
        self._threads = Workers("writing", _THREADS, _MOST_WAITING)

    async def run(self, work: Callable[[Connection], T], then: Callable[[T], None] | None = None) -> T:
        """`deixis.annotate.store.engine.Database.run`, for the event loop."""
        if not self._database.is_sqlite:
            return await self._threads.run(self._database.run, work, then)
        if len(self._waiting) >= _MOST_WAITING:
            raise BusyError
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.append((Piece(work, then), future))
        if self._disk is None:
            self._disk = ThreadPoolExecutor(1, thread_name_prefix="deixis-disk")
        if self._writing is None:
            self._writing = loop.create_task(self._write())
        return await asyncio.shield(future)

    async def close(self) -> None:
        """Finish what waits, and let the threads go; a later call starts new ones."""
        if self._writing is not None:
            await self._writing
        if self._disk is not None:
            self._disk.shutdown()
            self._disk = None
        self._threads.close()

    async def _write(self) -> None:
        while self._waiting:
            batch: list[tuple[Piece, asyncio.Future[Any]]] = []
            failure: BaseException | None = None
            try:
                await self._transact(batch)
            except Exception as error:
                failure = error
                if not batch:  # not even begun
                    batch += self._waiting
                    self._waiting.clear()
            for piece, future in batch:
                piece.end(failure)
                _tell(piece, future)
        self._writing = None

    async def _transact(self, batch: list[tuple[Piece, asyncio.Future[Any]]]) -> None:
        """One transaction with all that waits, and what still comes meanwhile."""
        loop = asyncio.get_running_loop()
        transaction = await loop.run_in_executor(self._disk, self._database.begin)
        is_whole = False
        try:
            while self._waiting and len(batch) < _MOST_AT_ONCE:
                batch.append(self._waiting.popleft())
                batch[-1][0].do(transaction.connection, alone=False)
                await asyncio.sleep(0)  # others are heard between two pieces
            is_whole = True
        finally:
            await loop.run_in_executor(self._disk, lambda: transaction.end(keep=is_whole))


def _tell(piece: Piece, future: asyncio.Future[Any]) -> None:
    if future.done():  # nobody waits any more
        return
    if piece.error is not None:
        future.set_exception(piece.error)
        future.exception()  # asked for, so that asyncio does not complain where nobody waits any more
    else:
        future.set_result(piece.result)
