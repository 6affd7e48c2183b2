"""Passwords: argon2, and as slow for a name that is not there as for one that is."""

from __future__ import annotations

from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from deixis.errors import DeixisError

SHORTEST, LONGEST = 10, 200


@cache
def _hasher() -> PasswordHasher:
    return PasswordHasher()


@cache
def _nobodys() -> str:
    return _hasher().hash("nobody has this password")


def hash_password(password: str) -> str:
    """What is kept of a password.

    Raises
    ------
    DeixisError
        Where it is too short, or too long.
    """
    if not SHORTEST <= len(password) <= LONGEST:
        raise DeixisError(f"a password has {SHORTEST} to {LONGEST} characters")
    return _hasher().hash(password.encode(errors="replace"))


def is_password(kept: str | None, password: str) -> bool:
    """Whether a password is the one that was kept; None takes as long, and is never right."""
    try:
        _hasher().verify(kept or _nobodys(), password.encode(errors="replace"))
    except (Argon2Error, InvalidHashError):
        return False
    return kept is not None
