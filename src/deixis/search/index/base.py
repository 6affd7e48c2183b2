"""Types that the parts of the index share: encoded photos, its description, and the interface of connections."""

from __future__ import annotations

import json
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.errors import DeixisError, PhotoError
from deixis.search.places import place_option
from deixis.storage.sql import hide_password

IndexPath = str | os.PathLike[str]
"""A folder, or the address of a database: ``postgresql://user@host/database``."""

StoredRegions = dict[int, tuple[Floats, NDArray[np.float16]]]
"""Boxes (n, 4) and vectors (n, region_dimension) of the regions of photos, by photo number."""

FORMAT = "deixis-index"
VERSION = "4"
ROOTS = "roots"

CALIBRATION = "calibration"
"""The entry with the calibration of an index, as JSON."""

EXCLUDE = "exclude"
"""The entry with the patterns of files that are not indexed, as JSON."""


class DamagedIndexError(DeixisError):
    """An index that cannot be read. A rebuild replaces it."""


@dataclass(frozen=True)
class PhotoVectors:
    """The vectors of a photo and of its n regions. The score of a query is the dot product with its vector."""

    whole: Floats  # (dimension,)
    width: int  # in pixels, after EXIF rotation
    height: int
    region_boxes: Floats = field(default_factory=lambda: np.zeros((0, 4), dtype=np.float32))
    # (n, region_dimension), stored as float16
    region_vectors: Floats = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))
    thumbnail: bytes | None = None  # a small JPEG from `make_thumbnail`

    def problem(self, dimension: int, region_dimension: int) -> str | None:
        """Say why these vectors cannot be stored; None if they can."""
        boxes, vectors, count = self.region_boxes, self.region_vectors, len(self.region_boxes)
        if self.whole.shape != (dimension,):
            return f"the model returned a vector of shape {self.whole.shape} instead of ({dimension},)"
        if boxes.shape != (count, 4) or (count and vectors.shape != (count, region_dimension)):
            return f"the model returned region boxes of shape {boxes.shape} and region vectors of shape {vectors.shape}"
        if not np.isfinite(self.whole).all() or not np.isfinite(boxes).all():
            return "the model returned numbers that are not finite"
        with np.errstate(over="ignore"):
            if not np.isfinite(vectors.astype(np.float16)).all():
                return "the model returned numbers beyond the range of float16"
        return None


@dataclass(frozen=True)
class RegionVectors:
    """The vectors of the regions of n photos, photo after photo."""

    vectors: Floats  # (regions, region_dimension)
    counts: NDArray[np.int64]  # (n,): the number of regions of each photo

    @classmethod
    def join(cls, photos: Sequence[NDArray[np.floating] | None], dimension: int) -> RegionVectors:
        """Join the vectors of photos; None stands for a photo without regions."""
        there = [vectors for vectors in photos if vectors is not None]
        joined = np.concatenate([np.zeros((0, dimension), dtype=np.float16), *there]).astype(np.float32)
        return cls(joined, np.array([0 if each is None else len(each) for each in photos], dtype=np.int64))

    def take(self, rows: NDArray[np.int64]) -> RegionVectors:
        """Return the rows of some of the photos, given by ascending indices."""
        if len(rows) == len(self.counts):
            return self
        is_taken = np.zeros(len(self.counts), dtype=bool)
        is_taken[rows] = True
        return RegionVectors(self.vectors[np.repeat(is_taken, self.counts)], self.counts[rows])

    def best_scores(self, queries: Floats) -> Floats:
        """Return the highest dot product of each photo's regions with each query: (n, queries), NaN without regions."""
        best = np.full((len(self.counts), len(queries)), np.nan, dtype=np.float32)
        if len(self.vectors):
            has_regions = self.counts > 0
            starts = (np.cumsum(self.counts) - self.counts)[has_regions]
            best[has_regions] = np.maximum.reduceat(self.vectors @ queries.T, starts, axis=0)
        return best


class ModelInfo(Protocol):
    """Description of the model that encodes the photos of an index: a `PhotoEncoder`, or an `IndexInfo`."""

    @property
    def fingerprint(self) -> str:
        """Changes whenever the vectors of the same photo would change."""
        ...

    @property
    def model_name(self) -> str:
        """The name or path that opens the photo model again; empty for the default model."""
        ...

    @property
    def dimension(self) -> int: ...
    @property
    def region_dimension(self) -> int: ...


class PhotoEncoder(ModelInfo, Protocol):
    """A model that turns photos into vectors."""

    def encode_photos(self, paths: Iterable[Path]) -> Iterator[tuple[Path, PhotoVectors | PhotoError]]:
        """Yield one result per path, in any order. `paths` is read only as far ahead as photos are decoded."""
        ...


@dataclass(frozen=True)
class IndexInfo:
    """The description that an index stores of itself and of its model."""

    uid: str  # changes on every rebuild, so that caches of the previous contents are recognized
    fingerprint: str
    dimension: int
    region_dimension: int
    model_name: str = ""
    # Each folder or file that was indexed, and where it was then, without links. Empty in older indexes.
    roots: tuple[tuple[str, str], ...] = ()

    def root_of(self, path: Path) -> Path | None:
        """Return the folder, without links, inside which a photo was found; None if that was not recorded."""
        for root, real in sorted(self.roots, key=lambda each: -len(each[0])):
            if path.is_relative_to(root):
                return Path(real)
        return None

    @staticmethod
    def new_entries(model: ModelInfo) -> dict[str, str]:
        """Return the key-value pairs that a new index stores."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "uid": uuid.uuid4().hex,
            "fingerprint": model.fingerprint,
            "dimension": str(model.dimension),
            "region_dimension": str(model.region_dimension),
            "model": model.model_name,
        }

    @classmethod
    def from_entries(cls, entries: dict[str, str], name: str, path: IndexPath) -> IndexInfo:
        """Read stored pairs; `name` is what an error calls damaged, `path` the index to rebuild."""
        if entries.get("format") != FORMAT:
            raise damaged_index("it is not marked as an index", name, path)
        if entries.get("version") != VERSION:
            raise DamagedIndexError(
                f"{name}: has format version {entries.get('version')}, this deixis reads version {VERSION}; "
                f"{_rebuild_hint(path)}"
            )
        try:
            return cls(
                entries["uid"],
                entries["fingerprint"],
                int(entries["dimension"]),
                int(entries["region_dimension"]),
                entries.get("model", ""),
                tuple(sorted(json.loads(entries.get(ROOTS, "{}")).items())),
            )
        except (KeyError, ValueError, AttributeError, RecursionError) as error:
            raise damaged_index(f"{type(error).__name__}: {error}", name, path) from None

    def check_model(self, fingerprint: str, path: IndexPath) -> None:
        """Raise an error if another model filled the index: vectors of two models are not comparable."""
        if self.fingerprint != fingerprint:
            name = f"{self.model_name} " if self.model_name else ""
            raise DeixisError(
                f"{hide_password(path)}: its photos were encoded by another model "
                f"({name}{self.fingerprint[:16]}, not {fingerprint[:16]}); {_rebuild_hint(path)}, "
                "with --model MODEL to change it"
            )


def damaged_index(problem: str, name: str, path: IndexPath) -> DamagedIndexError:
    """Return the error for a damaged index, which says how to rebuild it."""
    return DamagedIndexError(f"{name}: damaged ({problem}); {_rebuild_hint(path)}")


def _rebuild_hint(path: IndexPath) -> str:
    return f"rebuild it with: deixis index FOLDER{place_option(path, '--into')} --rebuild"


class Cursor(Protocol):
    """The rows of a statement."""

    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A database that executes the SQL shared by SQLite and PostgreSQL and stores vectors in its own way."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Cursor:
        """Execute one statement, with a ``?`` for each value."""
        ...

    def pipeline(self) -> AbstractContextManager[object]:
        """Return a block whose statements are sent without waiting for each answer, where that saves time."""
        ...

    def folder_number(self, path: bytes) -> int:
        """Return the number of a folder, adding it if it is new."""
        ...

    def insert_encoded(self, number: int, encoded: PhotoVectors) -> None:
        """Store the vectors, regions and thumbnail of a photo."""
        ...

    def delete_encoded(self, number: int) -> None:
        """Delete them, and record the number as removed for readers that cache vectors."""
        ...

    def whole_vectors(self, numbers: Iterable[int]) -> dict[int, Floats]:
        """Return the vectors of whole photos, without those that were removed."""
        ...

    def thumbnail_of(self, number: int) -> bytes | None: ...

    def regions_of(self, numbers: Iterable[int], dimension: int) -> StoredRegions:
        """Return the regions of photos, without entries for photos that have none."""
        ...


ConnectionT = TypeVar("ConnectionT", bound=Connection)


def write_entry(connection: Connection, key: str, value: str) -> None:
    """Store an entry of the description of an index, or replace it."""
    statement = "INSERT INTO about (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    connection.execute(statement, (key, value))


def read_entry(connection: Connection, key: str) -> str | None:
    """Read an entry of the description of an index."""
    found = connection.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
    return found[0] if found else None


class IndexWriter(ABC, Generic[ConnectionT]):
    """An index that is locked for writing, transaction by transaction."""

    is_shared = False
    """Whether other processes may write too, possibly on machines with other files."""

    begin_statement = "BEGIN"
    database_error: type[Exception]

    def __init__(self, connection: ConnectionT) -> None:
        self.connection = connection

    def begin(self) -> None:
        self.connection.execute(self.begin_statement)

    def commit(self) -> None:
        """End the transaction, written to disk; release the claims of what was settled."""
        self.connection.execute("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction, if one is open."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def can_commit(self, error: BaseException) -> bool:
        """Return whether what was written before an error can still be committed.

        Without memory, the statements of a photo that was being written may not have been undone.
        """
        return self.connection.in_transaction and not isinstance(error, (self.database_error, MemoryError))

    def claim(self, sha256: bytes) -> bool:
        """Claim the content of a file; False if another process is encoding it now."""
        return True

    def settle(self, sha256: bytes) -> None:
        """Release a claim at the next commit."""

    def photos_committed(self, count: int) -> None:
        """Do periodic maintenance between transactions."""

    @abstractmethod
    def finish(self) -> None:
        """Prepare for fast searching after the last transaction."""


@contextmanager
def savepoint(connection: Connection) -> Iterator[None]:
    """Undo the statements of the block together if it fails, within a transaction."""
    started = False
    try:
        with connection.pipeline():
            connection.execute("SAVEPOINT step")
            started = True
            yield
            connection.execute("RELEASE step")
    except BaseException:
        if started and connection.in_transaction:  # a full disk may have ended it already
            connection.execute("ROLLBACK TO step")
            connection.execute("RELEASE step")
        raise
