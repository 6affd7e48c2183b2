"""Processes of a Dask cluster that do parts of a long work, in order, and of which any may be killed."""

from __future__ import annotations

import logging
import signal
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from deixis.errors import DeixisError, PhotoError

PART = 64
"""Photos that are handed to a worker at once: a multiple of every batch, so that batches are those of one process."""

_PARTS_AHEAD = 3
"""For each worker: one in work, one waiting there, one whose answer waits to be taken. This bounds the memory."""

_GIVING_BACK = "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_"
"""Dask has workers give memory back at once; networks want the same again for the next layer, and lose a fifth so."""

_KINDS = ("tcp", "tls", "ws", "wss", "ucx")
_CONNECT_S = 10
_FIRST_WORKER_S = 120
_SILENCE_S = 30.0

Item_contra = TypeVar("Item_contra", contravariant=True)
Answer_co = TypeVar("Answer_co", covariant=True)
Item = TypeVar("Item")
Answer = TypeVar("Answer")

Tell = Callable[[str], None]
"""Told what people should know."""


class Plan(Hashable, Protocol, Generic[Item_contra, Answer_co]):
    """What is to be done, in words that every worker understands: names and settings, no weights."""

    def opened(self) -> Callable[[Sequence[Item_contra]], Iterable[Answer_co]]:
        """Called once by each worker; gives what does a part, an answer for each item in order."""
        ...


class Workers:
    """The workers of a cluster; `open_workers` gives them.

    Parameters
    ----------
    client
        Of ``distributed``.
    tell
        Told when no worker is left to do anything.
    """

    def __init__(self, client: Any, tell: Tell) -> None:
        self._client = client
        self._tell = tell
        self._imported: set[str] = set()

    def in_order(self, plan: Plan[Item, Answer], items: Iterable[Item]) -> Iterator[Answer]:
        """An answer for each item, in their order.

        Items are read only as far ahead as there are workers to do them, and answers wait only as far. A part whose
        worker dies is done again by another.
        """
        self._refuse_incomplete(type(plan).__module__)
        waiting: deque[tuple[Any, Item]] = deque()
        parts = iter(items)
        try:
            while part := list(islice(parts, PART)):
                waiting.append((self._submitted(plan, part), part[0]))
                if len(waiting) >= _PARTS_AHEAD * max(self._count(), 1):
                    yield from self._answers(*waiting.popleft())
            while waiting:
                yield from self._answers(*waiting.popleft())
        finally:
            if self._client.status == "running":  # else nobody waits for these any more
                self._client.cancel([future for future, _ in waiting], force=True)

    def refuse_strangers(self) -> None:
        """Say that a machine has no deixis, or another: it would not understand what it is given, and never answer."""
        here = _installed()
        for machine, there in self._everywhere(_version, "deixis").items():
            if isinstance(there, PackageNotFoundError):
                raise DeixisError(f"{machine} has no deixis; install it on all machines")
            if isinstance(there, str) and there != here:
                raise DeixisError(f"{machine} has deixis {there}, here is {here}; install the same on both")

    def _refuse_incomplete(self, module: str) -> None:
        """Say that a machine lacks what a module of deixis needs: what it cannot import, it could not be given."""
        if module in self._imported:
            return
        for machine, there in self._everywhere(import_module, module).items():
            if isinstance(there, ImportError):
                raise DeixisError(f"{machine} cannot use its deixis ({there}); install it anew, with all it needs")
        self._imported.add(module)

    def _everywhere(self, function: Callable[[str], object], given: str) -> dict[str, object]:
        """What a function gives, or raises, on each machine: the scheduler unpacks what it hands on, as workers do."""
        try:
            workers = self._client.run(function, given, on_error="return")
            there = self._client.run_on_scheduler(function, given)
        except ImportError as error:
            there = error
        except (OSError, AttributeError):  # the latter from a client that has given up
            raise _gone() from None
        return {"the scheduler": there} | {f"the worker {worker}": said for worker, said in workers.items()}

    def _submitted(self, plan: Plan[Item, Answer], part: Sequence[Item]) -> Any:
        from distributed.client import ClosedClientError

        try:
            return self._client.submit(_do, plan, part, pure=False)
        except ClosedClientError:  # nobody has asked for an answer since the scheduler went
            raise _gone() from None

    def _count(self) -> int:
        return len(self._client.scheduler_info().get("workers", ()))

    def _answers(self, future: Any, first: object) -> Sequence[Any]:
        from distributed import KilledWorker

        while True:
            try:
                answers: Sequence[Any] = future.result(timeout=_SILENCE_S)
            except TimeoutError:
                if future.status == "error":  # it was the worker that has waited in vain
                    raise
                self.refuse_strangers()
                if not self._count():
                    self._tell("no worker is left; the work goes on when one joins, and Ctrl-C keeps what is done")
            except CancelledError:
                raise _gone() from None
            except KilledWorker:
                self.refuse_strangers()  # who die of what they do not understand
                photo = getattr(first, "path", first)
                raise DeixisError(
                    f"every worker died that was given the photos from {photo} on; they may lack memory, and "
                    "what was done before is kept"
                ) from None
            else:
                return answers


def _gone() -> DeixisError:
    return DeixisError("the scheduler is gone; what was done is kept, run the same again for the rest")


def _installed() -> str:
    try:
        return _version("deixis")
    except PackageNotFoundError:
        raise DeixisError("--scheduler needs a deixis that is installed: pip install deixis[cluster]") from None


@lru_cache(maxsize=4)
def _opened(plan: Plan[Item, Answer]) -> Callable[[Sequence[Item]], Iterable[Answer]]:
    return plan.opened()


_one_part_at_a_time = threading.Lock()


def _do(plan: Plan[Item, Answer], part: Sequence[Item]) -> list[Answer]:
    """What a worker does. One thread, whatever the machine: how sums are rounded may depend on how many there are."""
    import torch

    with _one_part_at_a_time:
        torch.set_num_threads(1)
        return list(_opened(plan)(part))


@contextmanager
def open_workers(address: str, tell: Tell) -> Iterator[Workers]:
    """The workers of the scheduler at an address, or some of this machine's own.

    Parameters
    ----------
    address
        ``tcp://HOST:PORT``, or ``local:N`` for N processes here.
    tell
        Told what people should know.

    Raises
    ------
    DeixisError
        Dask is not installed, nobody answers at the address, or no worker joins.
    """
    count = _local_count(address)
    distributed = _distributed()
    for name in ("distributed", "distributed.client"):  # what matters is said in one line, by us
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if count is None:
        with _joined(distributed, address, address) as client:
            workers = Workers(client, tell)
            workers.refuse_strangers()
            yield workers
        return
    from dask import config

    # Workers of this machine share its memory; what they may hold is bounded by the parts ahead.
    with (
        config.set({_GIVING_BACK: None}),
        distributed.LocalCluster(
            n_workers=count, threads_per_worker=1, memory_limit=0, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as cluster,
        _joined(distributed, cluster, address) as client,
    ):
        client.run(_leave_ctrl_c_to_others)
        yield Workers(client, tell)


def _leave_ctrl_c_to_others() -> None:
    """A terminal tells all processes of Ctrl-C; the one that was started by hand knows what to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _joined(distributed: Any, place: Any, address: str) -> Iterator[Any]:
    kind, found, _ = address.partition("://")
    if found and kind not in _KINDS:
        raise DeixisError(f"--scheduler {address}: no scheduler answers there ({kind} is none of {', '.join(_KINDS)})")
    try:
        client = distributed.Client(place, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, AssertionError) as error:  # an assertion: its thread did not start in time
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DeixisError(f"--scheduler {address}: no scheduler answers there ({reason})") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_FIRST_WORKER_S)
        except TimeoutError:
            raise DeixisError(f"--scheduler {address}: no worker has joined it in {_FIRST_WORKER_S} s") from None
        yield client


def _local_count(address: str) -> int | None:
    kind, _, rest = address.partition(":")
    if kind != "local":
        return None
    if not rest.isdecimal() or int(rest) < 1:
        raise DeixisError(f"--scheduler {address}: write local:N for N processes of this machine, such as local:4")
    return int(rest)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise DeixisError("--scheduler needs a package: pip install deixis[cluster]") from None
    return distributed


def refuse_another(what: str, here: str, there: str) -> None:
    """Say in a worker that it would give other numbers than whoever asks."""
    if here != there:
        raise DeixisError(
            f"a worker has another version of {what} ({there}, here is {here}); install the same deixis and put the "
            "same model files on all machines"
        )


def refuse_unshared(path: Path, error: PhotoError) -> None:
    """Say that a worker cannot reach a photo that is there; one that is gone is gone for everybody."""
    if "no such file" in error.reason.lower() and path.exists():
        raise DeixisError(
            f"{path}: a worker does not see this photo; all machines need it at the same place, or an address such as "
            "s3://BUCKET/FOLDER"
        )
