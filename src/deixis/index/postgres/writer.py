"""An index in PostgreSQL, held to be written, perhaps by several at once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
from psycopg.pq import TransactionStatus

from deixis.errors import DeixisError
from deixis.index.about import About, Model
from deixis.index.postgres.address import Address, read_address
from deixis.index.postgres.connection import PostgresConnection, connect
from deixis.index.postgres.schema import open_tables
from deixis.index.postgres.troubles import plainly


@contextmanager
def opened_database(place: str, model: Model, rebuild: bool = False) -> Iterator[PostgresWriter]:
    """An index at an address, begun if it is not there, held for what a model sees."""
    address = read_address(place)
    with plainly(address):
        connection, about = open_tables(address, model, rebuild)
        with closing(connection.raw), closing(connect(address).raw) as beside:
            yield PostgresWriter(address, about, WritingConnection(connection.raw, PostgresConnection(beside, True)))


class WritingConnection(PostgresConnection):
    """A connection whose transactions take long, with one beside it for what others must see at once."""

    def __init__(self, raw: psycopg.Connection[tuple[object, ...]], beside: PostgresConnection) -> None:
        super().__init__(raw, True)
        self.beside = beside
        self._folders: dict[bytes, int] = {}

    def folder_number(self, path: bytes) -> int:
        """The number of a folder; a new one is committed at once, so that nobody waits for our transaction to end."""
        if path not in self._folders:
            self._folders[path] = self.beside.folder_number(path)
        return self._folders[path]


class PostgresWriter:
    """One of those who write an index.

    Contents are claimed by advisory locks of the second connection: the server lets go of them when we die.
    """

    is_shared = True

    def __init__(self, address: Address, about: About, connection: WritingConnection) -> None:
        self.address, self.about, self.connection = address, about, connection
        self._settled: list[int] = []

    def begin(self) -> None:
        """Begin a transaction; until it ends the tables stay what they are."""
        self.connection.execute("BEGIN")
        (uid,) = self.connection.execute("SELECT value FROM about WHERE key = 'uid'").fetchone() or ("",)
        if uid != self.about.uid:
            raise DeixisError(f"{self.address.name}: another process has begun it anew; run again")

    def commit(self) -> None:
        """End it: the disk has what was written. What was settled is let go."""
        self.connection.execute("COMMIT")
        settled, self._settled = self._settled, []
        if settled:
            self.connection.beside.execute("SELECT pg_advisory_unlock(key) FROM unnest(?::bigint[]) key", (settled,))

    def rollback(self) -> None:
        """End it as if it had never begun."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def can_keep(self, error: BaseException) -> bool:
        """Whether what was written before an error can still be committed."""
        is_whole = self.connection.raw.info.transaction_status == TransactionStatus.INTRANS
        return is_whole and not isinstance(error, psycopg.Error)

    def claim(self, sha256: bytes) -> bool:
        """Whether a photo of this content is ours to see."""
        found = self.connection.beside.execute("SELECT pg_try_advisory_lock(?)", (self._key(sha256),)).fetchone()
        return found == (True,)

    def settle(self, sha256: bytes) -> None:
        """It has been dealt with, as of the next commit."""
        self._settled.append(self._key(sha256))

    def grown(self, photos: int) -> None:
        """The server sees to it."""

    def finish(self) -> None:
        """Let the server count what there is, so that it plans searches well."""
        self.connection.execute("ANALYZE photos, vectors, regions")

    def _key(self, sha256: bytes) -> int:
        digest = hashlib.blake2b(self.about.uid.encode() + sha256, digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)
