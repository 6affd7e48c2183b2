"""Import features that another program computed: read the file, match its names with photos, write a feature store."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from deixis.data.dataset import Dataset
from deixis.data.readers.names import NameIndex, photo_stem
from deixis.errors import DatasetError, PhotoError
from deixis.storage.archives import MAX_RATIO
from deixis.storage.files import hash_file
from deixis.storage.progress import OnProgress, no_progress
from deixis.vision.feature_store.files import Contents, FeatureRecord, FileStamp
from deixis.vision.feature_store.store import open_writer
from deixis.vision.feature_store.updates import UpdateReport, drop_missing

FEATURE_NAMES = ("features", "feats", "whole", "vectors", "data", "x")
"""Accepted names of the matrix in a file with several, in order of preference and in any case."""

ID_NAMES = ("ids", "names", "files", "filenames", "file_names", "images", "image_ids", "photo_ids", "id")
"""Accepted names of the list of photo names."""

SAFE_BYTES = 2**30
"""Archives up to this unpacked size are not checked for zip bombs."""

_HDF5 = b"\x89HDF\r\n\x1a\n"
_MATLAB_HEADER = 512
"""Size of the header of a MATLAB file of version 7.3, before the HDF5 part."""

_BLOCK = 1024
"""Number of rows that are read together."""

NO_HASH = "0" * 64

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
    SyntaxError,  # numpy, for a damaged array header, as the next
    TokenError,
    SafetensorError,
)


@dataclass(frozen=True)
class Arrays:
    """Content of a file: numeric arrays by name, in memory or on disk, and lists of strings by name.

    `transposed` marks column-major files, whose axes are reversed.
    """

    numbers: Mapping[str, Any]
    words: Mapping[str, list[str]] = field(default_factory=dict)
    transposed: bool = False


@dataclass(frozen=True)
class FeatureTable:
    """One vector per name, in the order of the names."""

    names: list[str]
    dimension: int
    rows: Callable[[int, int], NDArray[np.float32]]
    """Returns the vectors from a start to an end row: (n, dimension)."""


@contextmanager
def open_table(path: Path, ids: list[str] | None = None) -> Iterator[FeatureTable]:
    """Open a feature file. The format is detected from the first bytes; large files are read on access.

    The file has one matrix with a row or column per photo, or one vector per photo under its name. `ids` are the names
    of the rows, if the file has none.
    """
    with ExitStack() as stack:
        with readable(path):
            table = _table(path, stack.enter_context(open_arrays(path)), ids)
        if table.dimension == 0:
            raise DatasetError(f"{path}: its vectors are empty")

        def rows(begin: int, end: int) -> NDArray[np.float32]:
            # Overflow becomes infinite without a warning; callers check for it.
            with readable(path), np.errstate(over="ignore"):
                return np.ascontiguousarray(table.rows(begin, end), dtype=np.float32)

        yield replace(table, rows=rows)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    if not path.is_file():
        raise DatasetError(f"{path}: no such file")
    try:
        yield
    except _DAMAGE as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DatasetError(f"{path}: cannot be read ({reason})") from error


@contextmanager
def open_arrays(path: Path) -> Iterator[Arrays]:
    with path.open("rb") as file:
        head = file.read(_MATLAB_HEADER + len(_HDF5))
    if head.startswith(b"\x93NUMPY"):
        yield _separate({"features": np.load(path, mmap_mode="r", allow_pickle=False)})
    elif head.startswith(b"PK"):
        _check_zip_bomb(path)
        with np.load(path, allow_pickle=False) as archive:
            yield _separate({name: _member(path, archive, name) for name in archive.files})
    elif head.startswith(_HDF5) or head[_MATLAB_HEADER:] == _HDF5:
        h5py = _h5py(path)
        with h5py.File(path, "r") as opened:
            yield _from_hdf5(h5py, opened, matlab=head.startswith(b"MATLAB"))
    elif head.startswith(b"MATLAB"):
        with tempfile.TemporaryDirectory() as scratch:
            yield _separate(read_matlab(path, Path(scratch)))
    elif head[8:9] == b"{":
        yield _from_safetensors(path)
    else:
        raise DatasetError(f"{path}: unknown format; use npy, npz, h5, mat or safetensors")


def read_matlab(path: Path, scratch: Path) -> dict[str, NDArray[Any]]:
    """Return the numeric and text variables of a file up to version 7.2, memory-mapped from an empty scratch folder.

    In a subprocess, because SciPy crashes on some damaged files.
    """
    code = f"import sys; from {__name__} import _unpack_matlab; _unpack_matlab(*sys.argv[1:])"
    command = [sys.executable, "-c", code, str(path), str(scratch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - runs this module
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()[-1:] or ["the reader crashed"]
        raise DatasetError(f"{path}: cannot be read ({lines[0][:200]})")
    names = json.loads(done.stdout)
    return {name: np.load(scratch / f"{n}.npy", mmap_mode="r", allow_pickle=False) for n, name in enumerate(names)}


def _unpack_matlab(path: str, scratch: str) -> None:
    """Write each numeric or text variable to a file and print the names."""
    from scipy.io import loadmat

    names: list[str] = []
    for name, value in loadmat(path, simplify_cells=True).items():
        array = np.asanyarray(value)
        if array.dtype.kind == "O" and all(isinstance(word, str) for word in array.flat):
            array = array.astype(str)
        parts = {name: array}
        if array.dtype.kind == "O":  # a cell array of matrices
            parts = {f"{name}/{number}": np.asanyarray(cell) for number, cell in enumerate(array.flat)}
        for part, numbers in parts.items():
            if numbers.dtype.kind in "fiuUS" and not name.startswith("__"):
                np.save(Path(scratch) / f"{len(names)}.npy", numbers, allow_pickle=False)
                names.append(part)
    print(json.dumps(names))


def _check_zip_bomb(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > SAFE_BYTES and unpacked > MAX_RATIO * path.stat().st_size:
        raise DatasetError(f"{path}: refused, it would unpack to {unpacked / 2**20:,.0f} MB")


def _member(path: Path, archive: Any, name: str) -> NDArray[Any]:
    try:
        member: NDArray[Any] = archive[name]
    except ValueError:
        raise DatasetError(f"{path}: {name} contains Python objects; save numeric arrays instead") from None
    return member


def _h5py(path: Path) -> Any:
    try:
        return importlib.import_module("h5py")
    except ImportError:
        raise DatasetError(f"{path}: HDF5 requires a package: pip install h5py") from None


def _separate(values: Mapping[str, Any]) -> Arrays:
    """Separate numeric and string arrays; skip others."""
    numbers, words = {}, {}
    for name, value in values.items():
        array = np.asanyarray(value)
        if array.dtype.kind in "fiu":
            numbers[name] = array
        elif array.dtype.kind in "US":
            words[name] = [_decode_name(word) for word in array.ravel().tolist()]
    return Arrays(numbers, words)


def _decode_name(word: str | bytes) -> str:
    return (word.decode("utf-8") if isinstance(word, bytes) else word).strip()


def _from_hdf5(h5py: Any, file: Any, matlab: bool) -> Arrays:
    numbers: dict[str, Any] = {}
    words: dict[str, list[str]] = {}
    items = [(name, dataset) for name, dataset in file.items() if isinstance(name, str)]  # bytes if not UTF-8
    for name, group in items:
        if isinstance(group, h5py.Group) and not name.startswith("#"):
            numbers |= {
                f"{name}/{key}": value
                for key, value in group.items()
                if isinstance(key, str) and isinstance(value, h5py.Dataset) and value.dtype.kind in "fiu"
            }
    for name, dataset in items:
        if not isinstance(dataset, h5py.Dataset):
            continue
        if h5py.check_string_dtype(dataset.dtype) is not None:
            words[name] = [word.strip() for word in np.ravel(dataset.asstr()[()]).tolist()]
        elif h5py.check_ref_dtype(dataset.dtype) is not None:
            # MATLAB cell arrays: each cell refers to a matrix, or to a text as an array of UTF-16 codes.
            cells = [file[ref] for ref in np.ravel(dataset[()])]
            if all(cell.dtype.kind == "f" for cell in cells):
                numbers |= {f"{name}/{number}": cell for number, cell in enumerate(cells)}
            else:
                words[name] = ["".join(map(chr, np.ravel(cell[()]))) for cell in cells]
        elif dataset.dtype.kind in "fiu":
            numbers[name] = dataset
    return Arrays(numbers, words, transposed=matlab)


def _from_safetensors(path: Path) -> Arrays:
    file: Any = safe_open(path, framework="numpy")
    numbers = {name: _Lazy(file.get_slice(name)) for name in file.keys()}  # noqa: SIM118 - not a mapping
    metadata = file.metadata() or {}
    return Arrays(numbers, {name: _parse_list(path, name, metadata[name]) for name in ID_NAMES if name in metadata})


def _parse_list(path: Path, name: str, text: str) -> list[str]:
    words = json.loads(text)
    if not isinstance(words, list) or not all(type(word) in (str, int) for word in words):
        raise DatasetError(f"{path}: {name} is not a list of names")
    return [str(word) for word in words]


class _Lazy:
    """A safetensors slice with the interface of an array."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        self.shape = tuple(tensor.get_shape())
        self.ndim = len(self.shape)

    def __getitem__(self, key: Any) -> Any:
        return self._tensor[key]

    def __len__(self) -> int:
        return int(self.shape[0])


def _table(path: Path, arrays: Arrays, ids: list[str] | None) -> FeatureTable:
    numbers = {name: array for name, array in arrays.numbers.items() if "/" not in name}  # others are of regions
    flat = {name: array for name, array in numbers.items() if array.ndim == 2 and name.lower() not in ID_NAMES}
    # MATLAB stores scalars and vectors as matrices: prefer those with several rows and columns.
    matrices = {name: array for name, array in flat.items() if min(array.shape) > 1} or flat
    if not matrices:
        return _table_by_name(path, arrays, ids)
    matrix = matrices[_choose_matrix(path, matrices)]
    names = find_names(path, arrays) if ids is None else ids
    return _table_from_matrix(path, matrix, names, arrays.transposed)


def _choose_matrix(path: Path, matrices: Mapping[str, Any]) -> str:
    if len(matrices) == 1:
        return next(iter(matrices))
    by_name = {name.lower(): name for name in matrices}
    for name in FEATURE_NAMES:
        if name in by_name:
            return by_name[name]
    listed = ", ".join(f"{name} {'×'.join(map(str, array.shape))}" for name, array in matrices.items())
    raise DatasetError(f"{path}: contains several matrices ({listed}); name the right one features")


def find_names(path: Path, arrays: Arrays) -> list[str]:
    for name in ID_NAMES:
        for key, words in arrays.words.items():
            if key.lower() == name:
                return words
        for key, numbers in arrays.numbers.items():
            if key.lower() == name and math.prod(numbers.shape) == max(numbers.shape, default=0):
                return [str(int(number)) for number in np.ravel(numbers[:])]
    if len(arrays.words) == 1:
        return next(iter(arrays.words.values()))
    raise DatasetError(f"{path}: does not name the photo of each row; use --ids FILE with one name per line")


def _table_from_matrix(path: Path, matrix: Any, names: list[str], transposed: bool) -> FeatureTable:
    """Return the table of a matrix with one row per name or, as is common in MATLAB, one column."""
    shape = matrix.shape[::-1] if transposed else matrix.shape
    if len(names) not in shape:
        raise DatasetError(f"{path}: a {shape[0]:,} × {shape[1]:,} matrix does not match {len(names):,} names")
    in_columns = (shape[0] != len(names)) != transposed

    def rows(begin: int, end: int) -> NDArray[Any]:
        return np.asarray(matrix[:, begin:end]).T if in_columns else np.asarray(matrix[begin:end])

    return FeatureTable(names, shape[1] if shape[0] == len(names) else shape[0], rows)


def _table_by_name(path: Path, arrays: Arrays, ids: list[str] | None) -> FeatureTable:
    """Return the table of a file with one vector per name."""
    shapes = {tuple(array.shape) for array in arrays.numbers.values()}
    if len(shapes) != 1 or len(shape := next(iter(shapes))) != 1 or ids is not None:
        found = ", ".join(sorted("×".join(map(str, shape)) or "one number" for shape in shapes)[:4]) or "no numbers"
        raise DatasetError(f"{path}: expected one matrix or one vector per photo, found {found}")
    names = list(arrays.numbers)

    return FeatureTable(
        names, shape[0], lambda begin, end: np.stack([arrays.numbers[name][:] for name in names[begin:end]])
    )


def import_features(
    path: Path, dataset: Dataset, file: Path, *, ids: Path | None = None, on_progress: OnProgress = no_progress
) -> UpdateReport:
    """Import global vectors from a file into a feature store.

    Nothing is written unless the whole file is valid: as many names as vectors, no duplicates, finite numbers.

    Parameters
    ----------
    path
        Directory of the store; created if missing.
    dataset
        The data set. Photos are matched by id, file name with or without suffix, or Flickr number.
    file
        npy, npz, HDF5, MATLAB or safetensors.
    ids
        Names of the rows, if the file has none: one per line, a JSON list, or Karpathy's ``dataset.json``.
    on_progress
        Progress callback.
    """
    columns = dataset.tables["photos"].select(["id", "sha256", "width", "height"]).to_pydict().values()
    photo_files = {photo: about for photo, *about in zip(*columns, strict=True)}
    with open_table(file, read_names(ids) if ids else None) as table:
        row_of, unknown = match_names(table.names, dataset, ids or file)
        for photo, row, vector in _vectors(table, row_of, "checking", on_progress):
            if not np.isfinite(vector).all():
                raise DatasetError(f"{file}: row {row + 1}, photo {photo}, holds a number that is not finite")
        hashes = [bytes.fromhex(hash_file(path)) for path in (file, ids) if path]
        fingerprint = f"imported:{hashlib.sha256(b''.join(hashes)).hexdigest()[:16]}"
        contents = Contents(fingerprint, fingerprint, table.dimension)
        with open_writer(path, contents, on_progress=on_progress) as writer:
            report = UpdateReport(damaged=writer.damaged, dropped=drop_missing(writer, dataset), unknown=unknown)
            missing = {photo: row for photo, row in row_of.items() if writer.stamp(photo) is None}
            for photo, _, vector in _vectors(table, missing, "importing", on_progress):
                sha256, width, height = photo_files[photo]
                stamp = FileStamp(bytes.fromhex(sha256 or NO_HASH), 0, 0)
                writer.add(FeatureRecord(photo, stamp, (width or 0, height or 0), vector))
            writer.flush()
            report.new, report.kept, report.photos = len(missing), len(row_of) - len(missing), len(writer.ids)
    report.skipped = [PhotoError(photo, f"not in {file}") for photo in photo_files if photo not in row_of]
    return report


def read_names(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path}: cannot be read ({error})") from None
    if not text.lstrip().startswith(("[", "{")):
        return [line.strip() for line in text.splitlines() if line.strip()]
    try:
        document = json.loads(text)
        entries = document["images"] if isinstance(document, dict) else document
        return [str(entry["filename"] if isinstance(entry, dict) else entry) for entry in entries]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DatasetError(
            f"{path}: neither a JSON list of names nor Karpathy's dataset.json ({type(error).__name__}: {error})"
        ) from None


def match_names(names: list[str], dataset: Dataset, names_file: Path) -> tuple[dict[str, int], int]:
    """Return the row of each photo, in the order of the rows, and the number of unknown names."""
    photos = dataset.tables["photos"].select(["id", "file"]).to_pydict()
    by_id = NameIndex({photo: photo for photo in photos["id"]})
    by_file = NameIndex(
        {photo_stem(file): photo for photo, file in zip(photos["id"], photos["file"], strict=True) if file}
    )
    row_of: dict[str, int] = {}
    for row, name in enumerate(names):
        photo = by_id.find(name) or by_id.find(photo_stem(name)) or by_file.find(photo_stem(name))
        if photo is None:
            continue
        if photo in row_of:
            earlier = row_of[photo]
            raise DatasetError(
                f"{names_file}: photo {photo} occurs twice, in rows {earlier + 1} ({names[earlier]}) and "
                f"{row + 1} ({name})"
            )
        row_of[photo] = row
    if not row_of:
        example = f"such as {names[0]!r}" if names else "it is empty"
        raise DatasetError(
            f"{names_file}: none of its {len(names):,} names ({example}) matches a photo of {dataset.path} "
            f"(such as {photos['id'][0]!r})"
        )
    return row_of, len(names) - len(row_of)


def _vectors(
    table: FeatureTable, row_of: dict[str, int], doing: str, on_progress: OnProgress
) -> Iterator[tuple[str, int, NDArray[np.float32]]]:
    """Yield each photo with its row and its vector. The file is read in blocks."""
    done = 0
    for block, photos in groupby(row_of.items(), key=lambda item: item[1] // _BLOCK):
        begin = block * _BLOCK
        vectors = table.rows(begin, min(begin + _BLOCK, len(table.names)))
        for photo, row in photos:
            yield photo, row, vectors[row - begin]
            done += 1
        on_progress(doing, done, len(row_of))
