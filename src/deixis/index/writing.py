"""Whoever may write an index: one process into a folder, several into a database."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Protocol

from deixis.errors import DeixisError
from deixis.files.atomic import clear_unfinished, explained, only_one
from deixis.index.about import Model
from deixis.index.cache import bring_up_to_date
from deixis.index.connection import Connection
from deixis.index.database import DATABASE, plainly
from deixis.index.opening import open_to_fill
from deixis.index.places import Place, is_address
from deixis.index.sqlite_connection import SqliteConnection
from deixis.index.walking import MARK

_CACHED_EVERY = 4096


class Writer(Protocol):
    """An index that is held to be written, transaction by transaction."""

    @property
    def connection(self) -> Connection:
        """What `records` writes through."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether others may be writing too, perhaps on machines where other files lie."""
        ...

    def begin(self) -> None:
        """Begin a transaction."""
        ...

    def commit(self) -> None:
        """End it: the disk has what was written. What was settled is let go."""
        ...

    def rollback(self) -> None:
        """End it as if it had never begun."""
        ...

    def can_keep(self, error: BaseException) -> bool:
        """Whether what was written before an error can still be committed."""
        ...

    def claim(self, sha256: bytes) -> bool:
        """Whether a photo of this content is ours to see; others pass it by until it is settled, or we are dead."""
        ...

    def settle(self, sha256: bytes) -> None:
        """It has been dealt with, as of the next commit."""
        ...

    def grown(self, photos: int) -> None:
        """Between transactions: so many photos were committed."""
        ...

    def finish(self) -> None:
        """After the last transaction: make searching ready."""
        ...


@contextmanager
def opened_to_write(place: Place, model: Model, rebuild: bool = False) -> Iterator[Writer]:
    """An index, begun if it is not there, held for what a model sees.

    One of another model is refused, and so is a damaged one, unless it is to be rebuilt: then it is emptied first.
    """
    if is_address(place):
        from deixis.index.postgres.writer import opened_database

        with opened_database(os.fspath(place), model, rebuild) as writer:
            yield writer
        return
    folder = Path(place)
    _refuse_other_things(folder)
    with ExitStack() as held:
        with explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(only_one(folder / DATABASE))
            clear_unfinished(folder / DATABASE)
        held.enter_context(plainly(folder / DATABASE))
        yield FolderWriter(folder, held.enter_context(closing(open_to_fill(folder, model, rebuild))))


class FolderWriter:
    """The one process that writes the index in a folder."""

    is_shared = False

    def __init__(self, folder: Path, connection: SqliteConnection) -> None:
        self.folder, self.connection = folder, connection
        self._not_cached = 0

    def begin(self) -> None:
        """Begin a transaction."""
        self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """End it: the disk has what was written."""
        self.connection.execute("COMMIT")

    def rollback(self) -> None:
        """End it as if it had never begun."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def can_keep(self, error: BaseException) -> bool:
        """Whether what was written before an error can still be committed; there may be no transaction just now."""
        return self.connection.in_transaction and not isinstance(error, sqlite3.Error)

    def claim(self, sha256: bytes) -> bool:
        """Everything is ours."""
        return True

    def settle(self, sha256: bytes) -> None:
        """Nobody waits for it."""

    def grown(self, photos: int) -> None:
        """The cache follows now and then, so that readers need not read too much from the database."""
        self._not_cached += photos
        if self._not_cached >= _CACHED_EVERY:
            self.finish()

    def finish(self) -> None:
        """Put what is new into the cache."""
        self._not_cached = 0
        bring_up_to_date(self.folder, self.connection)


def _refuse_other_things(folder: Path) -> None:
    """An index wants a folder of its own: photos that lie in it would never be found."""
    with explained(folder):
        if folder.exists() and not folder.is_dir():
            raise DeixisError(f"{folder}: is a file; an index wants a folder of its own")
        begun = (folder / DATABASE).exists() or (folder / MARK).exists()
        others = [] if begun or not folder.exists() else [name for name in folder.iterdir() if name.name[0] != "."]
    if others:
        raise DeixisError(f"{folder}: holds {others[0].name}; an index wants a folder of its own, which may be new")
