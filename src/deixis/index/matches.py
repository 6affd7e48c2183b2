"""What a search finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from deixis.index.exif import Taken

BoxOfRegion = tuple[float, float, float, float]


@dataclass(frozen=True)
class Answer:
    """A photo's number and its score, before anybody has asked what is known of it."""

    number: int
    score: float
    box: BoxOfRegion | None = None


@dataclass(frozen=True)
class Match:
    """A photo that was found.

    Attributes
    ----------
    id
        The photo's number in the index.
    path
        Where it is. A name that is not text has its bytes as `os.fsdecode` gives them.
    score
        The dot product of its vector, or that of its best region, with the query's.
    rank
        1 for the best; the photos of a group share that of their first one.
    width, height, taken
        Its size in pixels, and what EXIF says.
    box
        The best region, ``x1, y1, x2, y2`` in pixels; None where whole photos were searched.
    others
        The rest of its group, best first: near-duplicates and the same burst.

    Examples
    --------
    >>> Match(7, Path("dog.jpg"), 0.4, 1, 640, 480).path.name
    'dog.jpg'
    """

    id: int
    path: Path
    score: float
    rank: int
    width: int
    height: int
    taken: Taken = field(default_factory=Taken)
    box: BoxOfRegion | None = None
    others: tuple[Match, ...] = ()
