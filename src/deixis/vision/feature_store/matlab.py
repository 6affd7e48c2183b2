"""Read MATLAB files up to version 7.2 in a subprocess, because SciPy crashes on some damaged files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DatasetError


def read_matlab(path: Path, scratch: Path) -> dict[str, NDArray[Any]]:
    """Return the numeric and text variables of a file by name, memory-mapped from a scratch folder.

    Parameters
    ----------
    path
        The file.
    scratch
        Empty folder that must exist as long as the variables are used.
    """
    command = [sys.executable, "-m", __name__, str(path), str(scratch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - runs this module
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()[-1:] or ["the reader crashed"]
        raise DatasetError(f"{path}: cannot be read ({lines[0][:200]})")
    names: list[str] = json.loads(done.stdout)
    return {
        name: np.load(scratch / f"{number}.npy", mmap_mode="r", allow_pickle=False) for number, name in enumerate(names)
    }


def main(path: str, scratch: str) -> None:
    """Write each numeric or text variable to a file and print the names."""
    from scipy.io import loadmat

    names: list[str] = []
    for name, value in loadmat(path, simplify_cells=True).items():
        array = np.asanyarray(value)
        if array.dtype.kind == "O" and all(isinstance(word, str) for word in array.flat):
            array = array.astype(str)
        if array.dtype.kind in "fiuUS" and not name.startswith("__"):
            np.save(Path(scratch) / f"{len(names)}.npy", array, allow_pickle=False)
            names.append(name)
    print(json.dumps(names))


if __name__ == "__main__":
    main(*sys.argv[1:])
