"""Import region features with their boxes, as Fast R-CNN, bottom-up attention and other detectors give them.

A file holds the regions of all photos, or a folder holds one file per photo. The arrays are found by their names
(`FEATURES`, `BOXES`, …), in one of these layouts:

==========================================  =========================================================================
features (photos, regions, size)            boxes (photos, regions, 4); rows of zeros at the end are padding
features (all regions, size)                boxes (all regions, 4); with the first and last region of each photo
                                            (`POSITIONS`), or their numbers (`COUNTS`), or a photo name per region
``NAME/features`` and ``NAME/boxes``        groups of an HDF5 file, or names with a slash; one pair per photo
cells of matrices, in MATLAB                one cell per photo
a folder of files ``NAME.npz``, …           features (regions, size) and boxes (regions, 4) in each
==========================================  =========================================================================
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from deixis import geometry
from deixis.data.dataset import Dataset
from deixis.data.images import photo_size
from deixis.errors import DatasetError, PhotoError
from deixis.storage.files import hash_file
from deixis.storage.progress import OnProgress, no_progress
from deixis.vision.feature_store.files import IMPORTED, Contents, FeatureRecord, FileStamp
from deixis.vision.feature_store.imports import (
    FEATURE_NAMES,
    NO_HASH,
    Arrays,
    FeatureTable,
    find_names,
    match_names,
    open_arrays,
    open_table,
    read_names,
    readable,
)
from deixis.vision.feature_store.store import open_writer
from deixis.vision.feature_store.updates import UpdateReport, drop_missing
from deixis.vision.proposals import Proposals

FEATURES = ("image_features", "region_features", *FEATURE_NAMES, "feat", "fc7")
BOXES = ("boxes", "bbox", "bboxes", "image_bb", "rois", "box")
SCORES = ("scores", "objects_conf", "objectness", "conf")
COUNTS = ("counts", "num_boxes", "num_bbox", "n_boxes")
POSITIONS = ("pos_boxes", "positions")
WIDTHS = ("image_w", "image_width", "width", "widths", "w")
HEIGHTS = ("image_h", "image_height", "height", "heights", "h")
"""Accepted names of arrays, in order of preference and in any case."""

BoxFormat = Literal["xyxy", "xywh"]

_TOLERANCE = 2.0
"""Pixels by which a box may leave its photo; it is clipped."""

_SUFFIXES = (".npz", ".h5", ".hdf5", ".mat", ".safetensors")
_LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class PhotoArrays:
    """The regions of one photo as a file has them; the size is that of the photo to which the boxes belong."""

    features: NDArray[np.float32]
    boxes: NDArray[np.float64]
    scores: NDArray[np.float64] | None = None
    size: tuple[float, float] | None = None


@dataclass(frozen=True)
class RegionTable:
    """The regions of photos, in the order of their names."""

    names: list[str]
    photo: Callable[[int], PhotoArrays]


def _find(arrays: Mapping[str, Any], names: Sequence[str]) -> Any | None:
    by_name = {name.lower(): array for name, array in arrays.items()}
    return next((by_name[name] for name in names if name in by_name), None)


def _number(array: Any, index: int | None = None) -> float:
    values = np.ravel(np.asarray(array[()] if array.ndim == 0 else array[:]))
    return float(values[0 if index is None or len(values) == 1 else index])


def _size(numbers: Mapping[str, Any], index: int | None = None) -> tuple[float, float] | None:
    width, height = _find(numbers, WIDTHS), _find(numbers, HEIGHTS)
    return None if width is None or height is None else (_number(width, index), _number(height, index))


def _one_photo(path: Path, numbers: Mapping[str, Any], boxes: Any | None = None) -> PhotoArrays:
    """The regions in a file, or in the arrays of a name, that are those of one photo."""
    features, boxes = _find(numbers, FEATURES), _find(numbers, BOXES) if boxes is None else boxes
    if features is None or boxes is None:
        raise DatasetError(f"{path}: has no array called {'features' if features is None else 'boxes'}")
    scores, count = _find(numbers, SCORES), _find(numbers, COUNTS)
    return _regions(path, features[:], boxes[:], scores, _size(numbers), None if count is None else int(_number(count)))


def _regions(
    path: Path, features: Any, boxes: Any, scores: Any | None, size: tuple[float, float] | None, count: int | None
) -> PhotoArrays:
    with np.errstate(over="ignore"):
        vectors = np.asarray(features, dtype=np.float32)
    corners = np.asarray(boxes, dtype=np.float64)
    if vectors.ndim != 2 or corners.ndim != 2 or 4 not in corners.shape:
        raise DatasetError(f"{path}: features {vectors.shape} and boxes {corners.shape} of a photo are not matrices")
    if corners.shape[1] != 4:  # a column per region, as is common in MATLAB
        corners = corners.T
    if len(vectors) != len(corners) and vectors.shape[1] == len(corners):
        vectors = vectors.T
    if len(vectors) != len(corners):
        raise DatasetError(f"{path}: {len(vectors):,} vectors and {len(corners):,} boxes of a photo do not fit")
    values = None if scores is None else np.asarray(scores[:], dtype=np.float64)
    if values is not None and values.ndim == 2 and len(values) == len(corners):
        values = values.max(axis=1)  # of each class
    if values is not None and values.shape != (len(corners),):
        values = None
    used = np.arange(len(corners)) < count if count is not None else (corners != 0).any(axis=1) | vectors.any(axis=1)
    return PhotoArrays(vectors[used], corners[used], None if values is None else values[used], size)


@contextmanager
def open_regions(path: Path, boxes: Path | None = None, ids: list[str] | None = None) -> Iterator[RegionTable]:
    """Open a file or folder of region features; `boxes` is a file with the boxes, if they are not in it."""
    if path.is_dir():
        yield _folder_table(path)
        return
    with ExitStack() as stack:
        with readable(path):
            arrays = stack.enter_context(open_arrays(path))
        others = None
        if boxes is not None:
            with readable(boxes):
                more = stack.enter_context(open_arrays(boxes)).numbers
            others = _find(more, BOXES)
            others = next(iter(more.values())) if others is None and len(more) == 1 else others
            if others is None:
                raise DatasetError(f"{boxes}: has no array called boxes")
        with readable(path):
            table = _file_table(path, arrays, others, ids)

        def photo(index: int) -> PhotoArrays:
            with readable(path):
                return table.photo(index)

        yield RegionTable(table.names, photo)


def _folder_table(folder: Path) -> RegionTable:
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _SUFFIXES)
    if not files:
        raise DatasetError(f"{folder}: has no files of regions ({', '.join(_SUFFIXES)})")

    def photo(index: int) -> PhotoArrays:
        with readable(files[index]), open_arrays(files[index]) as arrays:
            return _one_photo(files[index], arrays.numbers)

    return RegionTable([path.stem for path in files], photo)


def _file_table(path: Path, arrays: Arrays, boxes: Any | None, ids: list[str] | None) -> RegionTable:
    numbers = {name: array for name, array in arrays.numbers.items() if "/" not in name}
    features = _find(numbers, FEATURES)
    boxes = _find(numbers, BOXES) if boxes is None else boxes
    if features is not None and boxes is not None:
        if features.ndim == 3 and boxes.ndim == 3:
            return _padded_table(path, arrays, numbers, features, boxes, ids)
        if features.ndim == 2 and boxes.ndim == 2:
            return _flat_table(path, arrays, numbers, features, boxes, ids)
    groups: dict[str, dict[str, Any]] = {}
    for name, array in arrays.numbers.items():
        first, slash, last = name.rpartition("/")
        if slash:
            groups.setdefault(first, {})[last] = array
    if groups and all(name.lower() in (*FEATURES, *BOXES, *SCORES) for name in groups):
        return _cell_table(path, arrays, groups, numbers, ids)
    if groups:
        names = list(groups)
        return RegionTable(names, lambda index: _one_photo(path, groups[names[index]]))
    listed = ", ".join(f"{name} {'×'.join(map(str, array.shape))}" for name, array in arrays.numbers.items())
    raise DatasetError(f"{path}: no features and boxes of regions (found: {listed[:200] or 'no numbers'})")


def _names(path: Path, arrays: Arrays, ids: list[str] | None) -> list[str]:
    return find_names(path, arrays) if ids is None else ids


def _padded_table(
    path: Path, arrays: Arrays, numbers: Mapping[str, Any], features: Any, boxes: Any, ids: list[str] | None
) -> RegionTable:
    names, scores, counts = _names(path, arrays, ids), _find(numbers, SCORES), _find(numbers, COUNTS)
    if len(features) != len(boxes) or len(features) != len(names):
        raise DatasetError(
            f"{path}: features of {len(features):,} photos, boxes of {len(boxes):,} and {len(names):,} names do not fit"
        )

    def photo(index: int) -> PhotoArrays:
        count = None if counts is None else int(_number(counts, index))
        own = None if scores is None else scores[index]
        return _regions(path, features[index], boxes[index], own, _size(numbers, index), count)

    return RegionTable(names, photo)


def _flat_table(
    path: Path, arrays: Arrays, numbers: Mapping[str, Any], features: Any, boxes: Any, ids: list[str] | None
) -> RegionTable:
    names, scores = _names(path, arrays, ids), _find(numbers, SCORES)
    positions, counts, total = _find(numbers, POSITIONS), _find(numbers, COUNTS), len(boxes)
    if positions is not None:
        ranges = [(int(begin), int(end)) for begin, end in np.asarray(positions[:]).reshape(-1, 2)]
    elif counts is not None:
        ends = np.cumsum(np.ravel(np.asarray(counts[:], dtype=np.int64))).tolist()
        ranges = list(zip([0, *ends[:-1]], ends, strict=True))
    else:
        runs = [(name, len(list(group))) for name, group in groupby(names)]
        names, ends = [name for name, _ in runs], np.cumsum([count for _, count in runs]).tolist()
        ranges = list(zip([0, *ends[:-1]], ends, strict=True))
    valid = len(ranges) == len(names) and all(0 <= begin <= end <= total for begin, end in ranges)
    if not valid or (ranges and max(end for _, end in ranges) != total) or len(features) != total:
        raise DatasetError(
            f"{path}: {len(features):,} vectors and {total:,} boxes do not fit {len(names):,} names; give the regions "
            f"of each photo as {POSITIONS[0]} or {COUNTS[0]}, or a photo name per region"
        )

    def photo(index: int) -> PhotoArrays:
        begin, end = ranges[index]
        own = None if scores is None else scores[begin:end]
        count = end - begin
        return _regions(path, features[begin:end], boxes[begin:end], own, _size(numbers, index), count)

    return RegionTable(names, photo)


def _cell_table(
    path: Path,
    arrays: Arrays,
    groups: Mapping[str, Mapping[str, Any]],
    numbers: Mapping[str, Any],
    ids: list[str] | None,
) -> RegionTable:
    """Cells of matrices, one per photo."""
    names, features, boxes = _names(path, arrays, ids), _find(groups, FEATURES), _find(groups, BOXES)
    if features is None or boxes is None or len(features) != len(names) or len(boxes) != len(names):
        raise DatasetError(f"{path}: cells of features, cells of boxes and {len(names):,} names do not fit")

    def photo(index: int) -> PhotoArrays:
        parts = features[str(index)], boxes[str(index)]
        if arrays.transposed:
            parts = parts[0][:].T, parts[1][:].T
        return _regions(path, parts[0][:], parts[1][:], None, _size(numbers, index), None)

    return RegionTable(names, photo)


def import_regions(
    path: Path,
    dataset: Dataset,
    regions: Path,
    *,
    boxes: Path | None = None,
    photos: Path | None = None,
    ids: Path | None = None,
    box_format: BoxFormat = "xyxy",
    on_progress: OnProgress = no_progress,
) -> UpdateReport:
    """Import the vectors and boxes of regions into a feature store, and the vectors of photos if there are any.

    Nothing is written unless everything is valid. Without `photos`, the vector of a photo is the mean of its regions.

    Parameters
    ----------
    path
        Directory of the store; created if missing.
    dataset
        The data set. Photos are matched by id, file name with or without suffix, or Flickr number.
    regions
        A file or a folder, see above. Boxes are in pixels of the photo, or of the size that the file gives it, or
        fractions of the photo.
    boxes
        A file with the boxes, if `regions` has none, such as one npy file beside the other.
    photos
        A file of global vectors, as for `import_features`; they may have another size than those of regions.
    ids
        Names of the photos, if the files have none.
    box_format
        xyxy: two corners; xywh: one corner, width and height.
    on_progress
        Progress callback.
    """
    columns = dataset.tables["photos"].select(["id", "sha256", "file", "width", "height"]).to_pydict().values()
    about = {photo: details for photo, *details in zip(*columns, strict=True)}
    names = read_names(ids) if ids else None
    with ExitStack() as stack:
        table = stack.enter_context(open_regions(regions, boxes, names))
        row_of, unknown = match_names(table.names, dataset, ids or regions)
        wholes: FeatureTable | None = None
        whole_row: dict[str, int] = {}
        if photos is not None:
            wholes = stack.enter_context(open_table(photos, names))
            whole_row, _ = match_names(wholes.names, dataset, ids or photos)

        def record(photo: str) -> FeatureRecord:
            sha256, file, width, height = about[photo]
            if (not width or not height) and file and dataset.images:
                width, height = photo_size(dataset.images / file)
            if not width or not height:
                raise DatasetError(f"{dataset.path}: the size of photo {photo} is not known; import data with --images")
            found, vectors = _to_photo(regions, photo, table.photo(row_of[photo]), (width, height), box_format)
            whole = vectors.mean(axis=0)
            if wholes is not None:
                whole = wholes.rows(whole_row[photo], whole_row[photo] + 1)[0]
                if not np.isfinite(whole).all():
                    raise DatasetError(f"{photos}: photo {photo} has a number that is not finite")
            stamp = FileStamp(bytes.fromhex(sha256 or NO_HASH), 0, 0)
            size = (int(width), int(height))
            return FeatureRecord(photo, stamp, size, whole, proposals=found, vectors=vectors.astype(np.float16))

        chosen = [photo for photo in row_of if wholes is None or photo in whole_row]
        if not chosen:
            raise DatasetError(f"{photos}: no photo of {regions} is in it")
        sizes, most = set(), 0
        for done, photo in enumerate(chosen):
            checked = record(photo)
            assert checked.vectors is not None  # noqa: S101
            sizes.add((len(checked.whole), checked.vectors.shape[1]))
            most = max(most, len(checked.vectors))
            on_progress("checking", done + 1, len(chosen))
        if len(sizes) != 1:
            raise DatasetError(f"{regions}: vectors have different sizes: {sorted(sizes)}")
        [(dimension, channels)] = sizes
        fingerprint = f"{IMPORTED}:{_hash(filter(None, [regions, boxes, photos, ids]), box_format)}"
        contents = Contents(fingerprint, fingerprint, dimension, channels, 0, IMPORTED, most, fingerprint)
        with open_writer(path, contents, on_progress=on_progress) as writer:
            report = UpdateReport(damaged=writer.damaged, dropped=drop_missing(writer, dataset), unknown=unknown)
            missing = [photo for photo in chosen if writer.stamp(photo) is None]
            for done, photo in enumerate(missing):
                writer.add(record(photo))
                on_progress("importing", done + 1, len(missing))
            writer.flush()
            report.new, report.kept, report.photos = len(missing), len(chosen) - len(missing), len(writer.ids)
    left_out = [photo for photo in about if photo not in set(chosen)]
    report.skipped = [PhotoError(photo, f"not in {photos if photo in row_of else regions}") for photo in left_out]
    return report


def _to_photo(
    path: Path, photo: str, found: PhotoArrays, size: tuple[int, int], box_format: BoxFormat
) -> tuple[Proposals, NDArray[np.float32]]:
    """Return the boxes of a photo in its pixels, best first, and their vectors in this order."""
    width, height = size
    boxes, vectors = found.boxes.copy(), found.features
    if not np.isfinite(boxes).all() or not (np.abs(vectors) <= _LARGEST).all():
        raise DatasetError(f"{path}: photo {photo} has a number that is not finite, or too large for float16")
    if box_format == "xywh":
        boxes[:, 2:] += boxes[:, :2]
    of = np.ones(2) if len(boxes) and boxes.max() <= 1 else np.array(found.size or (width, height))
    boxes *= np.tile(np.array([width, height]) / of, 2)
    outside = max(-boxes.min(initial=0), boxes[:, ::2].max(initial=0) - width, boxes[:, 1::2].max(initial=0) - height)
    if outside > _TOLERANCE:
        raise DatasetError(
            f"{path}: photo {photo}: boxes leave the photo of {width} × {height} by {outside:.0f} pixels; if they are "
            f"those of another size of it, the file must have {WIDTHS[0]} and {HEIGHTS[0]}; or try --box-format xywh"
        )
    boxes = geometry.clip(boxes, width, height)
    scores = np.linspace(1, 0, len(boxes) + 1)[:-1] if found.scores is None else found.scores
    order = np.argsort(-scores, kind="stable")
    order = order[geometry.area(boxes[order]) > 0]
    order = order[np.sort(np.unique(boxes[order], axis=0, return_index=True)[1])]
    if not len(order):
        raise DatasetError(f"{path}: photo {photo} has no box with an area")
    return Proposals(boxes[order], scores[order]), vectors[order]


def _hash(paths: Iterator[Path], box_format: str) -> str:
    digest = hashlib.sha256(box_format.encode())
    for path in paths:
        files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
        for file in files:
            digest.update(bytes.fromhex(hash_file(file)))
    return digest.hexdigest()[:16]
