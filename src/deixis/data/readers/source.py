"""What every reader gives: photos, one after another, and how many there will be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deixis.data.records import Photo


@dataclass(frozen=True)
class Source:
    """Photos read from somebody's files.

    Attributes
    ----------
    kind
        The name of the format, as the manifest and the messages show it.
    photos
        Each photo once, with its captions; boxes are in pixels of the size that the files state.
    total
        How many photos will come, for the progress bar; None where that is not known beforehand.
    """

    kind: str
    photos: Iterator[Photo]
    total: int | None = None
