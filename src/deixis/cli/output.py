"""What the command says: answers on standard output, progress on standard error."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deixis.files.progress import OnProgress

if TYPE_CHECKING:
    from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]

_SECONDS_BETWEEN_LINES = 5.0


_SURROGATE = re.compile("[\ud800-\udfff]")


def print_json(document: Any) -> None:
    """Print one JSON document; bytes of file names that are no UTF-8 stand in it as lone surrogates, escaped."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write(_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")


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


class Pace:
    """How fast something goes, from the last half minute, and so how long the rest will take.

    Fewer done than before is another piece of work: the pace begins anew.

    Examples
    --------
    >>> pace = Pace()
    >>> pace.at(0.0, 0), pace.at(10.0, 50), pace.at(11.0, 1)
    (0.0, 5.0, 0.0)
    """

    SECONDS = 30.0

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def at(self, now: float, done: int) -> float:
        """The number done in a second, now that so many are; 0 where it cannot be told yet."""
        if self._seen and done < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] >= self.SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        return (done - before) / (now - then) if now > then else 0.0


def time_left(done: int, total: int, pace: float) -> str:
    """How long the rest takes, in words that claim no more than is known.

    Examples
    --------
    >>> time_left(10, 7000, 0.0), time_left(1000, 7000, 20.0), time_left(6990, 7000, 20.0)
    ('time left not known yet', 'about 5 min left', 'less than a minute left')
    """
    if pace <= 0:
        return "time left not known yet"
    minutes = (total - done) / pace / 60
    if minutes < 1:
        return "less than a minute left"
    return f"about {minutes:.0f} min left" if minutes < 90 else f"about {minutes / 60:.1f} h left"


@contextmanager
def progress(noun: str = "") -> Iterator[OnProgress]:
    """Show how far a job is, how fast it goes and how long it will take: a bar on a terminal, lines elsewhere.

    Parameters
    ----------
    noun
        What is counted, in the plural: photos.
    """
    paces: dict[str, Pace] = {}

    def speed(now: float, doing: str, done: int, total: int | None) -> str:
        pace = paces.setdefault(doing, Pace()).at(now, done)
        said = [f"{pace:,.1f} {noun}".rstrip() + "/s"] if pace else []
        if total and done < total:
            said.append(time_left(done, total, pace))
        return ", ".join(said)

    if not sys.stderr.isatty():
        yield _lines(speed)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[speed]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def on_progress(doing: str, done: int, total: int | None) -> None:
            said = speed(time.monotonic(), doing, done, total)
            if doing not in tasks:
                tasks[doing] = bars.add_task(doing, total=total, speed=said)
            bars.update(tasks[doing], completed=done, total=total, speed=said)

        yield on_progress


def _lines(speed: Callable[[float, str, int, int | None], str]) -> OnProgress:
    spoken = time.monotonic()

    def on_progress(doing: str, done: int, total: int | None) -> None:
        nonlocal spoken
        now = time.monotonic()
        said = speed(now, doing, done, total)
        if now - spoken >= _SECONDS_BETWEEN_LINES:
            spoken = now
            count = f"{done:,}" + (f" of {total:,}" if total else "")
            note(", ".join(filter(None, (f"{doing}: {count}", said))) if done else f"{doing} …")

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
