"""Formats of data sets: one module for each, which reads it, writes it, or both.

`read_captions` detects the format from the content, never from the file name. Whatever a file contains, readers raise
nothing but `DatasetError`. The docstring of a module lists what its format cannot hold.

To add a format, write one module with the members of `Reader` or `Writer` (`deixis.data.formats.karpathy` is a short
example with both) and add the module to `READERS` or `WRITERS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from deixis.data.dataset import Dataset
from deixis.data.formats import (
    coco,
    entities,
    flickr,
    iapr,
    jsonl,
    karpathy,
    label_studio,
    odvg,
    parquet,
    regions,
    table,
)
from deixis.data.formats.content import Content
from deixis.data.names import CaptionSource, quote_text
from deixis.data.records import Photo
from deixis.errors import DatasetError, DeixisError
from deixis.storage.atomic import new_directory
from deixis.storage.progress import OnProgress, no_progress, track


class Reader(Protocol):
    """Interface of a module that reads a format."""

    FORM: str  # name in messages

    def recognizes(self, content: Content) -> bool:
        """Return whether the content has this format."""
        ...

    def read(self, content: Content) -> CaptionSource:
        """Return the photos in the content."""
        ...


class Writer(Protocol):
    """Interface of a module that writes a format."""

    def write(self, photos: Iterable[Photo], folder: Path, *, images: Path | None = None) -> None:
        """Write photos, one at a time, into an existing empty folder.

        If `images` is given, the photo files are included: inside the files of ``parquet``, as copies in
        ``folder/images`` for all other formats.
        """
        ...


READERS: tuple[Reader, ...] = (iapr, flickr, karpathy, coco, regions, label_studio, odvg, jsonl, table)
"""In the order in which they are tried. The first that recognizes the content reads it."""

WRITERS: Mapping[str, Writer] = {
    "entities": entities,
    "coco": coco,
    "karpathy": karpathy,
    "jsonl": jsonl,
    "odvg": odvg,
    "label-studio": label_studio,
    "parquet": parquet,
}


def read_captions(path: Path, *, instances: Path | None = None) -> CaptionSource:
    """Read photos and their captions from a file, or from a folder or zip of files.

    `instances` is a COCO file of boxes for COCO captions. Errors are raised at once or while iterating over the photos.
    """
    content = Content(path, instances)
    try:
        chosen = next((known for known in READERS if known.recognizes(content)), None)
        if chosen is None:
            forms = "; ".join(known.FORM for known in READERS)
            raise DatasetError(f"{path}: unknown format ({_describe(content)}); known formats: {forms}")
        if instances is not None and chosen is not coco:
            raise DatasetError(f"{path}: --instances {instances} requires COCO captions, but this is {chosen.FORM}")
        source = chosen.read(content)
    except OSError as error:
        raise DatasetError(f"{error.filename or path}: cannot be read ({error.strerror})") from error
    if source.total == 0:
        raise DatasetError(f"{path}: contains no photos")
    return source


def _describe(content: Content) -> str:
    if content.is_tree:
        names = content.names
        return f"a folder or zip of {len(names)} files" + (f", first {quote_text(names[0])}" if names else "")
    if isinstance(content.first_json, dict):
        return f"a JSON object with the keys {quote_text(', '.join(content.first_json))}"
    return f"it starts with {quote_text(content.first_line)}"


def write_as(photos: Iterable[Photo], format_name: str, folder: Path, *, images: Path | None = None) -> None:
    """Write photos in one of the `WRITERS`; see `Writer.write`."""
    if format_name not in WRITERS:
        raise DeixisError(f"unknown format {format_name!r}; choose one of {', '.join(WRITERS)}")
    WRITERS[format_name].write(photos, folder, images=images)


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
        One of `deixis.data.formats.WRITERS`.
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
