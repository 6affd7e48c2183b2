"""An index whose photos were read and seen by workers holds what one process would have written."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from deixis.data import samples
from deixis.errors import DeixisError, PhotoError
from deixis.index import update_index
from deixis.index.database import DATABASE
from deixis.tasks.bulk import workers as workers_module
from deixis.tasks.bulk.seeing import SeerOfWorkers, facts_by
from deixis.tasks.bulk.workers import Workers, refuse_unshared
from deixis.tasks.search.searching import shipped_seer

TABLES = ("folders", "photos", "vectors", "regions", "thumbnails", "skipped", "removed")


def rows_of(index: Path) -> dict[str, list[tuple[object, ...]]]:
    with sqlite3.connect(index / DATABASE) as connection:
        return {table: connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES}


def test_the_rows_are_those_of_one_process(workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = tmp_path / "photos"
    shutil.copytree(Path(samples.__file__).parent / "images", photos)
    some = sorted(path for path in photos.iterdir() if path.suffix == ".jpg")
    shutil.copy(some[0], photos / "a copy.jpg")
    (photos / "bad.jpg").write_bytes(b"no photo")
    alone = update_index(tmp_path / "alone", [photos], shipped_seer())
    monkeypatch.setattr(workers_module, "PART", 4)
    seer, read = SeerOfWorkers(workers, shipped_seer()), facts_by(workers)
    many = update_index(tmp_path / "many", [photos], seer, read=read)
    assert (many.added, [str(error) for error in many.skipped]) == (
        alone.added,
        [str(error) for error in alone.skipped],
    )
    assert len(rows_of(tmp_path / "many")["vectors"]) == many.added > 4
    assert rows_of(tmp_path / "many") == rows_of(tmp_path / "alone")
    again = update_index(tmp_path / "many", [photos], seer, read=read)
    assert (again.added, again.unchanged) == (0, many.added)


def test_a_photo_that_only_workers_do_not_see_is_told(tmp_path: Path) -> None:
    here = tmp_path / "a.jpg"
    here.touch()
    refuse_unshared(here, PhotoError(here, "not a photo in a known format"))
    refuse_unshared(tmp_path / "gone.jpg", PhotoError(tmp_path / "gone.jpg", "no such file"))
    with pytest.raises(DeixisError, match=r"a\.jpg: a worker does not see this photo"):
        refuse_unshared(here, PhotoError(here, "cannot be read (No such file or directory)"))
