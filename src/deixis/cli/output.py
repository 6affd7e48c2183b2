"""What the command says: answers on standard output, progress on standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deixis.files.progress import OnProgress

if TYPE_CHECKING:
    from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]

_SECONDS_BETWEEN_LINES = 5.0


def print_json(document: Any) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_table(table: Table) -> None:
    """Print a table, as wide as it needs to be."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, 120)
    console.print(table)


def note(text: str) -> None:
    """Say something beside the answer."""
    sys.stderr.write(text + "\n")


@contextmanager
def progress() -> Iterator[OnProgress]:
    """Show how far a job is: a bar on a terminal, a line every few seconds elsewhere."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def on_progress(doing: str, done: int, total: int | None) -> None:
            if doing not in tasks:
                tasks[doing] = bars.add_task(doing, total=total)
            bars.update(tasks[doing], completed=done)

        yield on_progress


def _lines() -> OnProgress:
    spoken = time.monotonic()

    def on_progress(doing: str, done: int, total: int | None) -> None:
        nonlocal spoken
        if time.monotonic() - spoken >= _SECONDS_BETWEEN_LINES:
            spoken = time.monotonic()
            note(f"{doing}: {done:,}" + (f" of {total:,}" if total else ""))

    return on_progress


@contextmanager
def working(doing: str) -> Iterator[None]:
    """Show that something goes on whose end cannot be foreseen."""
    if not sys.stderr.isatty():
        note(f"{doing} …")
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(doing):
        yield


def plural(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun.

    Examples
    --------
    >>> plural(1, "photo"), plural(2000, "photo"), plural(0, "box", "boxes")
    ('1 photo', '2,000 photos', '0 boxes')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"
