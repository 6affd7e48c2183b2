"""Where an index is: a folder of this machine, or the address of a database."""

from __future__ import annotations

import os
import re

Place = str | os.PathLike[str]
"""A folder, or ``postgresql://user@host/database``."""

_SCHEMES = ("postgresql://", "postgres://")
_PASSWORD = re.compile(r"(?i)([?&][a-z]*password=)[^&]*")
_NAME_ONLY = r"\1…"
_NO_PORT = re.compile(r"^([^\[:/?#]*):(?!\d+([/?#,]|$)).*")
"""A host with what should be a port and is none, as in an address that lost its host."""


def is_address(place: Place) -> bool:
    """Whether a place is a database's address.

    Examples
    --------
    >>> is_address("postgresql://ada@photos.example/family"), is_address("photos.deixis")
    (True, False)
    """
    return os.fspath(place).startswith(_SCHEMES)


def shown(place: Place) -> str:
    """A place as it may be printed: whatever could be part of a password is left out.

    Examples
    --------
    >>> shown("postgresql://ada:secret@photos.example/family")
    'postgresql://ada@photos.example/family'
    """
    text = os.fspath(place)
    if not is_address(place):
        return text
    scheme, _, rest = text.partition("://")
    # The last @, though an address should have but one: people type passwords as they are.
    credentials, at, where = rest.rpartition("@")
    where = _NO_PORT.sub(r"\1", where)
    user = re.split(r"[:/?#]", credentials, maxsplit=1)[0]
    named = f"{user}{at}" if user else ""
    return f"{scheme}://{named}{_PASSWORD.sub(_NAME_ONLY, where)}"
