"""Opening an index, in a folder or in a database, for reading or for writing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from deixis.arrays import Floats
from deixis.search.index.base import IndexInfo, IndexPath, IndexWriter, ModelInfo
from deixis.search.index.folder import FolderReader, open_folder_writer
from deixis.search.index.photo_files import absolute_path
from deixis.search.index.records import IndexedPhoto, PhotoFilter
from deixis.search.index.snapshot import SHORTLIST, Grouping, IndexSnapshot, Match
from deixis.storage.sql import is_postgres


class IndexReader(Protocol):
    """An index that is open for reading."""

    def snapshot(self) -> AbstractContextManager[IndexSnapshot]:
        """Give the current state of the index."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...


class PhotoIndex:
    """An index that `update_index` has filled, open for searching from any number of threads.

    Each method sees what was committed when it was called. `snapshot` is for several reads of one state.

    Parameters
    ----------
    path
        The folder of the index, or the address of its database.
    fingerprint
        Of the model whose vectors are searched for; an index of another model is an error. None accepts any.

    Examples
    --------
    >>> with PhotoIndex("photos.deixis") as photos:  # doctest: +SKIP
    ...     photos.search(query, top=5)[0].path
    """

    def __init__(self, path: IndexPath, *, fingerprint: str | None = None) -> None:
        self.path = path
        self.fingerprint = fingerprint
        self._reader = _open_reader(path)
        try:
            with self.snapshot():
                pass
        except BaseException:
            self.close()
            raise

    @contextmanager
    def snapshot(self) -> Iterator[IndexSnapshot]:
        """Give the current state; an error if another model has rebuilt the index meanwhile."""
        with self._reader.snapshot() as snapshot:
            if self.fingerprint is not None:
                snapshot.info.check_model(self.fingerprint, self.path)
            yield snapshot

    def close(self) -> None:
        """Close files and connections."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of photos."""
        with self.snapshot() as snapshot:
            return snapshot.count()

    @property
    def info(self) -> IndexInfo:
        """The description of the index."""
        with self.snapshot() as snapshot:
            return snapshot.info

    def search(
        self,
        query: ArrayLike,
        top: int = 10,
        *,
        photo_filter: PhotoFilter | None = None,
        grouping: Grouping | None = None,
    ) -> list[Match]:
        """Search whole photos; see `IndexSnapshot.search`."""
        with self.snapshot() as snapshot:
            return snapshot.search(query, top, photo_filter=photo_filter, grouping=grouping)

    def search_regions(
        self,
        query: ArrayLike,
        top: int = 10,
        *,
        photo_filter: PhotoFilter | None = None,
        grouping: Grouping | None = None,
        shortlist: int = SHORTLIST,
    ) -> list[Match]:
        """Search regions; see `IndexSnapshot.search_regions`."""
        with self.snapshot() as snapshot:
            return snapshot.search_regions(
                query, top, photo_filter=photo_filter, grouping=grouping, shortlist=shortlist
            )

    def photo(self, number: int) -> IndexedPhoto:
        """Return the photo with a number."""
        with self.snapshot() as snapshot:
            return snapshot.photo(number)

    def photo_at(self, path: str | os.PathLike[str]) -> IndexedPhoto | None:
        """Return the photo at a path, or None."""
        with self.snapshot() as snapshot:
            return snapshot.photo_at(absolute_path(path))

    def newest(self, count: int, begin: int = 0) -> list[IndexedPhoto]:
        """Return `count` photos by descending number, after the first `begin`."""
        with self.snapshot() as snapshot:
            return snapshot.newest(count, begin)

    def vector_of(self, number: int) -> Floats:
        """Return the vector of a whole photo."""
        with self.snapshot() as snapshot:
            return snapshot.vector_of(number)

    def regions_of(self, number: int) -> tuple[Floats, Floats]:
        """Return the boxes and vectors of a photo's regions."""
        with self.snapshot() as snapshot:
            return snapshot.regions_of(number)

    def thumbnail(self, number: int) -> bytes | None:
        """Return a small JPEG of a photo, if one was stored."""
        with self.snapshot() as snapshot:
            return snapshot.thumbnail(number)


def _open_reader(path: IndexPath) -> IndexReader:
    if not is_postgres(path):
        return FolderReader(Path(path))
    from deixis.search.index.postgres import PostgresReader

    return PostgresReader(os.fspath(path))


@contextmanager
def open_writer(path: IndexPath, model: ModelInfo, rebuild: bool = False) -> Iterator[IndexWriter]:
    """Open an index for the vectors of a model, creating it if there is none.

    An index of another model, or a damaged one, is an error; with `rebuild` it is emptied first.
    """
    if not is_postgres(path):
        with open_folder_writer(Path(path), model, rebuild) as writer:
            yield writer
        return
    from deixis.search.index.postgres import open_postgres_writer

    with open_postgres_writer(os.fspath(path), model, rebuild) as shared_writer:
        yield shared_writer


def combine_vectors(vectors: ArrayLike, weights: Sequence[float] | None = None) -> Floats:
    """Combine several vectors into one query: a weighted sum of unit vectors, of unit length.

    Examples
    --------
    >>> combine_vectors([[3, 0], [0, 1]], [3, -4])
    array([ 0.6, -0.8], dtype=float32)
    """
    rows = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    combined = np.asarray([1.0] * len(rows) if weights is None else weights, dtype=np.float32) @ unit
    return np.asarray(combined / max(float(np.linalg.norm(combined)), 1e-12), dtype=np.float32)
