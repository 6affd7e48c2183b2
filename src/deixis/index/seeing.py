"""What the index wants to know of a photo, and of whoever looks at it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from deixis.errors import PhotoError

Floats = NDArray[np.float32]


def _no_boxes() -> Floats:
    return np.zeros((0, 4), dtype=np.float32)


def _no_vectors() -> Floats:
    return np.zeros((0, 0), dtype=np.float32)


@dataclass(frozen=True)
class Seen:
    """What was seen in a photo.

    Attributes
    ----------
    whole : array of float32, (dimension,)
        The vector of the whole photo. The dot product with the vector of a query is the score. Regions have scores of
        the same kind, but may have vectors of their own making, of another length, for queries of their own.
    width, height
        In pixels, after EXIF rotation.
    region_boxes : array of float32, (n, 4)
        ``x1, y1, x2, y2`` in pixels of the photo as opened.
    region_vectors : array of float32, (n, region_dimension)
        One a box; kept as float16.
    thumbnail
        A small JPEG, from `thumbnail_of`; made here so that a photo is decoded once. None where none is wanted.

    Examples
    --------
    >>> Seen(np.ones(4, dtype=np.float32), 640, 480).region_boxes.shape
    (0, 4)
    """

    whole: Floats
    width: int
    height: int
    region_boxes: Floats = field(default_factory=_no_boxes)
    region_vectors: Floats = field(default_factory=_no_vectors)
    thumbnail: bytes | None = None


class PhotoSeer(Protocol):
    """Whoever makes vectors of photos: an encoder, a proposer and a model, bound together elsewhere."""

    @property
    def fingerprint(self) -> str:
        """What changes whenever the vectors of the same photo would."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers in the vector of a whole photo."""
        ...

    @property
    def region_dimension(self) -> int:
        """Numbers in the vector of a region."""
        ...

    def see(self, paths: Iterable[Path]) -> Iterator[tuple[Path, Seen | PhotoError]]:
        """One answer for each path, in any order; `paths` is read only as far ahead as photos are decoded."""
        ...


def refusal(seen: Seen, dimension: int, region_dimension: int) -> str | None:
    """Why what was seen cannot be kept, or None if it can.

    Examples
    --------
    >>> refusal(Seen(np.ones(4, dtype=np.float32), 640, 480), 8, 8)
    'the model gave a vector of shape (4,), not (8,)'
    """
    count = len(seen.region_boxes)
    if seen.whole.shape != (dimension,):
        return f"the model gave a vector of shape {seen.whole.shape}, not ({dimension},)"
    if seen.region_boxes.shape != (count, 4) or (count and seen.region_vectors.shape != (count, region_dimension)):
        return f"the model gave {seen.region_boxes.shape} boxes and {seen.region_vectors.shape} vectors of regions"
    if not np.isfinite(seen.whole).all() or not np.isfinite(seen.region_boxes).all():
        return "the model gave numbers that are not finite"
    with np.errstate(over="ignore"):
        if not np.isfinite(seen.region_vectors.astype(np.float16)).all():
            return "the model gave numbers that float16 cannot hold"
    return None
