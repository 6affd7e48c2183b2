"""The progress interface of long-running functions: they call an `OnProgress` and do not know who shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

OnProgress = Callable[[str, int, int | None], None]
"""A progress callback: description of the step, items done, and items in total (None if unknown)."""


def no_progress(description: str, done: int, total: int | None) -> None:
    """Ignore progress: the default callback."""


def track(items: Iterable[T], description: str, total: int | None, on_progress: OnProgress) -> Iterator[T]:
    """Yield items and report progress before each."""
    for done, item in enumerate(items, start=1):
        on_progress(description, done, total)
        yield item
