"""Options that several commands share, and their output: results on standard output, notes on standard error."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deixis.cli.terminal_text import own_stream, protect_terminals, show_control
from deixis.errors import hide_passwords
from deixis.storage.progress import OnProgress

if TYPE_CHECKING:
    from rich.table import Table

    from deixis.cluster import ClusterWorkers

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="FORMAT",
        help="entities, coco, karpathy, jsonl, odvg, label-studio or parquet.",
        show_default=False,
    ),
]
Index = Annotated[
    str | None,
    typer.Option(
        "--index", metavar="INDEX", help="Index: @NAME, a folder or a postgresql:// address (default: your index)."
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Distribute the work: tcp://HOST:PORT of a Dask scheduler, or local:N for N processes on this machine.",
    ),
]

_SECONDS_BETWEEN_LINES = 5.0
_SURROGATE = re.compile("[\ud800-\udfff]")


def print_json(document: Any) -> None:
    """Print one JSON document. Bytes of file names that are not UTF-8 are printed as escaped surrogates."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def print_table(table: Table) -> None:
    """Print a table at its full width."""
    from rich.console import Console

    console = Console(file=own_stream(sys.stdout))
    for column in table.columns:
        column._cells = [show_control(cell) if isinstance(cell, str) else cell for cell in column._cells]
    if not console.is_terminal:
        console.width = max(console.width, 120)
    console.print(table)


def show_name(name: object) -> str:
    """Return a file name on one line of a terminal; in files and pipes it stays as it is."""
    return str(name).replace("\n", "\\n").replace("\t", "\\t") if sys.stdout.isatty() else str(name)


def note(text: str) -> None:
    """Print a line on standard error, without passwords."""
    sys.stderr.write(hide_passwords(text) + "\n")


class Rate:
    """Items per second over the last 30 seconds. Starts again when the count drops, because another job has started."""

    SECONDS = 30.0

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def at(self, now: float, done: int) -> float:
        """Return the current rate; 0 while it is unknown."""
        if self._samples and done < self._samples[-1][1]:
            self._samples.clear()
        self._samples.append((now, done))
        while len(self._samples) > 2 and now - self._samples[1][0] >= self.SECONDS:
            self._samples.popleft()
        then, before = self._samples[0]
        return (done - before) / (now - then) if now > then else 0.0


def time_left(done: int, total: int, pace: float) -> str:
    """Return an estimate of the remaining time in words."""
    if pace <= 0:
        return "time left not known yet"
    minutes = (total - done) / pace / 60
    if minutes < 1:
        return "less than a minute left"
    return f"about {minutes:.0f} min left" if minutes < 90 else f"about {minutes / 60:.1f} h left"


@contextmanager
def progress(noun: str = "") -> Iterator[OnProgress]:
    """Show progress, rate and remaining time of a job that counts `noun`: a bar on a terminal, lines elsewhere."""
    rates: dict[str, Rate] = {}

    def speed(now: float, doing: str, done: int, total: int | None) -> str:
        pace = rates.setdefault(doing, Rate()).at(now, done)
        parts = [f"{pace:,.1f} {noun}".rstrip() + "/s"] if pace else []
        if total and done < total:
            parts.append(time_left(done, total, pace))
        return ", ".join(parts)

    if not sys.stderr.isatty():
        yield _lines(speed)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[speed]}"))
    with Progress(*columns, console=Console(file=own_stream(sys.stderr)), transient=True) as bars:
        protect_terminals()  # rich has replaced the streams
        tasks: dict[str, Any] = {}

        def on_progress(doing: str, done: int, total: int | None) -> None:
            text = speed(time.monotonic(), doing, done, total)
            if doing not in tasks:
                for task in bars.tasks:  # a stage of unknown length is over when the next one starts
                    bars.update(task.id, visible=task.total is not None)
                tasks[doing] = bars.add_task(show_control(doing), total=total, speed=text)
            bars.update(tasks[doing], completed=done, total=total, speed=text)

        yield on_progress


def _lines(speed: Callable[[float, str, int, int | None], str]) -> OnProgress:
    last = time.monotonic()

    def on_progress(doing: str, done: int, total: int | None) -> None:
        nonlocal last
        now = time.monotonic()
        text = speed(now, doing, done, total)
        if now - last >= _SECONDS_BETWEEN_LINES:
            last = now
            count = f"{done:,}" + (f" of {total:,}" if total else "")
            note(", ".join(filter(None, (f"{doing}: {count}", text))) if done else f"{doing} …")

    return on_progress


@contextmanager
def working(doing: str) -> Iterator[None]:
    """Show that work of unknown length is going on."""
    if not sys.stderr.isatty():
        note(f"{doing} …")
        yield
        return
    from rich.console import Console

    with Console(file=own_stream(sys.stderr)).status(show_control(doing)):
        protect_terminals()
        yield


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def use_one_blas_thread() -> None:
    """Limit OpenBLAS to one thread unless the user has chosen; call it before numpy is imported.

    Where several tasks run at once, the threads of one matrix product would wait for those of the others.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@contextmanager
def open_scheduler(address: str | None) -> Iterator[ClusterWorkers | None]:
    """Connect to the workers of a scheduler; None if no address is given."""
    if address is None:
        yield None
        return
    from deixis.cluster import open_workers

    with open_workers(address, note) as workers:
        yield workers
