"""What a search in a person's photos gives: hits, the photos themselves, and where in them the words are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deixis.tasks.grounding import ABSENT

BoxXyxy = tuple[float, float, float, float]


@dataclass(frozen=True)
class HitPhrase:
    """A phrase of what was asked for, and where a photo shows it.

    Attributes
    ----------
    text, span
        As written, and its offsets in Unicode code points in the sentence, end exclusive.
    box
        ``x1, y1, x2, y2`` in pixels of the photo.
    score
        How likely the photo shows it at all, if half of all photos did.
    """

    text: str
    span: tuple[int, int]
    box: BoxXyxy
    score: float

    @property
    def absent(self) -> bool:
        """Whether the photo seems not to show it; the box is then where it would be."""
        return self.score < ABSENT

    def as_json(self) -> dict[str, Any]:
        """As every JSON of deixis has it."""
        return {
            "text": self.text,
            "span": list(self.span),
            "box": [round(side, 1) for side in self.box],
            "score": round(self.score, 4),
            "absent": self.absent,
        }


@dataclass(frozen=True)
class KnownPhoto:
    """A photo of an index.

    Attributes
    ----------
    photo_id
        Opaque; names this content in this index and nothing else, until the index is rebuilt.
    path
        Where its file is.
    size
        Width and height in pixels, upright.
    taken
        When, by the camera's clock, as ``2024-06-01T12:30:00``; None where the file does not say.
    camera
        Make and model; None where the file does not say.
    """

    photo_id: str
    path: Path
    size: tuple[int, int]
    taken: str | None = None
    camera: str | None = None


@dataclass(frozen=True)
class Hit:
    """A photo that answers.

    Attributes
    ----------
    photo
        Which one.
    score
        What puts hits in order, higher first; only comparable within one search.
    probability
        How likely the photo shows what was asked for; None where the models of the index came without what tells it.
    phrases
        Where its phrases are, if that was asked for.
    duplicates
        Photos that are one with this to whoever searches: near-duplicates and the rest of a burst, best first.

    Examples
    --------
    >>> hit = Hit(KnownPhoto("7f", Path("dog.jpg"), (640, 480)), score=1.5, probability=0.8)
    >>> hit.path.name, hit.as_json()["probability"]
    ('dog.jpg', 0.8)
    """

    photo: KnownPhoto
    score: float
    probability: float | None = None
    phrases: tuple[HitPhrase, ...] = ()
    duplicates: tuple[Hit, ...] = ()

    @property
    def path(self) -> Path:
        """Where the photo's file is."""
        return self.photo.path

    @property
    def photo_id(self) -> str:
        """The photo's opaque name."""
        return self.photo.photo_id

    def as_json(self) -> dict[str, Any]:
        """What ``deixis search --json`` prints of it."""
        return {
            "path": str(self.path),
            "score": round(self.score, 4),
            "probability": None if self.probability is None else round(self.probability, 4),
            "phrases": [phrase.as_json() for phrase in self.phrases],
            "duplicates": [str(other.path) for other in self.duplicates],
        }


def date_of(seconds: int | None) -> str | None:
    """When a photo was taken, as text that sorts.

    Examples
    --------
    >>> date_of(1717245000)
    '2024-06-01T12:30:00'
    """
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
