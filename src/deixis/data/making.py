"""Records become a data set directory, whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from deixis.data.manifest import Manifest, hash_tables, write_manifest
from deixis.data.records import Photo
from deixis.data.store import write_tables
from deixis.errors import DatasetError
from deixis.files.atomic import new_directory
from deixis.tokens import TOKENIZER_VERSION

UNKNOWN_LICENCE = "not stated; ask the makers of the data"

FEATURES = "features"
"""The folder of a data set directory for what is computed from it; whoever fills it knows what in it is stale."""


def make_dataset(
    out: Path,
    photos: Iterable[Photo],
    *,
    images: Path | None = None,
    licence: str = UNKNOWN_LICENCE,
    sources: Sequence[tuple[str, Path]] = (),
    replace_old: bool = False,
    inputs: Iterable[Path | None] = (),
) -> Manifest:
    """Make a data set directory of photos.

    Parameters
    ----------
    out
        The directory to make; it appears only when it is whole.
    photos
        Read once; a few thousand are held at a time.
    images
        The folder below which the photos' files lie.
    licence
        What the makers of the data allow.
    sources
        The kind and the path of each file or folder that the photos come from.
    replace_old
        Put the new directory in the place of an old one, whose features it takes over.
    inputs
        Further files that are read while it is made; an old directory that holds one is not replaced.

    Examples
    --------
    >>> import tempfile
    >>> from deixis.data.records import Caption
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dog = Photo("1", (Caption.from_text("A dog."),), splits=("train",))
    ...     make_dataset(Path(folder) / "data", [dog]).splits
    {'train': 1}
    """
    splits: Counter[str] = Counter()

    def counted() -> Iterator[Photo]:
        for photo in photos:
            splits.update(set(photo.splits))
            yield photo

    read_from = [images, *(path for _, path in sources), *inputs]
    with new_directory(out, replace=replace_old, inputs=read_from) as folder:
        counts = write_tables(counted(), folder)
        if not counts["photos"]:
            raise DatasetError("nothing to make a data set of: there is no photo")
        files, together = hash_tables(folder)
        manifest = Manifest(
            sources=tuple({"kind": kind, "name": path.name} for kind, path in sources),
            licence=licence,
            images=str(images.absolute()) if images else None,
            splits=dict(sorted(splits.items())),
            counts=counts,
            files=files,
            hash=together,
            tokenizer=TOKENIZER_VERSION,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        write_manifest(manifest, folder)
        _take_over(out / FEATURES, folder / FEATURES)
    return manifest


def _take_over(old: Path, new: Path) -> None:
    """Give a folder a second name: the old one stays whole until the new directory is in its place."""
    if old.is_symlink():
        new.symlink_to(old.readlink())
    elif old.is_dir():
        unfinished = shutil.ignore_patterns(".*.lock", ".*.partial-*")
        shutil.copytree(old, new, symlinks=True, ignore=unfinished, copy_function=_link_or_copy)


def _link_or_copy(old: str, new: str) -> None:
    try:
        os.link(old, new)
    except OSError:  # not every file system has links
        shutil.copy2(old, new)
