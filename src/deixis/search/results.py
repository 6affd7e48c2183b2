"""Search results, and writing them as a CSV table or a folder of links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

from deixis.errors import DeixisError
from deixis.search.index.photo_files import FILE
from deixis.search.index.snapshot import Box
from deixis.search.query import Reading
from deixis.storage import atomic
from deixis.storage.atomic import explain_os_errors


@dataclass(frozen=True)
class HitPhrase:
    """A phrase of a query, located in a photo.

    Attributes
    ----------
    text, span
        The phrase, and its offsets in the query in Unicode code points, end exclusive.
    box
        ``x1, y1, x2, y2`` in pixels of the photo.
    presence
        Probability that the photo shows it, at least that of the result; ``score`` in JSON. If the models have no
        calibration, it assumes that half of all photos show it. None for a guess, and if the models have no estimate.
    absent
        Whether the photo probably does not show it; the box is then only the most similar region.
    guess
        Whether the phrase has a word that the model of regions does not know; the box is then a guess, without a
        probability.
    boxes
        One box for each thing that the phrase names, most probable first.
    """

    text: str
    span: tuple[int, int]
    box: Box
    presence: float | None
    absent: bool = False
    guess: bool = False
    boxes: tuple[Box, ...] = ()

    def __post_init__(self) -> None:
        if not self.boxes:
            object.__setattr__(self, "boxes", (self.box,))

    def as_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "text": self.text,
            "span": list(self.span),
            "box": [round(side, 1) for side in self.box],
            "boxes": [[round(side, 1) for side in box] for box in self.boxes],
            "score": None if self.presence is None else round(self.presence, 4),
            "absent": self.absent,
            "guess": self.guess,
        }


@dataclass(frozen=True)
class PhotoRecord:
    """A photo of an index.

    Attributes
    ----------
    photo_id
        Opaque; identifies this content in this index until the index is rebuilt.
    path
        Its file.
    size
        Width and height in pixels, after EXIF rotation.
    taken
        Time by the camera's clock, such as ``2024-06-01T12:30:00``, or None.
    camera
        Make and model, or None.
    date_source
        Where `taken` comes from: ``exif``, ``xmp``, ``name`` (of the file) or ``file`` (its time).
    root
        The indexed folder that has the file, without links; None if the index does not know it.
    """

    photo_id: str
    path: Path
    size: tuple[int, int]
    taken: str | None = None
    camera: str | None = None
    date_source: str | None = None
    root: Path | None = None

    @property
    def month(self) -> str:
        """The month in which it was taken, such as ``2024-06``; empty if only the file has a time."""
        return "" if self.taken is None or self.date_source == FILE else self.taken[:7]


@dataclass(frozen=True)
class Overview:
    """Numbers of photos.

    Attributes
    ----------
    folders
        By folder, named from the indexed one on, such as ``Pictures/2024/Lake``. A photo counts for the folders above.
    months
        By month.
    undated
        Of the photos without a date.
    """

    folders: dict[str, int]
    months: dict[str, int]
    undated: int


@dataclass(frozen=True)
class Hit:
    """A photo found by a search.

    Attributes
    ----------
    photo
        The photo.
    score
        Orders the results; comparable within one search only.
    probability
        Probability that the photo matches the query; None if the models of the index have no calibration.
    phrases
        The phrases of the query, located in the photo, if requested.
    duplicates
        Near-duplicates and other photos of the same burst, best first.

    Examples
    --------
    >>> hit = Hit(PhotoRecord("7f", Path("dog.jpg"), (640, 480)), score=1.5, probability=0.8)
    >>> hit.path.name, hit.as_json()["probability"]
    ('dog.jpg', 0.8)
    """

    photo: PhotoRecord
    score: float
    probability: float | None = None
    phrases: tuple[HitPhrase, ...] = ()
    duplicates: tuple[Hit, ...] = ()

    @property
    def path(self) -> Path:
        """The photo's file."""
        return self.photo.path

    @property
    def photo_id(self) -> str:
        """The photo's opaque id."""
        return self.photo.photo_id

    def as_json(self) -> dict[str, Any]:
        """Return what ``deixis search --json`` prints."""
        return {
            "path": str(self.path),
            "score": round(self.score, 4),
            "probability": None if self.probability is None else round(self.probability, 4),
            "phrases": [phrase.as_json() for phrase in self.phrases],
            "duplicates": [str(other.path) for other in self.duplicates],
            "taken": self.photo.taken,
            "date_source": self.photo.date_source,
        }


class SearchResults(list[Hit]):
    """The hits of a search, best first, with facts about the search.

    Attributes
    ----------
    photos
        Number of photos in the index.
    searched
        Number of photos that passed the filters.
    unknown_words
        Words of the query that the models do not know.
    suggestions
        Known words that are near to unknown ones, and, if nothing was found, to words that the models have never seen
        with a photo.
    filter_reason
        Why no photo passed the filters; None if some did.
    is_listing
        Whether the query had only filters, so that the photos are in the order of their dates, without probabilities.
    found
        Number of photos that were found; more than there are hits if these were limited.
    readings
        What was read differently than typed: dates in words, misspelled words, a part in place of the sentence, and
        words that may be names, of which the models know nothing.

    Examples
    --------
    >>> SearchResults([], photos=20, searched=3, unknown_words=("xyzzy",)).searched
    3
    """

    def __init__(
        self,
        hits: Iterable[Hit],
        *,
        photos: int,
        searched: int,
        unknown_words: Sequence[str] = (),
        suggestions: Mapping[str, Sequence[str]] | None = None,
        filter_reason: str | None = None,
        is_listing: bool = False,
        found: int | None = None,
        readings: Sequence[Reading] = (),
    ) -> None:
        super().__init__(hits)
        self.suggestions = {word: tuple(near) for word, near in (suggestions or {}).items()}
        self.filter_reason = filter_reason
        self.is_listing = is_listing
        self.found = len(self) if found is None else found
        self.readings = tuple(readings)
        self.photos, self.searched, self.unknown_words = photos, searched, tuple(unknown_words)


def format_time(seconds: int | None) -> str | None:
    """Return the time of `ExifInfo.taken` as text that sorts: ``2024-06-01T12:30:00``."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


COLUMNS = ("rank", "path", "probability", "score", "taken", "date_source", "camera", "duplicate_of", "gone")


def write_csv(file: str | PathLike[str], hits: Sequence[Hit]) -> None:
    """Write a CSV table with one row per photo; duplicates follow their first photo and name it.

    Photos whose files are missing have rows too, marked as gone: their disk may only be unmounted.
    """
    rows: list[Sequence[object]] = [COLUMNS]
    for rank, hit in enumerate(hits, start=1):
        rows.append(_row(rank, hit, ""))
        rows += [_row(rank, other, str(hit.path)) for other in hit.duplicates]
    atomic.write_csv(file, rows)


def write_links(folder: str | PathLike[str], hits: Sequence[Hit]) -> int:
    """Create links to the photos that exist, named in the order of the results; return their number.

    The folder must be new or empty.
    """
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise DeixisError(f"{path}: is not an empty folder; use another name")
    photos = [photo for photo in all_photos(hits) if photo.path.exists()]
    digits = len(str(len(photos)))
    with explain_os_errors(path):
        path.mkdir(parents=True, exist_ok=True)
        for number, hit in enumerate(photos, start=1):
            (path / f"{number:0{digits}} {hit.path.name}").symlink_to(hit.path)
    return len(photos)


def all_photos(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits, each followed by its duplicates."""
    return [photo for hit in hits for photo in (hit, *hit.duplicates)]


def _row(rank: int, hit: Hit, duplicate_of: str) -> list[object]:
    probability = "" if hit.probability is None else f"{hit.probability:.4f}"
    photo, gone = hit.photo, "" if hit.path.exists() else "yes"
    taken, source, camera = photo.taken or "", photo.date_source or "", photo.camera or ""
    return [rank, str(photo.path), probability, f"{hit.score:.4f}", taken, source, camera, duplicate_of, gone]
