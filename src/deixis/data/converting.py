"""A data set directory becomes files that other tools read, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from deixis.data.dataset import Dataset
from deixis.data.records import Photo
from deixis.data.writers import write_as
from deixis.errors import DatasetError
from deixis.files.atomic import new_directory
from deixis.files.progress import OnProgress, silent, told


def convert_dataset(
    dataset: Dataset,
    format_name: str,
    out: Path,
    *,
    split: str | None = None,
    with_photos: bool = False,
    replace_old: bool = False,
    on_progress: OnProgress = silent,
) -> int:
    """Write a data set, or one split of it, in another format; the number of photos written.

    Parameters
    ----------
    dataset
        What to write.
    format_name
        A name of `deixis.data.writers.FORMATS`.
    out
        The directory to make; it appears only when it is whole.
    split
        Only the photos of this split.
    with_photos
        Take the photos' files along.
    replace_old
        Put the new directory in the place of an old one.
    on_progress
        Called as the work goes on.
    """
    if with_photos and dataset.images is None:
        raise DatasetError(f"{dataset.path}: there are no photos to take along; it was imported without --images")
    photos = dataset.split(split) if split else dataset.photos
    with new_directory(out, replace=replace_old, inputs=[dataset.path, dataset.images]) as folder:
        passing: Iterable[Photo] = told(photos, f"writing {format_name}", len(photos), on_progress)
        if split:  # a photo may be in others too, but those are not asked for
            passing = (replace(photo, splits=(split,)) for photo in passing)
        write_as(passing, format_name, folder, images=dataset.images if with_photos else None)
    return len(photos)
