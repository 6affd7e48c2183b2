"""Options that several commands share, and their output: results on standard output, notes on standard error."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from deixis.errors import hide_passwords
from deixis.storage.progress import OnProgress, no_progress

if TYPE_CHECKING:
    from rich.progress import Task
    from rich.table import Table

    from deixis.cluster import ClusterWorkers


def option(metavar: str, help: str, *names: str, **others: Any) -> Any:
    """Return an option with a value, by default under the name of the parameter."""
    return typer.Option(*names, metavar=metavar, help=help, **others)


def flag(name: str, help: str) -> Any:
    return typer.Option(name, help=help)


def argument(metavar: str, help: str, **others: Any) -> Any:
    return typer.Argument(metavar=metavar, help=help, show_default=False, **others)


Json = Annotated[bool, flag("--json", "Print one JSON document and nothing else.")]
To = Annotated[
    str, option("FORMAT", "entities, coco, karpathy, jsonl, odvg, label-studio or parquet.", "--to", show_default=False)
]
Index = Annotated[
    str | None, option("INDEX", "Index: @NAME, a folder or a postgresql:// address (default: your index).", "--index")
]
Scheduler = Annotated[
    str | None,
    option(
        "ADDRESS",
        "Distribute the work: tcp://HOST:PORT of a Dask scheduler, or local:N for N processes on this machine.",
        "--scheduler",
    ),
]
Data = Annotated[Path, argument("DATA", "Data set directory.")]
Images = Annotated[Path | None, option("DIR", "Photo folder, if it has moved.", "--images")]
Split = Annotated[str | None, option("NAME", "Only photos of this split.", "--split")]
Out = Annotated[Path, option("DIR", "Directory to create.", "--out", show_default=False)]
Force = Annotated[bool, flag("--force", "Replace an existing directory.")]

_SURROGATE = re.compile("[\ud800-\udfff]")


def print_json(document: Any) -> None:
    """Print one JSON document. Bytes of file names that are not UTF-8 are printed as escaped surrogates."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


def print_result(json: bool, document: Any, *lines: str) -> None:
    """Print a result as a JSON document, or as lines of text."""
    if json:
        print_json(document)
    else:
        print(*lines, sep="\n")


def print_table(table: Table) -> None:
    """Print a table at its full width."""
    from rich.console import Console

    console = Console(file=own_stream(sys.stdout))
    for column in table.columns:
        column._cells = [show_control(cell) if isinstance(cell, str) else cell for cell in column._cells]
    if not console.is_terminal:
        console.width = max(console.width, 120)
    console.print(table)


def numbers_table(title: str, numbers: Sequence[str], last: str | None = None) -> Table:
    """Make a table with columns of numbers, which are aligned to the right, between the first and the last one."""
    from rich.table import Table

    table = Table(title)
    for heading in numbers:
        table.add_column(heading, justify="right")
    if last is not None:
        table.add_column(last)
    return table


def show_name(name: object) -> str:
    """Return a file name on one line of a terminal; in files and pipes it stays as it is."""
    return str(name).replace("\n", "\\n").replace("\t", "\\t") if sys.stdout.isatty() else str(name)


def note(text: str) -> None:
    """Print a line on standard error, without passwords."""
    sys.stderr.write(hide_passwords(text) + "\n")


def note_first(what: str, lines: Sequence[object], most: int = 10) -> None:
    """Print the first of some problems on standard error, and the number of the others."""
    for line in lines[:most]:
        note(f"{what}: {line}")
    if len(lines) > most:
        note(f"{what}: … and {len(lines) - most:,} more (--json lists all)")


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
    """Limit OpenBLAS to a thread, for tasks that run at once, unless the user has chosen; before numpy is imported."""
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


# Control characters in file names and other data are shown on terminals, not obeyed.

_ALLOWED = "\0\t\n"
_MARKS = [0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
_CONTROL = [*range(0x20), *range(0x7F, 0xA0), *_MARKS]
"""The control characters of ASCII and Latin-1, line separators, and marks that change the direction of text."""

_SHOWN = {code: f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}" for code in _CONTROL if chr(code) not in _ALLOWED}


def show_control(text: str) -> str:
    r"""Replace control characters by their escapes; new lines and tabs stay.

    Examples
    --------
    >>> print(show_control("dog\x1b]0;evil\x07.jpg"))
    dog\x1b]0;evil\x07.jpg
    """
    return text.translate(_SHOWN)


class TerminalText:
    """A stream to a terminal that obeys no control characters; `own` is for what deixis writes on purpose."""

    def __init__(self, own: TextIO) -> None:
        self.own = own

    def write(self, text: str) -> int:
        self.own.write(show_control(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)


def protect_terminals() -> None:
    """Let everything that is printed to a terminal from now on pass through `TerminalText`."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and stream.isatty() and not isinstance(stream, TerminalText):
            setattr(sys, name, TerminalText(stream))


def own_stream(stream: TextIO) -> TextIO:
    """Return the stream for sequences of our own: colours and progress bars."""
    return stream.own if isinstance(stream, TerminalText) else stream
