"""How long jobs say how far they are, without knowing who listens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

OnProgress = Callable[[str, int, int | None], None]
"""Told what is being done, how much of it is done, and how much there is (None where nobody knows)."""


def silent(doing: str, done: int, total: int | None) -> None:
    """Tell nobody."""


def told(items: Iterable[T], doing: str, total: int | None, on_progress: OnProgress) -> Iterator[T]:
    """Pass items on, telling how many have passed.

    Examples
    --------
    >>> list(told("ab", "spelling", 2, lambda doing, done, total: print(doing, done, "of", total)))
    spelling 1 of 2
    spelling 2 of 2
    ['a', 'b']
    """
    for done, item in enumerate(items, start=1):
        on_progress(doing, done, total)
        yield item
