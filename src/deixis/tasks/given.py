"""What people hand to the functions of `deixis`, checked where it comes in: a wrong kind is one line, no traceback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from typing import TypeVar

from deixis.errors import DeixisError

Thing = TypeVar("Thing")


def text_of(given: object, name: str) -> str:
    """A text.

    Examples
    --------
    >>> text_of(b"two dogs", "sentence")
    Traceback (most recent call last):
    deixis.errors.DeixisError: sentence: give a text, not bytes
    """
    if not isinstance(given, str):
        raise DeixisError(f"{name}: give a text, not {kind_of(given)}")
    return given


def list_of(given: Iterable[Thing], name: str) -> Sequence[Thing]:
    """Several things. One string is a sequence too, of letters, and never what was meant.

    Examples
    --------
    >>> list_of("dog.jpg", "photos")
    Traceback (most recent call last):
    deixis.errors.DeixisError: photos: give a list of them, not one str
    """
    if isinstance(given, str | bytes | PathLike) or not isinstance(given, Iterable):
        raise DeixisError(f"{name}: give a list of them, not one {kind_of(given)}")
    return given if isinstance(given, Sequence) else list(given)


def count_of(given: object, name: str, most: int | None = None) -> int:
    """A number of things to be given, at least one.

    Examples
    --------
    >>> count_of(0, "top", 1000)
    Traceback (most recent call last):
    deixis.errors.DeixisError: top=0: give a whole number from 1 to 1,000
    """
    if not isinstance(given, int) or isinstance(given, bool) or given < 1 or (most is not None and given > most):
        wanted = "of 1 or more" if most is None else f"from 1 to {most:,}"
        raise DeixisError(f"{name}={given!r}: give a whole number {wanted}")
    return given


def path_of(given: str | PathLike[str], name: str) -> str:
    """A path, or a name.

    Examples
    --------
    >>> path_of(None, "model")
    Traceback (most recent call last):
    deixis.errors.DeixisError: model: give a path, not None
    """
    try:
        path = fspath(given)
    except TypeError:
        path = None
    if not isinstance(path, str):
        raise DeixisError(f"{name}: give a path, not {kind_of(given)}")
    return path


def kind_of(given: object) -> str:
    """What somebody has handed over, in a word."""
    return "None" if given is None else type(given).__name__
