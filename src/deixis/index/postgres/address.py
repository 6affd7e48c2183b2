"""The address of a database: read with care, because it may hold a password."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from deixis.errors import DeixisError
from deixis.index.places import shown

SCHEMA = "deixis_index"
"""Where the tables are, unless the address says otherwise."""

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_WAIT_S = 10


@dataclass(frozen=True)
class Address:
    """Where a database is, and which of its schemas holds the index.

    Attributes
    ----------
    conninfo
        For libpq, with the password if the address has one: for nobody's eyes.
    schema
        Each index has one of its own.
    name
        The address as it may be printed.
    """

    conninfo: str = field(repr=False)
    schema: str
    name: str


def read_address(text: str) -> Address:
    """Understand ``postgresql://user@host:port/database?schema=name``; all that libpq knows may follow the ``?``.

    Examples
    --------
    >>> address = read_address("postgresql://ada:secret@photos.example/family?schema=holidays")
    >>> address.schema, address.name
    ('holidays', 'postgresql://ada@photos.example/family?schema=holidays')
    """
    name = shown(text)
    parts = urlsplit(text)
    # What libpq says of an address that it cannot read may quote a part of the password, so it is not passed on.
    unclear = DeixisError(
        f"{name}: not an address that can be understood; it is postgresql://user@host/database, and in a password "
        "@ is written %40, : %3A, / %2F, # %23, ? %3F, % %25"
    )
    if parts.fragment or parts.netloc.count("@") > 1 or "@" in parts.path:
        raise unclear
    # Not decoded and encoded again: to libpq a + is a +, to Python's functions it is a space.
    options = [option for option in parts.query.split("&") if option]
    (schema,) = [option.partition("=")[2] for option in options if option.startswith("schema=")][-1:] or [SCHEMA]
    if not _NAME.fullmatch(schema):
        raise DeixisError(f"{name}: schema: only small letters, digits and _ may be in its name")
    rest = "&".join(option for option in options if not option.startswith("schema="))
    try:
        given = conninfo_to_dict(urlunsplit(parts._replace(query=rest)))
        if not str(given.get("port", "0")).replace(",", "").isdigit():
            raise unclear
        given = {"connect_timeout": _WAIT_S, "application_name": "deixis", **given}
        conninfo = make_conninfo("", **given)
    except psycopg.Error:
        raise unclear from None
    return Address(conninfo, schema, name)
