"""What `records` asks of a database that holds an index, whichever it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deixis.index.seeing import Floats, Seen

StoredRegions = dict[int, tuple[Floats, NDArray[np.float16]]]
"""Boxes and vectors of the regions of photos, by the numbers of the photos."""


class Cursor(Protocol):
    """What a statement gives."""

    def fetchone(self) -> Any:
        """The next row; None after the last."""
        ...

    def fetchall(self) -> list[Any]:
        """The rest of the rows."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """The rows."""
        ...


class Connection(Protocol):
    """A database that understands the SQL which SQLite and PostgreSQL share, and keeps vectors in its own way."""

    @property
    def in_transaction(self) -> bool:
        """Whether one was begun and has not ended."""
        ...

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Cursor:
        """One statement, with a ``?`` for each value."""
        ...

    def in_one_go(self) -> AbstractContextManager[object]:
        """A block whose statements need not be answered one by one, where that takes time."""
        ...

    def folder_number(self, path: bytes) -> int:
        """The number of a folder, which is written down if it is new."""
        ...

    def keep_seen(self, number: int, seen: Seen) -> None:
        """Write what was seen in a photo."""
        ...

    def copy_seen(self, number: int, of: int) -> None:
        """The same for a photo whose content was seen elsewhere."""
        ...

    def forget_seen(self, number: int) -> None:
        """Remove what was seen in a photo, and tell those who remember its number."""
        ...

    def whole_of(self, number: int) -> Floats | None:
        """The vector of a whole photo."""
        ...

    def regions_of(self, numbers: Iterable[int], dimension: int) -> StoredRegions:
        """Regions of photos; a photo without any is left out."""
        ...


def one_of(numbers: Iterable[int]) -> str:
    """Numbers as SQL has them after IN; there may be none, or more than a statement takes values.

    Examples
    --------
    >>> one_of([3, 7]), one_of([])
    ('(3,7)', '(NULL)')
    """
    return f"({','.join(str(int(number)) for number in numbers) or 'NULL'})"


@contextmanager
def all_or_nothing(connection: Connection) -> Iterator[None]:
    """Within a transaction, statements that count together: an interruption between them undoes them."""
    begun = False
    try:
        with connection.in_one_go():
            connection.execute("SAVEPOINT step")
            begun = True
            yield
            connection.execute("RELEASE step")
    except BaseException:
        if begun and connection.in_transaction:  # a full disk may have ended it already
            connection.execute("ROLLBACK TO step")
            connection.execute("RELEASE step")
        raise
