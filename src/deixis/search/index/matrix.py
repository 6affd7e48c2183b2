"""The vectors of an index in a folder as one matrix: cached in mapped files, extended from the database.

The files of one generation only grow. The manifest, which is replaced atomically after them, says how much of them is
valid. Readers map what the manifest names and are never disturbed; a new generation has new file names. Every byte is
checked when a cache is opened, and a cache that is damaged, missing or outdated is rebuilt from the database.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Codes, Floats, code_step, quantize
from deixis.errors import DeixisError
from deixis.search.index.base import IndexInfo, damaged_index
from deixis.search.index.sqlite import DATABASE, SqliteConnection, crc_of, read_info
from deixis.storage.atomic import exclusive_lock, explain_os_errors, new_file, remove_partial_files
from deixis.storage.checksums import CheckedFile, FileChecks, seal, unseal
from deixis.storage.files import read_regular
from deixis.storage.sql import read_transaction

_CODE_WIDTHS = (64, 128, 256)
"""Bytes per region code; the smallest sufficient one is used. Two million regions take 128 MB, 512 MB at worst."""

_MIN_ENERGY = 0.65
"""The share of the squared length of the vectors that the axes of a code must carry."""

_BLOCK = 1024
"""Codes converted to floats at a time: they fit the processor's cache and stay below BLAS's threading threshold."""

FOLDER = "cache"
MANIFEST = "manifest.json"
VERSION = 5
_ARRAYS = ("ids", "whole", "counts", "codes")
_BASIS = "basis"
_EMPTY = FileChecks(0, "", "")
_MAX_REMOVED_SHARE = 0.25
_ENOUGH_FOR_BASIS = 50_000
"""A basis fitted to this many photos is good for any number of others."""

_WORTH_CACHING = 1024
"""Number of photos outside the cache from which a reader writes them to it."""

_MAX_PARTS = 8
_PHOTOS_PER_READ = 512
_BASIS_PHOTOS = 4000


@dataclass(frozen=True)
class Basis:
    """Axes on which region vectors are quantized to int8 codes."""

    axes: Floats  # (dimension, width)
    steps: Floats  # (width,): the length of one code step along each axis

    def encode(self, vectors: Floats) -> Codes:
        """Return the codes of vectors: (n, width)."""
        return quantize(vectors @ self.axes, self.steps[None])

    def scores(self, codes: Codes, query: Floats) -> Floats:
        """Return approximate dot products of the encoded vectors with a query: (n,)."""
        weights = (query @ self.axes) * self.steps
        scores = np.empty(len(codes), dtype=np.float32)
        block = np.empty((_BLOCK, codes.shape[1]), dtype=np.float32)
        for begin in range(0, len(codes), _BLOCK):
            part = codes[begin : begin + _BLOCK]
            np.copyto(block[: len(part)], part)
            np.dot(block[: len(part)], weights, out=scores[begin : begin + len(part)])
        return scores


def fit_basis(sample: Floats) -> Basis:
    """Fit axes to a sample of vectors, (n, dimension), by uncentred principal components."""
    energies, axes = np.linalg.eigh((sample.T @ sample).astype(np.float64))
    energies, axes = energies[::-1], axes[:, ::-1]
    sufficient = [width for width in _CODE_WIDTHS if energies[:width].sum() >= _MIN_ENERGY * energies.sum()]
    chosen = np.ascontiguousarray(axes[:, : min([*sufficient, _CODE_WIDTHS[-1]])], dtype=np.float32)
    return Basis(chosen, code_step(sample @ chosen, axis=0).astype(np.float32))


@dataclass(frozen=True)
class PhotoArrays:
    """Photos by ascending number."""

    ids: NDArray[np.int64]
    whole: Floats  # (n, dimension)
    counts: NDArray[np.int64]  # number of regions of each photo
    codes: Codes  # (regions, width), photo after photo

    def __len__(self) -> int:
        return len(self.ids)


def concatenate(parts: list[PhotoArrays]) -> PhotoArrays:
    """Join one or more parts."""
    return PhotoArrays(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS})


@dataclass(frozen=True)
class VectorMatrix:
    """The vectors of all photos of an index at one moment, as parts with ascending photo numbers."""

    info: IndexInfo
    cached: CachedMatrix | None  # the cache that the first part is mapped from
    basis: Basis
    parts: tuple[PhotoArrays, ...]  # including removed photos
    removed_ids: NDArray[np.int64]  # of photos removed since the cache was created
    last_removal: int  # the last entry of the table `removed` that was read

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """The photo number of each row."""
        return np.concatenate([part.ids for part in self.parts]) if self.parts else np.zeros(0, dtype=np.int64)

    @cached_property
    def is_present(self) -> NDArray[np.bool_]:
        """Whether the photo of each row is still in the index."""
        return ~np.isin(self.ids, self.removed_ids)

    @cached_property
    def region_starts(self) -> NDArray[np.int64]:
        """The first region of each row, and the total number of regions."""
        counts = np.concatenate([part.counts for part in self.parts]) if self.parts else np.zeros(0, dtype=np.int64)
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])

    @cached_property
    def region_rows(self) -> NDArray[np.int64]:
        """The row of each region."""
        return np.repeat(np.arange(len(self.ids)), np.diff(self.region_starts))

    @property
    def all_whole(self) -> Floats:
        """The vectors of the photos in all rows; not a copy where there is one part."""
        return self.parts[0].whole if len(self.parts) == 1 else self.whole(np.arange(len(self.ids)))

    def whole(self, rows: NDArray[np.int64]) -> Floats:
        """Return the vectors of the photos in some rows."""
        if len(self.parts) == 1:
            return self.parts[0].whole[rows]
        vectors = np.empty((len(rows), self.info.dimension), dtype=np.float32)
        begin = 0
        for part in self.parts:
            in_part = (rows >= begin) & (rows < begin + len(part))
            vectors[in_part] = part.whole[rows[in_part] - begin]
            begin += len(part)
        return vectors

    def whole_scores(self, query: Floats) -> Floats:
        """Return the dot product of every photo's vector with a query."""
        scores = np.empty(len(self.ids), dtype=np.float32)
        begin = 0
        for part in self.parts:
            np.dot(part.whole, query, out=scores[begin : begin + len(part)])
            begin += len(part)
        return scores

    def region_scores(self, query: Floats) -> Floats:
        """Return the approximate dot product of every region's vector with a query."""
        scores = [self.basis.scores(part.codes, query) for part in self.parts]
        return np.concatenate(scores) if scores else np.zeros(0, dtype=np.float32)

    @property
    def last_id(self) -> int:
        """The highest photo number that was read."""
        in_parts = [int(part.ids[-1]) for part in self.parts if len(part)]
        return max([*in_parts, self.cached.last_id if self.cached else 0])


def load_matrix(folder: Path, connection: SqliteConnection, previous: VectorMatrix | None) -> VectorMatrix:
    """Load the matrix as of now; what `previous` holds is not read again."""
    with read_transaction(connection):
        start = _start(folder, connection, previous)
        waiting = connection.execute("SELECT count(*) FROM main.photos WHERE id > ?", (start.last_id,)).fetchone()[0]
    is_damaged = start.cached is None and waiting > 0 and (folder / FOLDER / MANIFEST).exists()
    updated = (waiting >= _WORTH_CACHING or is_damaged) and update_cache(folder, connection)
    with read_transaction(connection):
        matrix = _extend(folder, connection, _start(folder, connection, None if updated else start))
        (photos,) = connection.execute("SELECT number FROM totals WHERE name = 'photos'").fetchone() or (0,)
        if matrix.is_present.sum() != photos:
            problem = f"it has vectors of {matrix.is_present.sum():,} photos instead of {photos:,}"
            raise damaged_index(problem, str(folder / DATABASE), folder)
        return matrix


def _start(folder: Path, connection: SqliteConnection, previous: VectorMatrix | None) -> VectorMatrix:
    """Return the newest cache, or the previous matrix if there is no newer one, before reading the database."""
    info = read_info(connection, folder / DATABASE)
    if previous is not None and previous.info != info:
        previous = None
    manifest = read_manifest(folder, info)
    if previous is not None and (manifest is None or (previous.cached and previous.cached.manifest == manifest)):
        return previous
    cached = open_cache(folder, connection, info)
    none = np.zeros(0, dtype=np.int64)
    if cached is not None:
        return VectorMatrix(info, cached, cached.basis, (cached.photos,), none, cached.manifest.removed)
    if previous is not None:
        return previous
    basis = fit_index_basis(connection, photos_with_regions(connection), info.region_dimension)
    return VectorMatrix(info, None, basis, (), none, 0)


def _extend(folder: Path, connection: SqliteConnection, start: VectorMatrix) -> VectorMatrix:
    """Add what the database has beyond a matrix."""
    new = list(read_photos(connection, folder / DATABASE, start.info, start.basis, after=start.last_id))
    removals = connection.execute(
        "SELECT number, photo FROM removed WHERE number > ?", (start.last_removal,)
    ).fetchall()
    if not new and not removals:
        return start
    parts = (*start.parts, *([concatenate(new)] if new else []))
    mapped = 1 if start.cached else 0
    if len(parts) > mapped + _MAX_PARTS:
        parts = (*parts[:mapped], concatenate(list(parts[mapped:])))
    removed_ids = np.concatenate([start.removed_ids, np.array([photo for _, photo in removals], dtype=np.int64)])
    last_removal = max([start.last_removal, *(number for number, _ in removals)])
    return replace(start, parts=parts, removed_ids=removed_ids, last_removal=last_removal)


def read_photos(
    connection: SqliteConnection, path: Path, info: IndexInfo, basis: Basis, after: int = 0
) -> Iterator[PhotoArrays]:
    """Yield the photos with numbers above `after`, a few hundred at a time; `path` is for error messages."""
    while True:
        photos = connection.execute(
            "SELECT v.photo, whole, v.crc, p.regions, boxes, r.vectors, r.crc FROM vectors v "
            "LEFT JOIN regions r USING (photo) LEFT JOIN main.photos p ON id = v.photo "
            "WHERE v.photo > ? ORDER BY v.photo LIMIT ?",
            (after, _PHOTOS_PER_READ),
        ).fetchall()
        if not photos:
            return
        after = photos[-1][0]
        yield _encode_photos(photos, path, info, basis)


def _encode_photos(photos: list[Any], path: Path, info: IndexInfo, basis: Basis) -> PhotoArrays:
    region_bytes = 2 * info.region_dimension
    for number, whole, crc, count, boxes, regions, regions_crc in photos:
        if crc_of(number, whole) != crc or (regions is not None and crc_of(number, boxes, regions) != regions_crc):
            problem = f"the vectors of photo {number} do not match their checksum"
            raise damaged_index(problem, str(path), path.parent)
        if len(whole) != 4 * info.dimension or len(regions or b"") != (count or 0) * region_bytes:
            raise damaged_index(f"the vectors of photo {number} have a wrong length", str(path), path.parent)
    counts = [len(regions or b"") // region_bytes for *_, regions, _ in photos]
    regions_data = b"".join(regions or b"" for *_, regions, _ in photos)
    vectors = np.frombuffer(regions_data, dtype="<f2").reshape(-1, info.region_dimension)
    whole_vectors = np.frombuffer(b"".join(whole for _, whole, *_ in photos), dtype="<f4")
    return PhotoArrays(
        np.array([number for number, *_ in photos], dtype=np.int64),
        whole_vectors.reshape(-1, info.dimension).astype(np.float32),
        np.array(counts, dtype=np.int64),
        basis.encode(vectors.astype(np.float32)),
    )


def photos_with_regions(connection: SqliteConnection) -> list[int]:
    """Return the numbers of the photos that have regions."""
    return [row[0] for row in connection.execute("SELECT id FROM main.photos WHERE regions > 0 ORDER BY id")]


def fit_index_basis(connection: SqliteConnection, numbers: list[int], dimension: int) -> Basis:
    """Fit axes to a sample of the regions of these photos; the unit axes if there are none."""
    step = max(len(numbers) // _BASIS_PHOTOS, 1)
    sample = [vectors for _, vectors in connection.regions_of(numbers[::step], dimension).values()]
    vectors = np.concatenate(sample) if sample else np.eye(dimension)
    return fit_basis(vectors.astype(np.float32))


@dataclass(frozen=True)
class CacheManifest:
    """The contents of the cache files."""

    uid: str  # of the index
    generation: str  # prefix of the file names
    dimension: int
    region_dimension: int
    width: int
    fitted: int  # number of photos with regions when the basis was fitted
    removed: int  # the highest number in the table `removed` that was read
    rows: int
    regions: int
    files: dict[str, FileChecks]

    def array(self, folder: Path, name: str) -> NDArray[Any]:
        """Map the array in a cache file and check every byte of it."""
        file = CheckedFile(folder / FOLDER / f"{self.generation}-{name}.bin", self.files[name], may_grow=True)
        shape, kind = {
            "ids": ((self.rows,), "<i8"),
            "whole": ((self.rows, self.dimension), "<f4"),
            "counts": ((self.rows,), "<i8"),
            "codes": ((self.regions, self.width), "i1"),
            _BASIS: ((self.region_dimension + 1, self.width), "<f4"),
        }[name]
        return file.array(np.dtype(kind), shape, 0)


@dataclass(frozen=True)
class CachedMatrix:
    """A cache that was mapped and checked."""

    manifest: CacheManifest
    photos: PhotoArrays
    basis: Basis

    @property
    def last_id(self) -> int:
        """The highest photo number that was read."""
        return int(self.photos.ids[-1]) if len(self.photos) else 0


def read_manifest(folder: Path, info: IndexInfo) -> CacheManifest | None:
    """Read the manifest of this index's cache; None if there is none, or one of another index or version."""
    try:
        document = unseal(read_regular(folder / FOLDER / MANIFEST))
        if document.pop("version") != VERSION:
            return None
        files = {name: FileChecks.from_json(entry) for name, entry in document.pop("files").items()}
        manifest = CacheManifest(**document, files=files)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    cached = manifest.uid, manifest.dimension, manifest.region_dimension
    return manifest if cached == (info.uid, info.dimension, info.region_dimension) else None


def open_cache(folder: Path, connection: SqliteConnection, info: IndexInfo) -> CachedMatrix | None:
    """Map the cache, check every byte, and that it holds what the database held; None if there is no valid cache."""
    manifest = read_manifest(folder, info)
    if manifest is None:
        return None
    try:
        basis = manifest.array(folder, _BASIS)
        photos = PhotoArrays(**{name: manifest.array(folder, name) for name in _ARRAYS})
    except (OSError, ValueError, TypeError, KeyError, OverflowError):  # a file is missing or damaged
        return None
    cached = CachedMatrix(manifest, photos, Basis(basis[:-1], basis[-1]))
    return cached if int(photos.counts.sum()) == manifest.regions and _is_complete(cached, connection) else None


def find_cache_damage(folder: Path, connection: SqliteConnection, info: IndexInfo) -> Iterator[str]:
    """Compare the cache with the database, and yield one line for each difference."""
    repair = "the next search or deixis index repairs it"
    try:
        version = unseal(read_regular(folder / FOLDER / MANIFEST))["version"]
    except FileNotFoundError:
        return
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        version = VERSION
    if version != VERSION:  # not read; replaced by the next search
        return
    cached = open_cache(folder, connection, info)
    if cached is None:
        yield f"{folder / FOLDER}: damaged; {repair}"
        return
    photos, starts = cached.photos, np.concatenate([[0], np.cumsum(cached.photos.counts)])
    for part in read_photos(connection, folder / DATABASE, info, cached.basis):
        rows = np.searchsorted(photos.ids, part.ids)
        part_starts = np.concatenate([[0], np.cumsum(part.counts)])
        for at, (number, row) in enumerate(zip(part.ids.tolist(), rows.tolist(), strict=True)):
            if number > cached.last_id:
                return
            codes = photos.codes[starts[row] : starts[row + 1]]
            expected = part.codes[part_starts[at] : part_starts[at + 1]]
            is_same = photos.ids[row] == number and photos.whole[row].tobytes() == part.whole[at].tobytes()
            # A product of other rows may round a code to the neighbouring one.
            if not is_same or len(codes) != len(expected) or np.abs(codes.astype(int) - expected).max(initial=0) > 1:
                yield f"{folder / FOLDER}: damaged (photo {number} differs from {DATABASE}); {repair}"
                return


def _is_complete(cached: CachedMatrix, connection: SqliteConnection) -> bool:
    """Return whether the cache has all photos of the database up to its last, and those removed since."""
    (photos,) = connection.execute("SELECT count(*) FROM main.photos").fetchone()
    (later,) = connection.execute("SELECT count(*) FROM main.photos WHERE id > ?", (cached.last_id,)).fetchone()
    (removed,) = connection.execute(
        "SELECT count(*) FROM removed WHERE number > ? AND photo <= ?", (cached.manifest.removed, cached.last_id)
    ).fetchone()
    return bool(photos - later == len(cached.photos) - removed)


def update_cache(folder: Path, connection: SqliteConnection) -> bool:
    """Add what is new in the database to the cache; return whether that was possible.

    Failures are not errors: without a cache, a search reads the database.
    """
    try:
        with explain_os_errors(folder / FOLDER):
            (folder / FOLDER).mkdir(mode=0o700, exist_ok=True)
            with exclusive_lock(folder / FOLDER / MANIFEST), read_transaction(connection):
                remove_partial_files(folder / FOLDER / MANIFEST)
                _CacheWriter(folder, connection).write()
        return True
    except DeixisError:
        return False


class _CacheWriter:
    """Writes the cache, holding its lock, from one state of the database."""

    def __init__(self, folder: Path, connection: SqliteConnection) -> None:
        self.folder, self.connection = folder, connection
        self.info = read_info(connection, folder / DATABASE)
        self.removed = connection.execute("SELECT coalesce(max(number), 0) FROM removed").fetchone()[0]

    def write(self) -> None:
        cached = open_cache(self.folder, self.connection, self.info)
        with_regions = photos_with_regions(self.connection)
        last_id = 0
        if cached is None or self._is_outdated(cached, len(with_regions)):
            basis = fit_index_basis(self.connection, with_regions, self.info.region_dimension)
            manifest = self._new_generation(basis, len(with_regions))
        else:
            basis, manifest, last_id = cached.basis, cached.manifest, cached.last_id
        self._append(manifest, basis, last_id)
        self._remove_old_files()

    def _is_outdated(self, cached: CachedMatrix, with_regions: int) -> bool:
        """Return whether too many photos were removed, or the basis was fitted to too few."""
        manifest = cached.manifest
        query = "SELECT count(*) FROM main.photos WHERE id <= ?"
        (present,) = self.connection.execute(query, (cached.last_id,)).fetchone()
        poorly_fitted = manifest.fitted < _ENOUGH_FOR_BASIS and with_regions > 2 * manifest.fitted
        return manifest.rows - present > _MAX_REMOVED_SHARE * manifest.rows or poorly_fitted

    def _new_generation(self, basis: Basis, fitted: int) -> CacheManifest:
        generation = uuid.uuid4().hex[:12]
        stacked = np.ascontiguousarray(np.concatenate([basis.axes, basis.steps[None]]), dtype="<f4")
        self._file(generation, _BASIS).write_bytes(stacked.tobytes())
        for name in _ARRAYS:
            self._file(generation, name).touch()
        files = {name: _EMPTY.after_append(self._file(generation, name)) for name in (_BASIS, *_ARRAYS)}
        info, width = self.info, len(basis.steps)
        return CacheManifest(
            info.uid, generation, info.dimension, info.region_dimension, width, fitted, self.removed, 0, 0, files
        )

    def _append(self, manifest: CacheManifest, basis: Basis, last_id: int) -> None:
        rows = regions = 0
        with ExitStack() as stack:
            files = []
            for name in _ARRAYS:
                file = stack.enter_context(self._file(manifest.generation, name).open("r+b"))
                file.seek(manifest.files[name].bytes)
                file.truncate()  # remove what a killed process left
                files.append(file)
            for part in read_photos(self.connection, self.folder / DATABASE, self.info, basis, after=last_id):
                for file, name in zip(files, _ARRAYS, strict=True):
                    file.write(np.ascontiguousarray(getattr(part, name)).data)
                rows, regions = rows + len(part), regions + len(part.codes)
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        if rows or not last_id:
            checks = {
                name: checks.after_append(self._file(manifest.generation, name))
                for name, checks in manifest.files.items()
            }
            manifest = replace(manifest, rows=manifest.rows + rows, regions=manifest.regions + regions, files=checks)
            with new_file(self.folder / FOLDER / MANIFEST) as partial:
                partial.write_bytes(seal({"version": VERSION, **asdict(manifest)}))

    def _file(self, generation: str, name: str) -> Path:
        return self.folder / FOLDER / f"{generation}-{name}.bin"

    def _remove_old_files(self) -> None:
        """Remove files of other generations; readers that have mapped them are not affected."""
        manifest = read_manifest(self.folder, self.info)
        for path in (self.folder / FOLDER).glob("*.bin"):
            if manifest is None or not path.name.startswith(f"{manifest.generation}-"):
                with suppress(OSError):  # Windows cannot remove mapped files
                    path.unlink()
