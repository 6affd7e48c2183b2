"""What a reader knows: brought up to date by what is new, whatever it was before."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np

from deixis.index import update_index
from deixis.index.database import open_to_read
from deixis.index.snapshot import Snapshot, refreshed
from tests.index.fakes import ColourSeer, photo, photos


def same(one: Snapshot, other: Snapshot) -> bool:
    rows, others = np.flatnonzero(one.living), np.flatnonzero(other.living)
    query = np.ones(one.about.dimension, dtype=np.float32)
    return (
        one.ids[rows].tolist() == other.ids[others].tolist()
        and np.array_equal(one.whole(rows), other.whole(others))
        and np.allclose(one.whole_scores(query)[rows], other.whole_scores(query)[others])
        and int(one.living[one.region_rows].sum()) == int(other.living[other.region_rows].sum())
    )


def test_a_snapshot_that_is_refreshed_is_as_one_that_is_read_anew(tmp_path: Path) -> None:
    photos(tmp_path / "photos", 10)
    index = tmp_path / "index"
    update_index(index, [tmp_path / "photos"], ColourSeer())
    with closing(open_to_read(index)) as connection:
        kept: Snapshot | None = None
        for step in range(25):
            photo(tmp_path / "photos" / f"new{step}.png", 100 + step)
            if step % 3 == 0:
                (tmp_path / "photos" / f"{step // 3:03}.png").unlink()
            update_index(index, [tmp_path / "photos"], ColourSeer())
            for path in (index / "cache").iterdir() if step % 4 else []:
                path.unlink()
            kept = refreshed(index, connection, kept)
            assert same(kept, refreshed(index, connection, None))
            assert int(kept.living.sum()) == 10 + step + 1 - (step // 3 + 1)


def test_nothing_new_is_nothing_to_do(tmp_path: Path) -> None:
    photos(tmp_path / "photos", 3)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourSeer())
    with closing(open_to_read(tmp_path / "index")) as connection:
        first = refreshed(tmp_path / "index", connection, None)
        assert refreshed(tmp_path / "index", connection, first) is first


def test_an_index_begun_anew_is_read_anew(tmp_path: Path) -> None:
    photos(tmp_path / "photos", 3)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourSeer())
    with closing(open_to_read(tmp_path / "index")) as connection:
        first = refreshed(tmp_path / "index", connection, None)
        update_index(tmp_path / "index", [tmp_path / "photos"], ColourSeer(), rebuild=True)
        for path in (tmp_path / "index" / "cache").iterdir():
            path.unlink()
        second = refreshed(tmp_path / "index", connection, first)
    assert first.about.uid != second.about.uid
    assert int(second.living.sum()) == 3
    assert set(second.ids.tolist()).isdisjoint(first.ids.tolist())
