"""Features that somebody else has computed become a feature store, if they are whole and belong to the data set."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from deixis.data.dataset import Dataset
from deixis.data.matching import ByName, stem_of
from deixis.errors import DatasetError, PhotoError
from deixis.files.progress import OnProgress, silent
from deixis.vision.store.filling import FillReport, drop_gone
from deixis.vision.store.manifest import Contents
from deixis.vision.store.shards import PhotoFeatures, Stamp
from deixis.vision.store.tables import FeatureTable, open_table
from deixis.vision.store.writing import open_for_writing

_AT_ONCE = 1024
_NO_HASH = "0" * 64


def import_features(
    path: Path, dataset: Dataset, file: Path, *, ids: Path | None = None, on_progress: OnProgress = silent
) -> FillReport:
    """Put whole-photo features from a file into a store.

    Nothing is written unless all of it can be used: as many names as vectors, no photo twice, finite numbers.

    Parameters
    ----------
    path
        The store's directory; begun if it is not there.
    dataset
        Whose photos the features are of; matched by id or file name, with or without ending, or Flickr number.
    file
        npy, npz, HDF5, MATLAB or safetensors.
    ids
        The names of the rows, where the file has none: one a line, a JSON list, or Karpathy's ``dataset.json``.
    on_progress
        Called as the work goes on.
    """
    with open_table(file, _read_names(ids) if ids else None) as table:
        row_of, unknown = _matched(table, dataset, ids or file)
        _refuse_not_finite(table, row_of, file, on_progress)
        fingerprint = f"imported:{_hash_of(file, ids)[:16]}"
        contents = Contents(fingerprint, fingerprint, table.dimension)
        with open_for_writing(path, contents, on_progress=on_progress) as writer:
            report = FillReport(damaged=writer.damaged, dropped=drop_gone(writer, dataset), unknown=unknown)
            missing = {photo: row for photo, row in row_of.items() if writer.stamp(photo) is None}
            for features in _features(table, missing, dataset, on_progress):
                writer.add(features)
            writer.flush()
            report.new, report.kept, report.photos = len(missing), len(row_of) - len(missing), len(writer.ids)
    known = dataset.tables["photos"]["id"].to_pylist()
    report.skipped = [PhotoError(photo, f"not in {file}") for photo in known if photo not in row_of]
    return report


def _read_names(path: Path) -> list[str]:
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


def _matched(table: FeatureTable, dataset: Dataset, said_in: Path) -> tuple[dict[str, int], int]:
    """The row of each photo, in the order of the rows, and how many names are of no photo."""
    photos = dataset.tables["photos"].select(["id", "file"]).to_pydict()
    by_id = ByName({photo: photo for photo in photos["id"]})
    by_file = ByName({stem_of(file): photo for photo, file in zip(photos["id"], photos["file"], strict=True) if file})
    row_of: dict[str, int] = {}
    for row, name in enumerate(table.names):
        photo = by_id.find(name) or by_id.find(stem_of(name)) or by_file.find(stem_of(name))
        if photo is None:
            continue
        if photo in row_of:
            earlier = row_of[photo]
            raise DatasetError(
                f"{said_in}: photo {photo} comes twice, in rows {earlier + 1} ({table.names[earlier]}) and "
                f"{row + 1} ({name})"
            )
        row_of[photo] = row
    if not row_of:
        example = f"{table.names[0]!r}, say" if table.names else "there are none"
        raise DatasetError(
            f"{said_in}: none of its {len(table.names):,} names ({example}) is a photo of {dataset.path}, "
            f"whose photos are called like {photos['id'][0]!r}"
        )
    return row_of, len(table.names) - len(row_of)


def _refuse_not_finite(table: FeatureTable, row_of: dict[str, int], file: Path, on_progress: OnProgress) -> None:
    photo_of = {row: photo for photo, row in row_of.items()}
    for begin in range(0, len(table.names), _AT_ONCE):
        end = min(begin + _AT_ONCE, len(table.names))
        finite = np.isfinite(table.rows(begin, end)).all(axis=1)
        for row in (begin + np.flatnonzero(~finite)).tolist():
            if row in photo_of:
                raise DatasetError(f"{file}: row {row + 1}, photo {photo_of[row]}, holds a number that is not finite")
        on_progress("checking", end, len(table.names))


def _features(
    table: FeatureTable, row_of: dict[str, int], dataset: Dataset, on_progress: OnProgress
) -> Iterator[PhotoFeatures]:
    columns = dataset.tables["photos"].select(["id", "sha256", "width", "height"]).to_pydict()
    about = {photo: (sha256, width, height) for photo, sha256, width, height in zip(*columns.values(), strict=True)}
    photo_of = {row: photo for photo, row in row_of.items()}
    done = 0
    for begin in range(0, len(table.names), _AT_ONCE):
        end = min(begin + _AT_ONCE, len(table.names))
        wanted = [row for row in range(begin, end) if row in photo_of]
        if not wanted:
            continue
        block = table.rows(begin, end)
        for row in wanted:
            sha256, width, height = about[photo_of[row]]
            stamp = Stamp(bytes.fromhex(sha256 or _NO_HASH), 0, 0)
            yield PhotoFeatures(photo_of[row], stamp, (width or 0, height or 0), block[row - begin])
        done += len(wanted)
        on_progress("importing", done, len(row_of))


def _hash_of(file: Path, ids: Path | None) -> str:
    """What tells these features from others: the bytes of the file and of the list of names."""
    together = hashlib.sha256()
    for path in (file, *([ids] if ids else [])):
        with path.open("rb") as opened:
            together.update(hashlib.file_digest(opened, "sha256").digest())
    return together.hexdigest()
