"""What searching needs of the photos, as arrays: read from the database, or mapped from the cache."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deixis.index.about import About, damaged
from deixis.index.codes import Basis, Codes, fit_basis
from deixis.index.seeing import Floats

_AT_ONCE = 512
_SAMPLE = 4000
"""Photos whose regions say along which axes regions differ."""


@dataclass(frozen=True)
class Rows:
    """Some photos, by ascending number.

    Attributes
    ----------
    ids : array of int64, (n,)
    whole : array of float32, (n, dimension)
    counts : array of int64, (n,)
        Regions of each photo.
    codes : array of int8, (regions, width)
        Of the regions of all photos, one photo after another.
    """

    ids: NDArray[np.int64]
    whole: Floats
    counts: NDArray[np.int64]
    codes: Codes

    def __len__(self) -> int:
        return len(self.ids)


def joined(parts: list[Rows]) -> Rows:
    """Several as one; there must be at least one."""
    return Rows(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.whole for part in parts]),
        np.concatenate([part.counts for part in parts]),
        np.concatenate([part.codes for part in parts]),
    )


def read_rows(connection: sqlite3.Connection, path: Path, about: About, basis: Basis, after: int = 0) -> Iterator[Rows]:
    """Photos with numbers above `after`, a few hundred at a time; `path` is what to call damaged."""
    while True:
        photos = connection.execute(
            "SELECT photo, whole, (SELECT vectors FROM regions r WHERE r.photo = v.photo) FROM vectors v "
            "WHERE photo > ? ORDER BY photo LIMIT ?",
            (after, _AT_ONCE),
        ).fetchall()
        if not photos:
            return
        after = photos[-1][0]
        yield _encoded(photos, path, about, basis)


def _encoded(photos: list[tuple[int, bytes, bytes | None]], path: Path, about: About, basis: Basis) -> Rows:
    dimension, region_bytes = about.dimension, 2 * about.region_dimension
    ids = np.array([number for number, _, _ in photos], dtype=np.int64)
    counts = np.array([len(regions or b"") // region_bytes for _, _, regions in photos], dtype=np.int64)
    for number, whole, regions in photos:
        if len(whole) != 4 * dimension or len(regions or b"") % region_bytes:
            raise damaged(f"the vectors of photo {number} have another length than the model's", str(path), path.parent)
    together = b"".join(regions or b"" for _, _, regions in photos)
    vectors = np.frombuffer(together, dtype="<f2").reshape(-1, about.region_dimension)
    whole_vectors = np.frombuffer(b"".join(whole for _, whole, _ in photos), dtype="<f4").reshape(-1, dimension)
    return Rows(ids, whole_vectors.astype(np.float32), counts, basis.encode(vectors.astype(np.float32)))


def photos_with_regions(connection: sqlite3.Connection) -> list[int]:
    """Their numbers."""
    return [row[0] for row in connection.execute("SELECT id FROM photos WHERE regions > 0 ORDER BY id")]


def basis_of(connection: sqlite3.Connection, numbers: list[int], dimension: int) -> Basis:
    """Axes for the regions of these photos; any will do as long as there are none."""
    step = max(len(numbers) // _SAMPLE, 1)
    sample = []
    for number in numbers[::step]:
        found = connection.execute("SELECT vectors FROM regions WHERE photo = ?", (number,)).fetchone()
        if found is not None and len(found[0]) % (2 * dimension) == 0:
            sample.append(np.frombuffer(found[0], dtype="<f2").reshape(-1, dimension))
    vectors = np.concatenate(sample) if sample else np.eye(dimension)
    return fit_basis(vectors.astype(np.float32))
