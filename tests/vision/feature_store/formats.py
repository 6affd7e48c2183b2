"""The same features in all supported file formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.io import savemat

NAMES = ["1000268201_693b08cb0e.jpg", "images/holiday.jpg", "25.png"]
PHOTOS = ["1000268201_693b08cb0e", "holiday", "25"]
MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)


def write_hdf5(path: Path, values: Mapping[str, object]) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed: no HDF5 to test")
    with h5py.File(path, "w") as file:
        for name, value in values.items():
            file[name] = value


def write_matlab_73(path: Path, names: list[str], matrix: np.ndarray) -> None:
    """As MATLAB does: a header of 512 bytes, transposed matrices, cells that refer to arrays of letters."""
    h5py = pytest.importorskip("h5py", reason="h5py is not installed: no MATLAB 7.3 to test")
    with h5py.File(path, "w", userblock_size=512) as file:
        file["feats"] = matrix.T
        letters = [file.create_dataset(f"#refs#/{n}", data=[[ord(c)] for c in name]) for n, name in enumerate(names)]
        cells = file.create_dataset("names", (1, len(names)), dtype=h5py.ref_dtype)
        for place, letter in enumerate(letters):
            cells[0, place] = letter.ref
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(512, b" "))


FORMATS: dict[str, Callable[[Path], None]] = {
    "keyed.npz": lambda path: np.savez(path, **dict(zip(PHOTOS, MATRIX, strict=True))),
    "listed.npz": lambda path: np.savez_compressed(path, feats=MATRIX, names=np.array(NAMES)),
    "bytes.npz": lambda path: np.savez(path, feats=MATRIX.astype(np.float64), ids=np.array(NAMES, dtype="S")),
    "several.npz": lambda path: np.savez(path, Features=MATRIX, other=np.eye(3), names=np.array(NAMES)),
    "keyed.safetensors": lambda path: save_file(dict(zip(NAMES, MATRIX, strict=True)), path),
    "listed.safetensors": lambda path: save_file({"x": MATRIX.astype(np.float16)}, path, {"ids": json.dumps(NAMES)}),
    "listed.h5": lambda path: write_hdf5(path, {"feats": MATRIX, "ids": NAMES}),
    "keyed.h5": lambda path: write_hdf5(path, dict(zip(PHOTOS, MATRIX, strict=True))),
    "columns.mat": lambda path: savemat(path, {"feats": MATRIX.T, "names": np.array(NAMES, dtype=object)}),
    "rows.mat": lambda path: savemat(path, {"feats": MATRIX, "names": np.array(NAMES, dtype=object)}),
    "rows73.mat": lambda path: write_matlab_73(path, NAMES, MATRIX),
    "columns73.mat": lambda path: write_matlab_73(path, NAMES, MATRIX.T),
}
