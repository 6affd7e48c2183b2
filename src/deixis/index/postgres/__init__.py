"""The same index in PostgreSQL with pgvector: for more photos than one machine should hold, and for several writers.

An address comes in (``postgresql://user@host/database``); an `Archive` to search and a `Writer` to fill go out. Needs
psycopg, which ``pip install 'deixis[postgres]'`` brings.
"""

from __future__ import annotations

from importlib.util import find_spec

from deixis.errors import DeixisError

if find_spec("psycopg") is None:
    raise DeixisError("an index in PostgreSQL needs psycopg: pip install 'deixis[postgres]'")
