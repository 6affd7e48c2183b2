"""Writer of data set directories."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from deixis.data.records import Photo
from deixis.data.tables import Manifest, hash_tables, write_manifest, write_tables
from deixis.errors import DatasetError
from deixis.storage.atomic import new_directory
from deixis.tokens import TOKENIZER_VERSION

UNKNOWN_LICENCE = "not stated; ask the makers of the data"

FEATURES = "features"
"""Folder of a data set directory for computed features. Its content may be stale after a new import."""


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
    """Write a data set directory.

    Parameters
    ----------
    out
        The directory to create. It appears only when it is complete.
    photos
        Records, read once. A few thousand are in memory at a time.
    images
        The photo folder.
    licence
        Licence of the data.
    sources
        Format and path of each source file or folder.
    replace_old
        Replace an existing data set. Its computed features are kept.
    inputs
        Other files that `photos` reads. A directory that contains one of them is not replaced.

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
            raise DatasetError("no photos: a data set needs at least one")
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
        _keep_features(out / FEATURES, folder / FEATURES)
    return manifest


def _keep_features(old: Path, new: Path) -> None:
    """Hard-link the features, so that the old data set stays complete until it is replaced."""
    if old.is_symlink():
        new.symlink_to(old.readlink())
    elif old.is_dir():
        unfinished = shutil.ignore_patterns(".*.lock", ".*.partial-*")
        shutil.copytree(old, new, symlinks=True, ignore=unfinished, copy_function=_link_or_copy)


def _link_or_copy(old: str, new: str) -> None:
    try:
        os.link(old, new)
    except OSError:  # the file system has no hard links
        shutil.copy2(old, new)
