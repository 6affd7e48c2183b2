"""The photo files below some folders, met one folder after another, whatever lies between them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deixis.data.images import SUFFIXES
from deixis.errors import DeixisError, PhotoError

MARK = ".deixis-index"
"""An empty file in every index: what lies there are no photos of anybody's, and only there is a database replaced."""


@dataclass(frozen=True)
class FoundFile:
    """A file that may be a photo, and what tells whether it has changed."""

    path: Path
    size: int
    mtime_ns: int


def starting_points(places: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Absolute paths of folders and files that exist, without those that lie in another one of them.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (Path(folder) / "below").mkdir()
    ...     starting_points([folder, Path(folder) / "below"]) == [Path(folder)]
    True
    """
    # `abspath`, not `resolve`: a person knows the photo by the path that was given.
    paths = sorted({Path(os.path.abspath(place)) for place in places})  # noqa: PTH100
    for path in paths:
        if not path.exists():
            raise DeixisError(f"{path}: no such file or folder")
    folders = {path for path in paths if path.is_dir()}
    return [path for path in paths if folders.isdisjoint(path.parents)]


def walk(points: Iterable[Path]) -> Iterator[FoundFile | PhotoError]:
    """Files with a photo's ending below folders, and files that were named themselves; sorted.

    Hidden files and folders, other indexes and links to folders are passed by, so no walk goes round in circles. A
    folder or file that cannot be read gives an error in its place, and so does a link that leads out of the folder
    that was named: whoever shares an index of a folder shares nothing else.
    """
    for point in points:
        if point.is_dir():
            yield from _below(point)
        elif (found := _looked_at(point)) is not None:
            yield found


def _below(folder: Path) -> Iterator[FoundFile | PhotoError]:
    """Everything in a folder, then in those below it; a stack, because folders may be deeper than recursion goes."""
    waiting, inside = [folder], folder.resolve()
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                named = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            yield PhotoError(here, f"cannot be read ({error.strerror or error})")
            continue
        if any(entry.name == MARK for entry in named):
            continue
        seen = [entry for entry in named if not entry.name.startswith(".")]
        waiting += [here / entry.name for entry in reversed(seen) if entry.is_dir(follow_symlinks=False)]
        for entry in seen:
            path = here / entry.name
            if path.suffix.lower() in SUFFIXES and (found := _looked_at(path)) is not None:
                out = entry.is_symlink() and isinstance(found, FoundFile) and not path.resolve().is_relative_to(inside)
                yield PhotoError(path, f"a link that leads out of {folder}") if out else found


def _looked_at(path: Path) -> FoundFile | PhotoError | None:
    try:
        about = path.stat()
    except OSError as error:
        return PhotoError(path, f"cannot be read ({error.strerror or error})")
    if stat.S_ISDIR(about.st_mode):
        return None
    if not stat.S_ISREG(about.st_mode):
        return PhotoError(path, "not a file")  # a pipe would wait for ever
    if about.st_size == 0:
        return PhotoError(path, "an empty file")
    return FoundFile(path, about.st_size, about.st_mtime_ns)
