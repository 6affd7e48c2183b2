"""An index that workers compute equals that of one process."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deixis import cluster as workers_module
from deixis.cluster import ClusterEncoder, ClusterWorkers, check_shared, cluster_metadata_reader
from deixis.data import samples
from deixis.errors import DeixisError, PhotoError
from deixis.search.collection import search_encoder
from deixis.search.encoder import PHOTO_MODEL
from deixis.search.index import update_index
from deixis.search.index.sqlite import DATABASE

TABLES = ("folders", "photos", "thumbnails", "skipped", "removed")
ARRAYS = {"vectors": ["<f4"], "regions": ["<f4", "<f2"]}


def rows_of(index: Path, table: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(index / DATABASE) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()


def assert_close(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]], *types: str) -> None:
    """Rows of a photo's number and arrays of these types, equal up to rounding, which depends on the batches."""
    for (photo, *arrays), (number, *others) in zip(found, expected, strict=True):
        assert photo == number
        # After the arrays come their checksums.
        for one, other, kind in zip(arrays, others, types, strict=False):
            np.testing.assert_allclose(np.frombuffer(one, kind), np.frombuffer(other, kind), rtol=2e-3, atol=1e-3)


def test_the_index_equals_that_of_one_process(
    workers: ClusterWorkers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = tmp_path / "photos"
    shutil.copytree(Path(samples.__file__).parent / "images", photos)
    some = sorted(path for path in photos.iterdir() if path.suffix == ".jpg")
    shutil.copy(some[0], photos / "a copy.jpg")
    (photos / "bad.jpg").write_bytes(b"no photo")
    alone = update_index(tmp_path / "alone", [photos], search_encoder(PHOTO_MODEL))
    monkeypatch.setattr(workers_module, "PART", 4)
    encoder, read = ClusterEncoder(workers, search_encoder(PHOTO_MODEL)), cluster_metadata_reader(workers)
    many = update_index(tmp_path / "many", [photos], encoder, read_metadata=read)
    assert (many.added, [str(error) for error in many.skipped]) == (
        alone.added,
        [str(error) for error in alone.skipped],
    )
    assert len(rows_of(tmp_path / "many", "vectors")) == many.added > 4
    rows = {table: [rows_of(tmp_path / name, table) for name in ("many", "alone")] for table in (*TABLES, *ARRAYS)}
    assert all(rows[table][0] == rows[table][1] for table in TABLES)
    for table, types in ARRAYS.items():
        assert_close(*rows[table], *types)
    again = update_index(tmp_path / "many", [photos], encoder, read_metadata=read)
    assert (again.added, again.unchanged) == (0, many.added)


def test_a_photo_that_workers_cannot_access_is_an_error(tmp_path: Path) -> None:
    here = tmp_path / "a.jpg"
    here.touch()
    check_shared(here, PhotoError(here, "not a photo in a known format"))
    check_shared(tmp_path / "gone.jpg", PhotoError(tmp_path / "gone.jpg", "no such file"))
    with pytest.raises(DeixisError, match=r"a\.jpg"):
        check_shared(here, PhotoError(here, "cannot be read (No such file or directory)"))
