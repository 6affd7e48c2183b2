"""Other people's feature files: a matrix, or a vector for each name, out of npy, npz, HDF5, MATLAB or safetensors."""

from __future__ import annotations

import importlib
import json
import math
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from deixis.errors import DatasetError
from deixis.files.trees import MAX_RATIO

FEATURE_NAMES = ("features", "feats", "whole", "vectors", "data", "x")
"""What the matrix may be called in a file that holds several; in this order, in any case."""

ID_NAMES = ("ids", "names", "files", "filenames", "file_names", "images", "image_ids", "photo_ids", "id")
"""What the list of names may be called in a file."""

SMALL = 2**30
"""Bytes; an archive that unpacks to no more is no bomb."""

_HDF5 = b"\x89HDF\r\n\x1a\n"
_MATLAB_HEADER = 512
"""Bytes before the HDF5 part of a MATLAB file of version 7.3."""

_DAMAGE = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
    SyntaxError,  # this and the next are how numpy stumbles over the header of an array
    TokenError,
    SafetensorError,
)


@dataclass(frozen=True)
class Arrays:
    """What a file holds: numbers by name, in memory or still on disk, and lists of words by name.

    `turned` marks files that lay matrices out by columns: their first axis is the second of what their maker sees.
    """

    numbers: Mapping[str, Any]
    words: Mapping[str, list[str]] = field(default_factory=dict)
    turned: bool = False


@dataclass(frozen=True)
class FeatureTable:
    """One vector for each name.

    Attributes
    ----------
    names
        In the order of the rows.
    dimension
        Numbers in each vector.
    rows
        The vectors from one row to before another: (n, dimension), float32.
    """

    names: list[str]
    dimension: int
    rows: Callable[[int, int], NDArray[np.float32]]


@contextmanager
def open_table(path: Path, ids: list[str] | None = None) -> Iterator[FeatureTable]:
    """Open a file of features, known by its first bytes; large ones are read as they are asked for.

    Parameters
    ----------
    path
        npy, npz, HDF5, MATLAB (up to version 7.3) or safetensors. Either one matrix, with a row or a column for each
        photo, or a vector for each photo under its name.
    ids
        The names of the rows, where the file itself has none.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/a.npy", np.eye(2))
    ...     with open_table(Path(folder) / "a.npy", ["1.jpg", "2.jpg"]) as table:
    ...         table.rows(1, 2)
    array([[0., 1.]], dtype=float32)
    """
    with ExitStack() as stack:
        with _readable(path):
            table = _table(path, stack.enter_context(_opened(path)), ids)

        def rows(begin: int, end: int) -> NDArray[np.float32]:
            with _readable(path):
                return table.rows(begin, end)

        yield replace(table, rows=rows)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    if not path.is_file():
        raise DatasetError(f"{path}: no such file")
    try:
        yield
    except _DAMAGE as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DatasetError(f"{path}: cannot be read ({reason})") from error


@contextmanager
def _opened(path: Path) -> Iterator[Arrays]:
    with path.open("rb") as file:
        head = file.read(_MATLAB_HEADER + len(_HDF5))
    if head.startswith(b"\x93NUMPY"):
        yield _sorted_out({"features": np.load(path, mmap_mode="r", allow_pickle=False)})
    elif head.startswith(b"PK"):
        _refuse_bomb(path)
        with np.load(path, allow_pickle=False) as archive:
            yield _sorted_out({name: _member(path, archive, name) for name in archive.files})
    elif head.startswith(_HDF5) or head[_MATLAB_HEADER:] == _HDF5:
        h5py = _h5py(path)
        with h5py.File(path, "r") as opened:
            yield _from_hdf5(h5py, opened, matlab=head.startswith(b"MATLAB"))
    elif head.startswith(b"MATLAB"):
        # Late, because Python warns of a program that its own package has imported already, and this one is run.
        from deixis.vision.store.matlab import read_matlab

        with tempfile.TemporaryDirectory() as scratch:
            yield _sorted_out(read_matlab(path, Path(scratch)))
    elif head[8:9] == b"{":
        yield _from_safetensors(path)
    else:
        raise DatasetError(f"{path}: not a file of features that is known: npy, npz, h5, mat or safetensors")


def _refuse_bomb(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > SMALL and unpacked > MAX_RATIO * path.stat().st_size:
        raise DatasetError(f"{path}: refused, it would unpack to {unpacked / 2**20:,.0f} MB")


def _member(path: Path, archive: Any, name: str) -> NDArray[Any]:
    try:
        member: NDArray[Any] = archive[name]
    except ValueError:
        raise DatasetError(f"{path}: {name} holds Python objects, which are not read; save plain numbers") from None
    return member


def _h5py(path: Path) -> Any:
    try:
        return importlib.import_module("h5py")
    except ImportError:
        raise DatasetError(f"{path}: HDF5 needs a package: pip install h5py") from None


def _sorted_out(values: Mapping[str, Any]) -> Arrays:
    """Numbers apart from words; what is neither is left out."""
    numbers, words = {}, {}
    for name, value in values.items():
        array = np.asanyarray(value)
        if array.dtype.kind in "fiu":
            numbers[name] = array
        elif array.dtype.kind in "US":
            words[name] = [_word(word) for word in array.ravel().tolist()]
    return Arrays(numbers, words)


def _word(word: str | bytes) -> str:
    return (word.decode("utf-8") if isinstance(word, bytes) else word).strip()


def _from_hdf5(h5py: Any, file: Any, matlab: bool) -> Arrays:
    numbers, words = {}, {}
    for name, dataset in file.items():
        if not isinstance(dataset, h5py.Dataset) or not isinstance(name, str):  # bytes: no UTF-8
            continue
        if h5py.check_string_dtype(dataset.dtype) is not None:
            words[name] = [word.strip() for word in np.ravel(dataset.asstr()[()]).tolist()]
        elif h5py.check_ref_dtype(dataset.dtype) is not None:
            # MATLAB's cell arrays: each cell leads to an array of UTF-16 letters.
            words[name] = ["".join(map(chr, np.ravel(file[ref][()]))) for ref in np.ravel(dataset[()])]
        elif dataset.dtype.kind in "fiu":
            numbers[name] = dataset
    return Arrays(numbers, words, turned=matlab)


def _from_safetensors(path: Path) -> Arrays:
    file: Any = safe_open(path, framework="numpy")
    numbers = {name: _Lazy(file.get_slice(name)) for name in file.keys()}  # noqa: SIM118 - it is no mapping
    stated = file.metadata() or {}
    return Arrays(numbers, {name: _listed(path, name, stated[name]) for name in ID_NAMES if name in stated})


def _listed(path: Path, name: str, text: str) -> list[str]:
    words = json.loads(text)
    if not isinstance(words, list) or not all(type(word) in (str, int) for word in words):
        raise DatasetError(f"{path}: its {name} are not a list of names")
    return [str(word) for word in words]


class _Lazy:
    """A safetensors slice that looks like an array."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self.shape = tuple(tensor.get_shape())
        self.ndim = len(self.shape)

    def __getitem__(self, key: Any) -> Any:
        return self._tensor[key]


def _table(path: Path, arrays: Arrays, ids: list[str] | None) -> FeatureTable:
    flat = {name: array for name, array in arrays.numbers.items() if array.ndim == 2 and name.lower() not in ID_NAMES}
    # MATLAB makes a matrix of everything; one row or one column is meant only where there is nothing else.
    matrices = {name: array for name, array in flat.items() if min(array.shape) > 1} or flat
    if not matrices:
        return _by_name(path, arrays, ids)
    matrix = matrices[_chosen(path, matrices)]
    return _of_matrix(path, matrix, _names_inside(path, arrays) if ids is None else ids, arrays.turned)


def _chosen(path: Path, matrices: Mapping[str, Any]) -> str:
    if len(matrices) == 1:
        return next(iter(matrices))
    by_name = {name.lower(): name for name in matrices}
    for name in FEATURE_NAMES:
        if name in by_name:
            return by_name[name]
    listed = ", ".join(f"{name} {'×'.join(map(str, array.shape))}" for name, array in matrices.items())
    raise DatasetError(f"{path}: holds several matrices ({listed}); call the one that is meant features")


def _names_inside(path: Path, arrays: Arrays) -> list[str]:
    for name in ID_NAMES:
        for there, words in arrays.words.items():
            if there.lower() == name:
                return words
        for there, numbers in arrays.numbers.items():
            if there.lower() == name and math.prod(numbers.shape) == max(numbers.shape, default=0):
                return [str(int(number)) for number in np.ravel(numbers[:])]
    if len(arrays.words) == 1:
        return next(iter(arrays.words.values()))
    raise DatasetError(f"{path}: does not say which photo each row is of; give --ids FILE, one name a line")


def _of_matrix(path: Path, matrix: Any, names: list[str], turned: bool) -> FeatureTable:
    """A matrix with a row for each name or, as MATLAB's people write it, a column."""
    as_seen = matrix.shape[::-1] if turned else matrix.shape
    if len(names) not in as_seen:
        raise DatasetError(f"{path}: {as_seen[0]:,} × {as_seen[1]:,} numbers do not fit {len(names):,} names")
    in_columns = (as_seen[0] != len(names)) != turned

    def rows(begin: int, end: int) -> NDArray[np.float32]:
        return _as_float32(np.asarray(matrix[:, begin:end]).T if in_columns else np.asarray(matrix[begin:end]))

    dimension = as_seen[1] if as_seen[0] == len(names) else as_seen[0]
    return FeatureTable(names, _some(path, dimension), rows)


def _some(path: Path, dimension: int) -> int:
    if dimension == 0:
        raise DatasetError(f"{path}: its vectors hold no numbers")
    return dimension


def _as_float32(block: NDArray[Any]) -> NDArray[np.float32]:
    """What is beyond float32 becomes infinite, without a warning: whoever asks for the rows looks for that."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(block, dtype=np.float32)


def _by_name(path: Path, arrays: Arrays, ids: list[str] | None) -> FeatureTable:
    """A vector for each photo under its name."""
    shapes = {tuple(array.shape) for array in arrays.numbers.values()}
    if len(shapes) != 1 or len(shape := next(iter(shapes))) != 1 or ids is not None:
        found = ", ".join(sorted("×".join(map(str, shape)) or "one number" for shape in shapes)[:4]) or "no numbers"
        raise DatasetError(f"{path}: expected one matrix, a vector for each photo ({found} found)")
    names = list(arrays.numbers)

    def rows(begin: int, end: int) -> NDArray[np.float32]:
        return _as_float32(np.stack([arrays.numbers[name][:] for name in names[begin:end]]))

    return FeatureTable(names, _some(path, shape[0]), rows)
