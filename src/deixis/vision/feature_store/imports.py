"""Import features that another program computed: vectors of photos, and of regions with their boxes.

A file of photo vectors has one matrix with a row or column per photo, or one vector per photo under its name. Regions
are in a file, or in a folder with one file per photo, as Fast R-CNN, bottom-up attention and other detectors give them.
Their arrays are found by their names (`ARRAYS`). docs/reference/features.md lists the layouts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from deixis import geometry
from deixis.arrays import Floats
from deixis.data.dataset import Dataset
from deixis.data.images import photo_size
from deixis.errors import DatasetError, PhotoError
from deixis.storage.files import hash_file
from deixis.storage.progress import OnProgress, no_progress, track
from deixis.vision.feature_store.containers import ID_NAMES, Arrays, find_array, list_shapes, open_arrays, readable
from deixis.vision.feature_store.files import IMPORTED, Contents, FeatureRecord, FileStamp
from deixis.vision.feature_store.store import open_writer
from deixis.vision.feature_store.updates import UpdateReport, drop_missing
from deixis.vision.proposals import Proposals, rank_boxes

FEATURE_NAMES = ("features", "feats", "whole", "vectors", "data", "x")
ARRAYS = {
    "features": ("image_features", "region_features", *FEATURE_NAMES, "feat", "fc7"),
    "boxes": ("boxes", "bbox", "bboxes", "image_bb", "rois", "box"),
    "scores": ("scores", "objects_conf", "objectness", "conf"),
    "counts": ("counts", "num_boxes", "num_bbox", "n_boxes"),
    "positions": ("pos_boxes", "positions"),
    "width": ("image_w", "image_width", "width", "widths", "w"),
    "height": ("image_h", "image_height", "height", "heights", "h"),
}
"""Accepted names of arrays, in order of preference and in any case."""

OF_REGIONS = ("features", "boxes", "scores")
"""Arrays with a row for each region; others have a number for each photo."""

BoxFormat = Literal["xyxy", "xywh"]

_BLOCK = 1024
"""Number of vectors that are read together."""

_TOLERANCE = 2.0
"""Pixels by which a box may leave its photo; it is clipped."""

_SUFFIXES = (".npz", ".h5", ".hdf5", ".mat", ".safetensors")
_LARGEST = float(np.finfo(np.float16).max)
_NO_HASH = "0" * 64

T = TypeVar("T")


@dataclass(frozen=True)
class NamedValues(Generic[T]):
    """Values of each photo in a file: `read` takes the index of a name."""

    names: list[str]
    read: Callable[[int], T]


@contextmanager
def open_vectors(path: Path, ids: list[str] | None = None, block_size: int = _BLOCK) -> Iterator[NamedValues[Floats]]:
    """Open a file of photo vectors. `ids` are the names of the photos, if the file has none."""
    with open_arrays(path, ids) as arrays:
        with readable(path):
            names, dimension, read = _vectors(arrays)
        if dimension == 0:
            raise DatasetError(f"{path}: its vectors are empty")

        @lru_cache(maxsize=1)  # vectors are mostly read in order
        def block(number: int) -> Floats:
            begin = number * block_size
            # Overflow becomes infinite without a warning; `import_features` checks for it.
            with readable(path), np.errstate(over="ignore"):
                return np.ascontiguousarray(read(begin, min(begin + block_size, len(names))), dtype=np.float32)

        yield NamedValues(names, lambda row: block(row // block_size)[row % block_size])


def _vectors(arrays: Arrays) -> tuple[list[str], int, Callable[[int, int], NDArray[Any]]]:
    """Return names, dimension and reader of a matrix with a row per name or, as is common in MATLAB, a column."""
    flat = {name: array for name, array in arrays.top_level.items() if array.ndim == 2 and name.lower() not in ID_NAMES}
    # MATLAB stores scalars and vectors as matrices: prefer those with several rows and columns.
    matrices = {name: array for name, array in flat.items() if min(array.shape) > 1} or flat
    if not matrices:
        return _vectors_by_name(arrays)
    matrix = next(iter(matrices.values())) if len(matrices) == 1 else find_array(matrices, FEATURE_NAMES)
    if matrix is None:
        listed = list_shapes(matrices)
        raise DatasetError(f"{arrays.path}: contains several matrices ({listed}); name the right one features")
    names, (rows, columns) = arrays.names, matrix.shape
    if len(names) == rows:
        return names, columns, lambda begin, end: matrix[begin:end]
    if len(names) == columns:
        return names, rows, lambda begin, end: np.asarray(matrix[:, begin:end]).T
    raise DatasetError(f"{arrays.path}: a {rows:,} × {columns:,} matrix does not match {len(names):,} names")


def _vectors_by_name(arrays: Arrays) -> tuple[list[str], int, Callable[[int, int], NDArray[Any]]]:
    shapes = {tuple(array.shape) for array in arrays.numbers.values()}
    if len(shapes) != 1 or len(shape := next(iter(shapes))) != 1 or arrays.ids is not None:
        found = ", ".join(sorted("×".join(map(str, shape)) or "one number" for shape in shapes)[:4]) or "no numbers"
        raise DatasetError(f"{arrays.path}: expected one matrix or one vector per photo, found {found}")
    names = list(arrays.numbers)
    return names, shape[0], lambda begin, end: np.stack([arrays.numbers[name][:] for name in names[begin:end]])


@dataclass(frozen=True)
class ImportedRegions:
    """The regions of a photo as a file has them; the size is that of the photo to which the boxes belong."""

    features: Floats
    boxes: NDArray[np.float64]
    scores: NDArray[np.float64] | None
    size: tuple[float, float] | None


@contextmanager
def open_regions(
    path: Path, boxes: Path | None = None, ids: list[str] | None = None
) -> Iterator[NamedValues[ImportedRegions]]:
    """Open a file or folder of region features; `boxes` is a file with the boxes, if they are not in it."""
    if path.is_dir():
        yield _open_folder(path)
        return
    with ExitStack() as stack:
        arrays = stack.enter_context(open_arrays(path, ids))
        known = _known(arrays.top_level)
        if boxes is not None:
            others = stack.enter_context(open_arrays(boxes)).numbers
            found = find_array(others, ARRAYS["boxes"])
            found = next(iter(others.values())) if found is None and len(others) == 1 else found
            if found is None:
                raise DatasetError(f"{boxes}: has no array called boxes")
            known["boxes"] = found
        with readable(path):
            layout = _layout(arrays, known)

        def read(index: int) -> ImportedRegions:
            with readable(path):
                return _read_regions(path, layout.read(index))

        yield NamedValues(layout.names, read)


def _open_folder(folder: Path) -> NamedValues[ImportedRegions]:
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES)
    if not files:
        raise DatasetError(f"{folder}: has no files of regions ({', '.join(_SUFFIXES)})")

    def read(index: int) -> ImportedRegions:
        with open_arrays(files[index]) as arrays, readable(files[index]):
            return _read_regions(files[index], _known(arrays.numbers))

    return NamedValues([path.stem for path in files], read)


def _known(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays with known names, by the keys of `ARRAYS`."""
    found = {key: find_array(arrays, names) for key, names in ARRAYS.items()}
    return {key: array for key, array in found.items() if array is not None}


Layout = NamedValues[Mapping[str, Any]]
"""The arrays of each photo, by the keys of `ARRAYS`."""


def _layout(arrays: Arrays, known: Mapping[str, Any]) -> Layout:
    features, boxes, groups = known.get("features"), known.get("boxes"), arrays.groups
    if features is not None and boxes is not None and features.ndim == boxes.ndim:
        if features.ndim == 3:
            return _padded_layout(arrays, known)
        if features.ndim == 2:
            return _flat_layout(arrays, known)
    if groups:
        names = list(groups)
        return NamedValues(names, lambda index: _known(groups[names[index]]))
    listed = (list_shapes(arrays.numbers) or "no numbers")[:200]
    raise DatasetError(f"{arrays.path}: no features and boxes of regions (found: {listed})")


def _of_photo(known: Mapping[str, Any], index: int, rows: int | slice) -> dict[str, Any]:
    """Return the arrays of one photo: its rows of the arrays of regions, and its number of those of photos."""
    found = {key: known[key][rows] for key in OF_REGIONS if key in known}
    for key in ("counts", "width", "height"):
        if key in known:
            values = np.ravel(known[key][()])
            found[key] = values[0 if len(values) == 1 else index]
    return found


def _padded_layout(arrays: Arrays, known: Mapping[str, Any]) -> Layout:
    names, features, boxes = arrays.names, known["features"], known["boxes"]
    if len(features) != len(boxes) or len(features) != len(names):
        counts = f"features of {len(features):,} photos, boxes of {len(boxes):,} and {len(names):,} names"
        raise DatasetError(f"{arrays.path}: {counts} do not fit")
    return NamedValues(names, lambda index: _of_photo(known, index, index))


def _flat_layout(arrays: Arrays, known: Mapping[str, Any]) -> Layout:
    names, total = arrays.names, len(known["boxes"])
    if "positions" in known:
        ranges = [(int(begin), int(end)) for begin, end in np.asarray(known["positions"][:]).reshape(-1, 2)]
    else:
        lengths = np.ravel(np.asarray(known["counts"][:] if "counts" in known else [], dtype=np.int64))
        ranges = list(pairwise([0, *np.cumsum(lengths).tolist()]))
    valid = len(ranges) == len(names) and all(0 <= begin <= end <= total for begin, end in ranges)
    if not valid or (ranges and max(end for _, end in ranges) != total) or len(known["features"]) != total:
        raise DatasetError(
            f"{arrays.path}: {len(known['features']):,} vectors and {total:,} boxes do not fit {len(names):,} names; "
            "give the regions of each photo as pos_boxes or counts"
        )
    # The counts of a photo are those of padding, which there is none of.
    return NamedValues(
        names, lambda index: {**_of_photo(known, index, slice(*ranges[index])), "counts": np.array(total)}
    )


def _read_regions(path: Path, arrays: Mapping[str, Any]) -> ImportedRegions:
    for key in ("features", "boxes"):
        if key not in arrays:
            raise DatasetError(f"{path}: has no array called {key}")
    with np.errstate(over="ignore"):
        vectors = np.asarray(arrays["features"][:], dtype=np.float32)
    corners = np.asarray(arrays["boxes"][:], dtype=np.float64)
    if vectors.ndim != 2 or corners.ndim != 2 or 4 not in corners.shape:
        raise DatasetError(f"{path}: features {vectors.shape} and boxes {corners.shape} of a photo are not matrices")
    if corners.shape[1] != 4:  # a column per region, as is common in MATLAB
        corners = corners.T
    if len(vectors) != len(corners) and vectors.shape[1] == len(corners):
        vectors = vectors.T
    if len(vectors) != len(corners):
        raise DatasetError(f"{path}: {len(vectors):,} vectors and {len(corners):,} boxes of a photo do not fit")
    scores = np.asarray(arrays["scores"][:], dtype=np.float64) if "scores" in arrays else None
    if scores is not None and scores.ndim == 2 and len(scores) == len(corners):
        scores = scores.max(axis=1)  # of each class
    if scores is not None and scores.shape != (len(corners),):
        scores = None
    numbers = {key: float(np.ravel(arrays[key][()])[0]) for key in ("counts", "width", "height") if key in arrays}
    used = np.arange(len(corners)) < int(numbers["counts"]) if "counts" in numbers else corners.any(1) | vectors.any(1)
    size = (numbers["width"], numbers["height"]) if {"width", "height"} <= numbers.keys() else None
    return ImportedRegions(vectors[used], corners[used], None if scores is None else scores[used], size)


def _in_photo(
    path: Path, photo: str, found: ImportedRegions, size: tuple[int, int], box_format: BoxFormat
) -> tuple[Proposals, Floats]:
    """Return the boxes of a photo in its pixels, best first, and their vectors in this order."""
    width, height = size
    boxes, vectors = found.boxes.copy(), found.features
    if not np.isfinite(boxes).all() or not (np.abs(vectors) <= _LARGEST).all():
        raise DatasetError(f"{path}: photo {photo} has a number that is not finite, or too large for float16")
    if box_format == "xywh":
        boxes[:, 2:] += boxes[:, :2]
    of = np.ones(2) if len(boxes) and boxes.max() <= 1 else np.array(found.size or size)
    boxes *= np.tile(np.array(size) / of, 2)
    outside = max(-boxes.min(initial=0), boxes[:, ::2].max(initial=0) - width, boxes[:, 1::2].max(initial=0) - height)
    if outside > _TOLERANCE:
        raise DatasetError(
            f"{path}: photo {photo}: boxes leave the photo of {width} × {height} by {outside:.0f} pixels; if they are "
            "those of another size of it, the file must have image_w and image_h; or try --box-format xywh"
        )
    boxes = geometry.clip(boxes, width, height)
    scores = np.linspace(1, 0, len(boxes) + 1)[:-1] if found.scores is None else found.scores
    order = rank_boxes(boxes, scores)
    if not len(order):
        raise DatasetError(f"{path}: photo {photo} has no box with an area")
    return Proposals(boxes[order], scores[order]), vectors[order]


def read_names(path: Path) -> list[str]:
    """Read photo names: one per line, a JSON list, or Karpathy's ``dataset.json``."""
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


def match_names(names: list[str], dataset: Dataset, names_file: Path) -> dict[str, int]:
    """Return the row of each photo that is named, in the order of the rows."""
    ids = dataset.photos.ids
    row_of: dict[str, int] = {}
    for row, name in enumerate(names):
        found = dataset.find_row(name)
        if found is None:
            continue
        photo = ids[found]
        if photo in row_of:
            both = (f"{each + 1} ({names[each]})" for each in (row_of[photo], row))
            raise DatasetError(f"{names_file}: photo {photo} occurs twice, in rows {' and '.join(both)}")
        row_of[photo] = row
    if not row_of:
        example = f"such as {names[0]!r}" if names else "it is empty"
        raise DatasetError(
            f"{names_file}: none of its {len(names):,} names ({example}) matches a photo of {dataset.path} "
            f"(such as {ids[0]!r})"
        )
    return row_of


def import_features(
    path: Path,
    dataset: Dataset,
    photos: Path | None = None,
    *,
    regions: Path | None = None,
    boxes: Path | None = None,
    ids: Path | None = None,
    box_format: BoxFormat = "xyxy",
    on_progress: OnProgress = no_progress,
) -> UpdateReport:
    """Import vectors of photos, of regions, or of both into a feature store.

    Photos are matched by id, file name or Flickr number; `ids` has their names if the files have none. Boxes, in
    `regions` or in a file of their own, are in pixels of the photo, or of the size that the file gives it, or
    fractions. Without `photos`, the vector of a photo is the mean of its regions. Nothing is written unless everything
    is valid.
    """
    columns = dataset.tables["photos"].select(["id", "sha256", "file", "width", "height"]).to_pydict().values()
    about = {photo: details for photo, *details in zip(*columns, strict=True)}
    names = read_names(ids) if ids else None
    with ExitStack() as stack:
        tables: dict[Path, NamedValues[Any]] = {}
        if regions is not None:
            tables[regions] = stack.enter_context(open_regions(regions, boxes, names))
        if photos is not None:
            tables[photos] = stack.enter_context(open_vectors(photos, names, 1 if regions else _BLOCK))
        rows = {file: match_names(table.names, dataset, ids or file) for file, table in tables.items()}

        def record(photo: str) -> FeatureRecord:
            sha256, file, width, height = about[photo]
            proposals, vectors, whole = None, None, np.zeros(0, np.float32)
            if regions is not None:
                if (not width or not height) and file and dataset.images:
                    width, height = photo_size(dataset.images / file)
                if not width or not height:
                    raise DatasetError(
                        f"{dataset.path}: the size of photo {photo} is not known; import data with --images"
                    )
                found = tables[regions].read(rows[regions][photo])
                proposals, floats = _in_photo(regions, photo, found, (width, height), box_format)
                whole, vectors = floats.mean(axis=0), floats.astype(np.float16)
            if photos is not None:
                row = rows[photos][photo]
                whole = tables[photos].read(row)
                if not np.isfinite(whole).all():
                    raise DatasetError(f"{photos}: row {row + 1}, photo {photo}, holds a number that is not finite")
            stamp = FileStamp(bytes.fromhex(sha256 or _NO_HASH), 0, 0)
            size = (int(width or 0), int(height or 0))
            return FeatureRecord(photo, stamp, size, whole, proposals=proposals, vectors=vectors)

        first, *others = rows.values()
        chosen = [photo for photo in first if all(photo in other for other in others)]
        if not chosen:
            raise DatasetError(f"{photos}: no photo of {regions} is in it")
        shapes, most = set(), 0
        for checked in track(map(record, chosen), "checking", len(chosen), on_progress):
            count, channels = (0, 0) if checked.vectors is None else checked.vectors.shape
            shapes.add((len(checked.whole), channels))
            most = max(most, count)
        if len(shapes) != 1:
            raise DatasetError(f"{regions}: vectors have different sizes: {sorted(shapes)}")
        [(dimension, channels)] = shapes
        fingerprint = f"{IMPORTED}:{_hash(filter(None, [regions, boxes, photos, ids]), box_format if regions else '')}"
        of_regions = (channels, 0, IMPORTED, most, fingerprint) if regions is not None else ()
        contents = Contents(fingerprint, fingerprint, dimension, *of_regions)
        unknown = len(next(iter(tables.values())).names) - len(first)
        with open_writer(path, contents, on_progress=on_progress) as writer:
            report = UpdateReport(damaged=writer.damaged, dropped=drop_missing(writer, dataset), unknown=unknown)
            missing = [photo for photo in chosen if writer.stamp(photo) is None]
            for made in track(map(record, missing), "importing", len(missing), on_progress):
                writer.add(made)
            writer.flush()
            report.new, report.kept, report.photos = len(missing), len(chosen) - len(missing), len(writer.ids)
    for photo in about:
        if (absent := next((file for file, own in rows.items() if photo not in own), None)) is not None:
            report.skipped.append(PhotoError(photo, f"not in {absent}"))
    return report


def _hash(paths: Iterable[Path], box_format: str) -> str:
    digest = hashlib.sha256(box_format.encode())
    for path in paths:
        files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
        for file in files:
            digest.update(bytes.fromhex(hash_file(file)))
    return digest.hexdigest()[:16]
