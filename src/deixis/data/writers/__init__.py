"""Writers of other formats. The docstring of each writer module lists what its format cannot hold.

To add a writer, write one module with a function `write`, as `Format` describes it, and add the module to `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from deixis.data.dataset import Dataset
from deixis.data.records import Photo
from deixis.data.writers import coco, entities, jsonl, karpathy, label_studio, odvg, parquet
from deixis.errors import DatasetError, DeixisError
from deixis.storage.atomic import new_directory
from deixis.storage.progress import OnProgress, no_progress, track


class Format(Protocol):
    """Interface of a writer module."""

    def write(self, photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
        """Write photos, one at a time, into an existing empty folder.

        If `images` is given, the photo files are included: inside the files of ``parquet``, as copies in
        ``folder/images`` for all other formats.
        """
        ...


FORMATS: Mapping[str, Format] = {
    "entities": entities,
    "coco": coco,
    "karpathy": karpathy,
    "jsonl": jsonl,
    "odvg": odvg,
    "label-studio": label_studio,
    "parquet": parquet,
}


def write_as(photos: Iterable[Photo], format_name: str, folder: Path, *, images: Path | None = None) -> None:
    """Write photos in one of the `FORMATS`; see `Format.write`."""
    if format_name not in FORMATS:
        raise DeixisError(f"unknown format {format_name!r}; choose one of {', '.join(FORMATS)}")
    FORMATS[format_name].write(photos, folder, images=images)


def convert_dataset(
    dataset: Dataset,
    format_name: str,
    out: Path,
    *,
    split: str | None = None,
    with_photos: bool = False,
    replace_old: bool = False,
    on_progress: OnProgress = no_progress,
) -> int:
    """Write a data set, or one split, in another format. Return the number of photos.

    Parameters
    ----------
    dataset
        The data set.
    format_name
        One of `deixis.data.writers.FORMATS`.
    out
        The directory to create. It appears only when it is complete.
    split
        Name of a split; by default all photos.
    with_photos
        Include the photo files.
    replace_old
        Replace an existing directory.
    on_progress
        Progress callback.

    Examples
    --------
    >>> convert_dataset(Dataset("flickr8k.data"), "coco", Path("coco"), split="dev")  # doctest: +SKIP
    1000
    """
    if with_photos and dataset.images is None:
        raise DatasetError(f"{dataset.path}: no photos to include; the data was imported without --images")
    photos = dataset.split(split) if split else dataset.photos
    with new_directory(out, replace=replace_old, inputs=[dataset.path, dataset.images]) as folder:
        tracked: Iterable[Photo] = track(photos, f"writing {format_name}", len(photos), on_progress)
        if split:  # drop other splits of the photos
            tracked = (replace(photo, splits=(split,)) for photo in tracked)
        write_as(tracked, format_name, folder, images=dataset.images if with_photos else None)
    return len(photos)
