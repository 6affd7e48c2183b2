"""The photo files below some folders, met one folder after another, whatever lies between them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deixis.data.images import SUFFIXES
from deixis.errors import DeixisError, PhotoError
from deixis.files.remote import RemotePath, is_remote, photo_path

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
    paths = sorted({known_as(place) for place in places})
    for path in paths:
        if not path.exists():
            raise DeixisError(f"{path}: no such file or folder")
    folders = {path for path in paths if path.is_dir()}
    return [path for path in paths if folders.isdisjoint(path.parents)]


def known_as(place: str | os.PathLike[str]) -> Path:
    """The path by which an index knows a file or folder."""
    path = photo_path(place)
    # `abspath`, not `resolve`: a person knows the photo by the path that was given.
    return path if is_remote(path) else Path(os.path.abspath(path))  # noqa: PTH100


def walk(points: Iterable[Path]) -> Iterator[FoundFile | PhotoError]:
    """Files with a photo's ending below folders, and files that were named themselves; sorted.

    Hidden files and folders, other indexes and links to folders are passed by, so no walk goes round in circles. A
    folder or file that cannot be read gives an error in its place, and so does a link that leads out of the folder
    that was named: whoever shares an index of a folder shares nothing else.
    """
    for point in points:
        if isinstance(point, RemotePath):
            yield from _elsewhere(point)
        elif point.is_dir():
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


def _elsewhere(point: RemotePath) -> Iterator[FoundFile | PhotoError]:
    """The same where there are no links."""
    if not point.is_dir():
        if (found := _looked_at(point)) is not None:
            yield found
        return
    waiting = [point]
    while waiting:
        here = waiting.pop()
        try:
            seen = [(path, about) for path, about in here.listed() if not path.name.startswith(".")]
        except OSError as error:
            yield PhotoError(here, f"cannot be read ({error.strerror or error})")
            continue
        waiting += [path for path, about in reversed(seen) if stat.S_ISDIR(about.st_mode)]
        for path, about in seen:
            if path.suffix.lower() in SUFFIXES and (found := _judged(path, about)) is not None:
                yield found


def _looked_at(path: Path) -> FoundFile | PhotoError | None:
    try:
        return _judged(path, path.stat())
    except OSError as error:
        return PhotoError(path, f"cannot be read ({error.strerror or error})")


def _judged(path: Path, about: os.stat_result) -> FoundFile | PhotoError | None:
    if stat.S_ISDIR(about.st_mode):
        return None
    if not stat.S_ISREG(about.st_mode):
        return PhotoError(path, "not a file")  # a pipe would wait for ever
    if about.st_size == 0:
        return PhotoError(path, "an empty file")
    return FoundFile(path, about.st_size, about.st_mtime_ns)
