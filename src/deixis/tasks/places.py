"""Where a region is in its photo, as numbers that a model can learn from beside what the region looks like."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deixis.language.features.base import Floats

PLACE_SIZE = 7
"""Where a box begins and ends, across and down; its width, height and area."""


def places(boxes: npt.ArrayLike, size: tuple[int, int]) -> Floats:
    """Seven numbers for each box, all as shares of the photo.

    Parameters
    ----------
    boxes
        (n, 4), in pixels of the photo.
    size
        Width and height of the photo.

    Examples
    --------
    >>> places([[0, 20, 50, 40]], size=(100, 80)).tolist()
    [[0.0, 0.25, 0.5, 0.5, 0.5, 0.25, 0.125]]
    """
    shares = np.asarray(boxes, dtype=np.float64).reshape(-1, 4) / np.array([*size, *size])
    sides = shares[:, 2:] - shares[:, :2]
    return np.hstack([shares, sides, sides.prod(axis=1, keepdims=True)]).astype(np.float32)


def with_places(vectors: Floats, boxes: npt.ArrayLike, size: tuple[int, int], weight: float) -> Floats:
    """Vectors of regions with their places after them, times `weight`; as they are where that is 0.

    Examples
    --------
    >>> with_places(np.ones((1, 2), np.float32), [[0, 0, 9, 9]], (9, 9), weight=2.0).tolist()
    [[1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0, 2.0]]
    """
    return np.hstack([vectors, np.float32(weight) * places(boxes, size)]) if weight else vectors


def with_whole_place(vectors: Floats, weight: float) -> Floats:
    """The same for whole photos: each is where the whole photo is."""
    if not weight:
        return vectors
    return np.hstack([vectors, np.tile(np.float32(weight) * places([0, 0, 1, 1], (1, 1)), (len(vectors), 1))])
