"""How long jobs say how far they are, without knowing who listens."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[str, int, int | None], None]
"""Told what is being done, how much of it is done, and how much there is (None where nobody knows)."""


def silent(doing: str, done: int, total: int | None) -> None:
    """Tell nobody."""
