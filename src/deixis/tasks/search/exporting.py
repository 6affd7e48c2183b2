"""Hits for other programs: a table, or a folder of links."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from deixis.errors import DeixisError
from deixis.files.atomic import explained, new_file
from deixis.tasks.search.hits import Hit

COLUMNS = ("rank", "path", "probability", "score", "taken", "camera", "duplicate_of", "gone")


def write_csv(file: str | PathLike[str], hits: Sequence[Hit]) -> None:
    """Write a table with a row for each photo; those of a group follow their first one, and name it.

    Photos whose files are gone keep their rows, which say so: their disk may only be away.

    Examples
    --------
    >>> import tempfile
    >>> from deixis.tasks.search.hits import KnownPhoto
    >>> hit = Hit(KnownPhoto("7f", Path("dog.jpg"), (640, 480)), score=1.5, probability=0.8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_csv(Path(folder) / "hits.csv", [hit])
    ...     (Path(folder) / "hits.csv").read_text().splitlines()[1]
    '1,dog.jpg,0.8000,1.5000,,,,yes'
    """
    path = Path(file)
    with (
        explained(path),
        new_file(path) as unfinished,
        unfinished.open("w", newline="", encoding="utf-8", errors="surrogateescape") as table,
    ):
        writer = csv.writer(table)
        writer.writerow(COLUMNS)
        for rank, hit in enumerate(hits, start=1):
            writer.writerow(_row(rank, hit, ""))
            writer.writerows(_row(rank, other, str(hit.path)) for other in hit.duplicates)


def write_links(folder: str | PathLike[str], hits: Sequence[Hit]) -> int:
    """Fill a folder with links to the photos that are still there, the best first by name; give how many there are.

    The folder must not exist, or be empty.
    """
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise DeixisError(f"{path}: not an empty folder; give another name")
    photos = [photo for photo in all_photos(hits) if photo.path.exists()]
    digits = len(str(len(photos)))
    with explained(path):
        path.mkdir(parents=True, exist_ok=True)
        for number, hit in enumerate(photos, start=1):
            (path / f"{number:0{digits}} {hit.path.name}").symlink_to(hit.path)
    return len(photos)


def all_photos(hits: Sequence[Hit]) -> list[Hit]:
    """The hits, each followed by those that are one with it."""
    return [photo for hit in hits for photo in (hit, *hit.duplicates)]


def _row(rank: int, hit: Hit, duplicate_of: str) -> list[object]:
    probability = "" if hit.probability is None else f"{hit.probability:.4f}"
    photo, gone = hit.photo, "" if hit.path.exists() else "yes"
    taken, camera = photo.taken or "", photo.camera or ""
    return [rank, photo.path, probability, f"{hit.score:.4f}", taken, camera, duplicate_of, gone]
