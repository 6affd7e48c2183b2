"""Files of features: which matrix is meant, which way it lies, and files that only pretend."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from deixis.errors import DeixisError
from deixis.vision.store import tables
from deixis.vision.store.tables import open_table
from tests.vision.store.formats import MATRIX, NAMES, write_matlab_73


def test_a_square_matrix_has_a_row_for_each_photo(tmp_path: Path) -> None:
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    savemat(tmp_path / "a.mat", {"feats": square, "names": np.array(NAMES, dtype=object)})
    with open_table(tmp_path / "a.mat") as table:
        assert np.array_equal(table.rows(0, 3), square)


def test_a_square_matrix_of_matlab_7_3_has_a_row_for_each_photo_as_matlab_sees_it(tmp_path: Path) -> None:
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    write_matlab_73(tmp_path / "a.mat", NAMES, square)
    with open_table(tmp_path / "a.mat") as table:
        assert np.array_equal(table.rows(1, 3), square[1:])


def test_two_matrices_that_could_both_be_meant_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", one=MATRIX, two=MATRIX, names=np.array(NAMES))
    words = r"several matrices \(one 3×4, two 3×4\); call the one that is meant features"
    with pytest.raises(DeixisError, match=words), open_table(tmp_path / "a.npz"):
        pass


def test_an_archive_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SMALL", 2**20)
    np.savez_compressed(tmp_path / "a.npz", feats=np.zeros((1000, 1000)))
    with pytest.raises(DeixisError, match="refused, it would unpack to 8 MB"), open_table(tmp_path / "a.npz"):
        pass


def test_hdf5_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n and so on")
    with (
        pytest.raises(DeixisError, match="a.h5: HDF5 needs a package: pip install h5py"),
        open_table(tmp_path / "a.h5"),
    ):
        pass


def test_damaged_hdf5_is_one_line(tmp_path: Path) -> None:
    pytest.importorskip("h5py", reason="h5py is not installed: no HDF5 to test")
    (tmp_path / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n and so on")
    with pytest.raises(DeixisError, match=r"a.h5: cannot be read"), open_table(tmp_path / "a.h5"):
        pass
