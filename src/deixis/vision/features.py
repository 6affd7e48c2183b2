"""What an encoder makes of a photo: one map, from which the vector of any region is pooled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from deixis.vision.pooling import pool_regions


@dataclass(frozen=True)
class FeatureMap:
    """A photo as an encoder sees it.

    Attributes
    ----------
    cells : array of float32, (channels, rows, columns)
        Covers the whole photo.
    whole : array of float32, (dimension,)
        The vector of the whole photo: the mean of the map, or what the network itself makes of a photo.
    size : (width, height)
        Of the photo, in pixels.
    """

    cells: NDArray[np.float32]
    whole: NDArray[np.float32]
    size: tuple[int, int]

    def regions(self, boxes: npt.ArrayLike) -> NDArray[np.float32]:
        """One vector for each box in pixels of the photo, shape (n, channels).

        Examples
        --------
        >>> photo = FeatureMap(np.ones((3, 4, 4), np.float32), np.ones(3, np.float32), size=(80, 40))
        >>> photo.regions([[0, 0, 40, 40]])
        array([[1., 1., 1.]], dtype=float32)
        """
        return pool_regions(self.cells, np.asarray(boxes, dtype=np.float64).reshape(-1, 4), self.size)
