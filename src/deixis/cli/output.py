"""Options that several commands share, and their output: results on standard output, notes on standard error."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deixis.cli.terminal_text import own_stream, protect_terminals, show_control
from deixis.errors import hide_passwords
from deixis.storage.progress import OnProgress, no_progress

if TYPE_CHECKING:
    from rich.progress import Task
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


def hint(text: str) -> None:
    """Print a line on standard error that only a person at a terminal needs: progress, and what to do next."""
    if is_watched():
        note(text)


def is_watched() -> bool:
    """Return whether standard error is a terminal. Elsewhere only problems are reported there."""
    return sys.stderr.isatty()


@contextmanager
def progress(noun: str = "") -> Iterator[OnProgress]:
    """Show a bar with the rate and the remaining time of a job that counts `noun`, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[speed]}"))
    console = Console(file=own_stream(sys.stderr))
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bars:
        protect_terminals()  # rich has replaced the streams
        tasks: dict[str, Task] = {}

        def on_progress(doing: str, done: int, total: int | None) -> None:
            if doing in tasks and done < tasks[doing].completed:  # another job of this name
                bars.remove_task(tasks.pop(doing).id)
            if doing not in tasks:
                for task in bars.tasks:  # a stage of unknown length is over when the next one starts
                    bars.update(task.id, visible=task.total is not None)
                bars.add_task(show_control(doing), total=total, speed="")
                tasks[doing] = bars.tasks[-1]
            pace = tasks[doing].speed
            speed = f"{pace:,.1f} {noun}".rstrip() + "/s" if pace else ""
            bars.update(tasks[doing].id, completed=done, total=total, speed=speed)

        yield on_progress


@contextmanager
def working(doing: str) -> Iterator[None]:
    """Show that work of unknown length is going on, if standard error is a terminal."""
    if not sys.stderr.isatty():
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

    with open_workers(address, hint) as workers:
        yield workers
