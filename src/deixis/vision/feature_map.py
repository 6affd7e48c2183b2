"""Feature maps of photos, and pooling of region vectors from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

# Sampling points along each side of a box; our encoder was trained with 8. With 64, the vectors of gold boxes on a map
# of 18 × 18 cells would differ by 1.6 % on average.
POINTS = 8
OFFSETS = tuple((point + 0.5) / POINTS for point in range(POINTS))

PhotoVector = Literal["photo", "region", "both"]
"""The vector of a photo: the global one, that of a region as large as the photo, or the first and then the second.

A model that compares photos with what it learned of regions takes the second, if the two have different sizes.
"""


def pool_regions(cells: NDArray[np.float32], boxes: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.float32]:
    """Return the mean of bilinear samples of the map (channels, rows, columns) inside each box: (n, channels).

    Boxes are in pixels of the photo; `size` is its width and height.
    """
    channels, rows, columns = cells.shape
    width, height = size
    along_x = _weights(boxes[:, 0] / width, boxes[:, 2] / width, columns)
    along_y = _weights(boxes[:, 1] / height, boxes[:, 3] / height, rows)
    by_row = cells.reshape(-1, columns) @ along_x.T
    pooled = np.einsum("crn,nr->nc", by_row.reshape(channels, rows, -1), along_y, optimize=True)
    return np.asarray(pooled, dtype=np.float32)


def resample_cells(cells: NDArray[np.float32], rows: int, columns: int) -> NDArray[np.float32]:
    """Resample a map to another grid. Each new cell is pooled from the area that it covers."""
    if cells.shape[1:] == (rows, columns):
        return cells
    along_y, along_x = (
        _weights(np.arange(new) / new, (np.arange(new) + 1) / new, old)
        for new, old in zip((rows, columns), cells.shape[1:], strict=True)
    )
    return np.asarray(along_y @ cells @ along_x.T, dtype=np.float32)


def _weights(start: NDArray[np.float64], end: NDArray[np.float64], cells: int) -> NDArray[np.float32]:
    """Return the weight of each cell along one axis for each box: (n, cells). Start and end are fractions."""
    points = start[:, None] + (end - start)[:, None] * np.asarray(OFFSETS)
    centres = np.clip(points * cells - 0.5, 0, cells - 1)
    hats = np.maximum(0, 1 - np.abs(centres[:, :, None] - np.arange(cells)))
    return np.asarray(hats.mean(axis=1), dtype=np.float32)


@dataclass(frozen=True)
class FeatureMap:
    """The features of a photo.

    `cells` is the map (channels, rows, columns), `whole` the global vector (dimension,): the mean of the map, or the
    output of the network. `size` is the width and height of the photo in pixels.
    """

    cells: NDArray[np.float32]
    whole: NDArray[np.float32]
    size: tuple[int, int]

    def regions(self, boxes: npt.ArrayLike) -> NDArray[np.float32]:
        """Pool one vector for each box, given in pixels of the photo: (n, channels)."""
        return pool_regions(self.cells, np.asarray(boxes, dtype=np.float64).reshape(-1, 4), self.size)

    def photo_vector(
        self, kind: PhotoVector = "photo", crops: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return the vector of the photo as a model takes it; `crops` replaces the global vector."""
        own = self.whole if crops is None else crops
        if kind == "photo":
            return own
        as_region = self.regions([0, 0, *self.size])[0]
        return as_region if kind == "region" else np.concatenate([own, as_region])
