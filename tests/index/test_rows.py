"""Photos as arrays, read from the database."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.index import rows as rows_module
from deixis.index import update_index
from deixis.index.database import About, open_to_write
from deixis.index.rows import basis_of, joined, photos_with_regions, read_rows
from tests.index.fakes import DIMENSION, ColourSeer, photos

ABOUT = About("one", "colours-1", DIMENSION, DIMENSION)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    photos(tmp_path / "photos", 7)
    update_index(tmp_path / "index", [tmp_path / "photos"], ColourSeer())
    return tmp_path / "index"


def test_photos_come_in_order_and_in_parts(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "_AT_ONCE", 3)
    with closing(open_to_write(index)) as connection:
        basis = basis_of(connection, photos_with_regions(connection), DIMENSION)
        parts = list(read_rows(connection, index / "index.sqlite", ABOUT, basis))
        later = list(read_rows(connection, index / "index.sqlite", ABOUT, basis, after=6))
    assert [len(part) for part in parts] == [3, 3, 1]
    together = joined(parts)
    assert together.ids.tolist() == list(range(1, 8))
    assert together.counts.tolist() == [2] * 7
    assert together.codes.shape == (14, DIMENSION)
    assert [part.ids.tolist() for part in later] == [[7]]
    assert np.array_equal(later[0].whole[0], together.whole[6])


@pytest.mark.parametrize("statement", ["UPDATE vectors SET whole = x'00'", "UPDATE regions SET vectors = x'0000'"])
def test_a_vector_of_another_length_is_one_line(index: Path, statement: str) -> None:
    with closing(open_to_write(index)) as connection:
        basis = basis_of(connection, photos_with_regions(connection), DIMENSION)
        connection.execute(f"{statement} WHERE photo = 3")
        with pytest.raises(DeixisError, match="damaged .the vectors of photo 3 have another length.*--rebuild$"):
            list(read_rows(connection, index / "index.sqlite", ABOUT, basis))


def test_axes_can_be_chosen_where_there_are_no_regions(index: Path) -> None:
    with closing(open_to_write(index)) as connection:
        assert basis_of(connection, [], DIMENSION).axes.shape == (DIMENSION, DIMENSION)
