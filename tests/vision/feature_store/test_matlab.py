"""MATLAB files are read in a subprocess."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from deixis.errors import DatasetError
from deixis.vision.feature_store.matlab import read_matlab
from tests.vision.feature_store.formats import MATRIX, NAMES


@pytest.fixture
def file(tmp_path: Path) -> Path:
    savemat(tmp_path / "a.mat", {"feats": MATRIX, "names": np.array(NAMES, dtype=object), "other": {"a": 1}})
    return tmp_path / "a.mat"


def test_numbers_and_words_come_back_and_the_rest_does_not(file: Path, tmp_path: Path) -> None:
    found = read_matlab(file, tmp_path)
    assert sorted(found) == ["feats", "names"]
    assert np.array_equal(found["feats"], MATRIX)
    assert found["names"].tolist() == NAMES


def test_a_crash_of_the_reader_names_the_file(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(DatasetError, match="a.mat: "):
        read_matlab(file, tmp_path)


def test_damage_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "a.mat").write_bytes(b"MATLAB 5.0 MAT-file" + bytes(200))
    with pytest.raises(DatasetError, match=r"^[^\n]*a.mat: [^\n]+$"):
        read_matlab(tmp_path / "a.mat", tmp_path)


def test_the_subprocess_prints_no_warnings(file: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deixis.vision.feature_store.matlab", str(file), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
