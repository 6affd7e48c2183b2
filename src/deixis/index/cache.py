"""The matrix as files: appended to, mapped into memory, checked, and made again from the database whenever in doubt.

Files of one generation only grow; the manifest says how far they count and is replaced whole, after them. Whoever reads
maps what the manifest names and is never disturbed. A new generation has new names.
"""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DeixisError
from deixis.files.atomic import clear_unfinished, explained, new_file, only_one
from deixis.index.about import About
from deixis.index.codes import Basis
from deixis.index.database import DATABASE, at_one_moment, read_about
from deixis.index.rows import Rows, basis_of, photos_with_regions, read_rows

FOLDER = "cache"
MANIFEST = "manifest.json"
VERSION = 2
_ARRAYS = ("ids", "whole", "counts", "codes")
_DEAD_SHARE = 0.25
_WELL_FITTED = 50_000
"""Photos whose axes are good for any number of others."""


@dataclass(frozen=True)
class Block:
    """Rows that were appended together, and what their bytes add up to in each file."""

    rows: int
    regions: int
    sums: tuple[int, ...]


@dataclass(frozen=True)
class CacheManifest:
    """What the files of a cache hold.

    Attributes
    ----------
    uid
        Of the index.
    generation
        What the names of the files begin with.
    fitted
        Photos with regions that there were when the axes were chosen.
    last_id, removed
        The highest number of a photo, and of an entry in the table of the removed, that was looked at.
    """

    uid: str
    generation: str
    dimension: int
    region_dimension: int
    width: int
    fitted: int
    basis_sum: int
    last_id: int = 0
    removed: int = 0
    blocks: tuple[Block, ...] = ()

    @property
    def rows(self) -> int:
        """Photos, those included that have been removed since."""
        return sum(block.rows for block in self.blocks)

    @property
    def regions(self) -> int:
        """Regions of all of them."""
        return sum(block.regions for block in self.blocks)

    def shapes(self, rows: int, regions: int) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and type of so many rows in each file."""
        return {
            "ids": ((rows,), np.dtype("<i8")),
            "whole": ((rows, self.dimension), np.dtype("<f4")),
            "counts": ((rows,), np.dtype("<i8")),
            "codes": ((regions, self.width), np.dtype("i1")),
        }


@dataclass(frozen=True)
class Cached:
    """A cache, mapped and found to be whole."""

    manifest: CacheManifest
    rows: Rows
    basis: Basis


def read_manifest(folder: Path, about: About) -> CacheManifest | None:
    """What the cache of this index holds; None where there is none, or one of another index or version."""
    try:
        document = json.loads((folder / FOLDER / MANIFEST).read_bytes())
        if document.pop("version") != VERSION:
            return None
        blocks = tuple(Block(each["rows"], each["regions"], tuple(each["sums"])) for each in document.pop("blocks"))
        manifest = CacheManifest(**document, blocks=blocks)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return manifest if _is_of(manifest, about) else None


def _is_of(manifest: CacheManifest, about: About) -> bool:
    held = manifest.uid, manifest.dimension, manifest.region_dimension
    return held == (about.uid, about.dimension, about.region_dimension)


def has_cache(folder: Path) -> bool:
    """Whether there is a cache of any kind, whole or not."""
    return (folder / FOLDER / MANIFEST).exists()


def open_cache(folder: Path, about: About) -> Cached | None:
    """Map the cache and read it once through; None unless every byte is as it was written."""
    manifest = read_manifest(folder, about)
    if manifest is None:
        return None
    try:
        basis = _mapped(folder, manifest, "basis", (manifest.region_dimension + 1, manifest.width), np.dtype("<f4"))
        shapes = manifest.shapes(manifest.rows, manifest.regions)
        arrays = {name: _mapped(folder, manifest, name, *shapes[name]) for name in _ARRAYS}
        whole = _sum(basis) == manifest.basis_sum and _is_whole(manifest, arrays)
    except (
        OSError,
        ValueError,
        TypeError,
        OverflowError,
    ):  # a file is missing or too short, or the manifest holds nonsense
        return None
    return Cached(manifest, Rows(**arrays), Basis(basis[:-1], basis[-1])) if whole else None


def bring_up_to_date(folder: Path, connection: sqlite3.Connection) -> bool:
    """Put what the database holds and the cache does not into the cache; whether that could be done.

    A cache is never worth an error: without it a search reads the database.
    """
    try:
        with explained(folder / FOLDER):
            (folder / FOLDER).mkdir(exist_ok=True)
            with only_one(folder / FOLDER / MANIFEST), at_one_moment(connection):
                clear_unfinished(folder / FOLDER / MANIFEST)
                _Writer(folder, connection).write()
        return True
    except DeixisError:
        return False


class _Writer:
    """Whoever holds the lock of the cache, and sees the database as it was at one moment."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder, self.connection = folder, connection
        self.about = read_about(connection, folder / DATABASE)
        self.removed = connection.execute("SELECT coalesce(max(number), 0) FROM removed").fetchone()[0]

    def write(self) -> None:
        cached = open_cache(self.folder, self.about)
        with_regions = photos_with_regions(self.connection)
        if cached is None or self._is_worn(cached.manifest, len(with_regions)):
            basis = basis_of(self.connection, with_regions, self.about.region_dimension)
            manifest = self._new_generation(basis, len(with_regions))
        else:
            basis, manifest = cached.basis, cached.manifest
        self._append(manifest, basis)
        self._clear_up()

    def _is_worn(self, manifest: CacheManifest, with_regions: int) -> bool:
        """Whether too many rows are dead, or the axes were chosen by too few photos."""
        (living,) = self.connection.execute("SELECT count(*) FROM photos WHERE id <= ?", (manifest.last_id,)).fetchone()
        badly_fitted = manifest.fitted < _WELL_FITTED and with_regions > 2 * manifest.fitted
        return manifest.rows - living > _DEAD_SHARE * manifest.rows or badly_fitted

    def _new_generation(self, basis: Basis, fitted: int) -> CacheManifest:
        generation = uuid.uuid4().hex[:12]
        together = np.ascontiguousarray(np.concatenate([basis.axes, basis.steps[None]]), dtype="<f4")
        manifest = CacheManifest(
            self.about.uid,
            generation,
            self.about.dimension,
            self.about.region_dimension,
            len(basis.steps),
            fitted,
            _sum(together),
            removed=self.removed,
        )
        _file(self.folder, manifest, "basis").write_bytes(together.tobytes())
        for name in _ARRAYS:
            _file(self.folder, manifest, name).touch()
        return manifest

    def _append(self, manifest: CacheManifest, basis: Basis) -> None:
        parts = read_rows(self.connection, self.folder / DATABASE, self.about, basis, after=manifest.last_id)
        block, last_id = Block(0, 0, (0,) * len(_ARRAYS)), manifest.last_id
        with ExitStack() as stack:
            shapes = manifest.shapes(manifest.rows, manifest.regions)
            files = []
            for name in _ARRAYS:
                file = stack.enter_context(_file(self.folder, manifest, name).open("r+b"))
                shape, kind = shapes[name]
                file.seek(int(np.prod(shape)) * kind.itemsize)
                file.truncate()  # what a killed process left behind
                files.append(file)
            for part in parts:
                arrays = [np.ascontiguousarray(getattr(part, name)) for name in _ARRAYS]
                for file, array in zip(files, arrays, strict=True):
                    file.write(array.data)
                sums = tuple((old + _sum(array)) % 2**64 for old, array in zip(block.sums, arrays, strict=True))
                block = Block(block.rows + len(part), block.regions + len(part.codes), sums)
                last_id = int(part.ids[-1])
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        if block.rows or not manifest.blocks:
            self._put_in_place(replace(manifest, last_id=last_id, blocks=(*manifest.blocks, block)))

    def _put_in_place(self, manifest: CacheManifest) -> None:
        with new_file(self.folder / FOLDER / MANIFEST) as unfinished:
            unfinished.write_text(json.dumps({"version": VERSION, **asdict(manifest)}), encoding="utf-8")

    def _clear_up(self) -> None:
        """Remove what no manifest names; those who have it mapped keep it until they are done."""
        manifest = read_manifest(self.folder, self.about)
        for path in (self.folder / FOLDER).glob("*.bin"):
            if manifest is None or not path.name.startswith(f"{manifest.generation}-"):
                with suppress(OSError):  # Windows keeps what is mapped
                    path.unlink()


def _is_whole(manifest: CacheManifest, arrays: dict[str, NDArray[Any]]) -> bool:
    starts = dict.fromkeys(_ARRAYS, 0)
    for block in manifest.blocks:
        for name, expected in zip(_ARRAYS, block.sums, strict=True):
            end = starts[name] + (block.regions if name == "codes" else block.rows)
            if _sum(arrays[name][starts[name] : end]) != expected:
                return False
            starts[name] = end
    return int(arrays["counts"].sum()) == manifest.regions


def _sum(array: NDArray[Any]) -> int:
    """What the words of an array add up to: any single flipped bit changes it, and it is found at memory's speed.

    The words of rows that are joined are the words of the rows, so sums of parts add up to the sum of the whole.
    """
    row_bytes = array.itemsize * int(np.prod(array.shape[1:]))
    word = next(word for word in (np.uint64, np.uint32, np.uint8) if row_bytes % np.dtype(word).itemsize == 0)
    return int(array.reshape(-1).view(word).sum(dtype=np.uint64))


def _mapped(
    folder: Path, manifest: CacheManifest, name: str, shape: tuple[int, ...], kind: np.dtype[Any]
) -> NDArray[Any]:
    if 0 in shape:
        return np.zeros(shape, dtype=kind)
    return np.asarray(np.memmap(_file(folder, manifest, name), dtype=kind, mode="r", shape=shape))


def _file(folder: Path, manifest: CacheManifest, name: str) -> Path:
    return folder / FOLDER / f"{manifest.generation}-{name}.bin"
