"""Read arrays from feature files of other programs: npy, npz, HDF5, MATLAB and safetensors.

To add a container, write one function and add a line to `READERS`.
"""

from __future__ import annotations

import importlib
import json
import math
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DatasetError, short_reason
from deixis.storage.archives import MAX_RATIO
from deixis.storage.checksums import READ_ERRORS, CheckedFile, TensorFile

ID_NAMES = ("ids", "names", "files", "filenames", "file_names", "images", "image_ids", "photo_ids", "id")
"""Accepted names of the list of photo names."""

SAFE_BYTES = 2**30
"""Archives up to this unpacked size are not checked for zip bombs."""

_HDF5 = b"\x89HDF\r\n\x1a\n"
_MATLAB_HEADER = 512
"""Size of the header of a MATLAB file of version 7.3, before the HDF5 part."""


@dataclass(frozen=True)
class Arrays:
    """Numeric arrays of a file by name, or GROUP/NAME, in memory or on disk, and lists of strings."""

    path: Path
    numbers: Mapping[str, Any]
    words: Mapping[str, list[str]]
    ids: list[str] | None  # photo names that the user gave

    @property
    def top_level(self) -> dict[str, Any]:
        return {name: array for name, array in self.numbers.items() if "/" not in name}

    @property
    def groups(self) -> dict[str, dict[str, Any]]:
        groups: dict[str, dict[str, Any]] = {}
        for name, array in self.numbers.items():
            first, slash, last = name.rpartition("/")
            if slash:
                groups.setdefault(first, {})[last] = array
        return groups

    @property
    def names(self) -> list[str]:
        """The photo names: those that the user gave, or a list of strings or integers in the file."""
        if self.ids is not None:
            return self.ids
        for name in ID_NAMES:
            for key, words in self.words.items():
                if key.lower() == name:
                    return words
            for key, numbers in self.numbers.items():
                if key.lower() == name and math.prod(numbers.shape) == max(numbers.shape, default=0):
                    return [str(int(number)) for number in np.ravel(numbers[:])]
        if len(self.words) == 1:
            return next(iter(self.words.values()))
        raise DatasetError(f"{self.path}: does not name the photo of each row; use --ids FILE with one name per line")


def list_shapes(arrays: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {'×'.join(map(str, array.shape))}" for name, array in arrays.items())


def find_array(arrays: Mapping[str, Any], names: Sequence[str]) -> Any | None:
    """Return the first array with one of these names, in any case."""
    by_name = {name.lower(): array for name, array in arrays.items()}
    return next((by_name[name] for name in names if name in by_name), None)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn errors of libraries into a `DatasetError` that names the file."""
    if not path.is_file():
        raise DatasetError(f"{path}: no such file")
    try:
        yield
    except READ_ERRORS as error:
        raise DatasetError(f"{path}: cannot be read ({short_reason(error) or type(error).__name__})") from error


@contextmanager
def open_arrays(path: Path, ids: list[str] | None = None) -> Iterator[Arrays]:
    """Open a file of arrays. The format is detected from the first bytes; large arrays are read on access."""
    with ExitStack() as stack:
        with readable(path):
            with path.open("rb") as file:
                head = file.read(_MATLAB_HEADER + len(_HDF5))
            read = next((read for matches, read in READERS if matches(head)), None)
            if read is None:
                raise DatasetError(f"{path}: unknown format; use npy, npz, h5, mat or safetensors")
            numbers, words = read(path, stack)
        if read is _read_hdf5 and head.startswith(b"MATLAB"):  # column-major: the axes are reversed
            numbers = {name: _Reversed(array) for name, array in numbers.items()}
        yield Arrays(path, numbers, words, ids)


Found = tuple[dict[str, Any], dict[str, list[str]]]
"""Numeric arrays and lists of strings."""


def _read_npy(path: Path, stack: ExitStack) -> Found:
    return _separate({"features": np.load(path, mmap_mode="r", allow_pickle=False)})


def _read_npz(path: Path, stack: ExitStack) -> Found:
    with zipfile.ZipFile(path) as members:
        unpacked = sum(member.file_size for member in members.infolist())
    if unpacked > SAFE_BYTES and unpacked > MAX_RATIO * path.stat().st_size:
        raise DatasetError(f"{path}: refused, it would unpack to {unpacked / 2**20:,.0f} MB")
    arrays = {}
    with np.load(path, allow_pickle=False) as archive:
        for name in archive.files:
            try:
                arrays[name] = archive[name]
            except ValueError:
                raise DatasetError(f"{path}: {name} contains Python objects; save numeric arrays instead") from None
    return _separate(arrays)


def _read_hdf5(path: Path, stack: ExitStack) -> Found:
    try:
        h5py: Any = importlib.import_module("h5py")
    except ImportError:
        raise DatasetError(f"{path}: HDF5 requires a package: pip install h5py") from None
    file = stack.enter_context(h5py.File(path, "r"))
    numbers: dict[str, Any] = {}
    words: dict[str, list[str]] = {}
    for name, item in file.items():
        if not isinstance(name, str) or name.startswith("#"):  # bytes if not UTF-8; cells of MATLAB are below #refs#
            continue
        if isinstance(item, h5py.Group):
            found = {f"{name}/{key}": value for key, value in item.items() if isinstance(key, str)}
            numbers |= {key: value for key, value in found.items() if _is_numeric(h5py, value)}
        elif _is_numeric(h5py, item):
            numbers[name] = item
        elif isinstance(item, h5py.Dataset) and h5py.check_string_dtype(item.dtype) is not None:
            words[name] = [word.strip() for word in np.ravel(item.asstr()[()]).tolist()]
        elif isinstance(item, h5py.Dataset) and h5py.check_ref_dtype(item.dtype) is not None:
            # MATLAB cell arrays of text: each cell refers to an array of UTF-16 codes.
            cells = [file[ref] for ref in np.ravel(item[()])]
            if all(cell.dtype.kind in "iu" for cell in cells):
                words[name] = ["".join(map(chr, np.ravel(cell[()]))) for cell in cells]
    return numbers, words


def _is_numeric(h5py: Any, item: object) -> bool:
    return isinstance(item, h5py.Dataset) and item.dtype.kind in "fiu"


def _read_matlab(path: Path, stack: ExitStack) -> Found:
    return _separate(unpack_matlab(path, Path(stack.enter_context(tempfile.TemporaryDirectory()))))


def unpack_matlab(path: Path, scratch: Path) -> dict[str, NDArray[Any]]:
    """Return numeric and text variables, mapped from an empty scratch folder; by a process, because SciPy may crash."""
    code = f"import sys; from {__name__} import _save_variables; _save_variables(*sys.argv[1:])"
    command = [sys.executable, "-c", code, str(path), str(scratch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - runs this module
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()[-1:] or ["the reader crashed"]
        raise DatasetError(f"{path}: cannot be read ({lines[0][:200]})")
    names = json.loads(done.stdout)
    return {name: np.load(scratch / f"{n}.npy", mmap_mode="r", allow_pickle=False) for n, name in enumerate(names)}


def _save_variables(path: str, scratch: str) -> None:
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


def _separate(values: Mapping[str, Any]) -> Found:
    """Separate numeric and string arrays; skip others."""
    numbers, words = {}, {}
    for name, value in values.items():
        array = np.asanyarray(value)
        if array.dtype.kind in "fiu":
            numbers[name] = array
        elif array.dtype.kind in "US":
            decoded = (word.decode("utf-8") if isinstance(word, bytes) else word for word in array.ravel().tolist())
            words[name] = [word.strip() for word in decoded]
    return numbers, words


def _read_safetensors(path: Path, stack: ExitStack) -> Found:
    file = TensorFile(CheckedFile(path, None))
    words = {}
    for name in ID_NAMES:
        if name in file.metadata:
            ids = json.loads(file.metadata[name])
            if not isinstance(ids, list) or not all(type(word) in (str, int) for word in ids):
                raise DatasetError(f"{path}: {name} is not a list of names")
            words[name] = list(map(str, ids))
    return {name: file.array(name) for name in file.layout}, words


class _Reversed:
    """An array of an HDF5 file with reversed axes, read on access."""

    def __init__(self, array: Any) -> None:
        self._array = array
        self.shape: tuple[int, ...] = array.shape[::-1]
        self.ndim = len(self.shape)

    def __getitem__(self, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        return np.asarray(self._array[(*(slice(None),) * (self.ndim - len(keys)), *keys[::-1])]).T

    def __len__(self) -> int:
        return int(self.shape[0])


READERS: tuple[tuple[Callable[[bytes], bool], Callable[[Path, ExitStack], Found]], ...] = (
    (lambda head: head.startswith(b"\x93NUMPY"), _read_npy),
    (lambda head: head.startswith(b"PK"), _read_npz),
    (lambda head: head.startswith(_HDF5) or head[_MATLAB_HEADER:] == _HDF5, _read_hdf5),
    (lambda head: head.startswith(b"MATLAB"), _read_matlab),
    (lambda head: head[8:9] == b"{", _read_safetensors),
)
"""The reader of each container, and how its first bytes are recognized."""
