"""The regions of a photo as models take them: feature vectors, boxes and their location features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.vision.feature_store import FeatureStore

LOCATION_SIZE = 7
"""Left, top, right and bottom of a box, its width, height and area."""


def box_locations(boxes: npt.ArrayLike, size: tuple[int, int]) -> Floats:
    """Location features of boxes (n, 4) in pixels, divided by the width and height of the photo."""
    shares = np.asarray(boxes, dtype=np.float64).reshape(-1, 4) / np.array([*size, *size])
    sides = shares[:, 2:] - shares[:, :2]
    return np.hstack([shares, sides, sides.prod(axis=1, keepdims=True)]).astype(np.float32)


def append_locations(vectors: Floats, boxes: npt.ArrayLike, size: tuple[int, int], weight: float) -> Floats:
    """Append location features, times `weight`, to the vectors of regions; weight 0 leaves them out."""
    return np.hstack([vectors, np.float32(weight) * box_locations(boxes, size)]) if weight else vectors


def append_whole_location(vectors: Floats, weight: float) -> Floats:
    """Append the location of the whole photo to the vectors of photos."""
    if not weight:
        return vectors
    return np.hstack([vectors, np.tile(np.float32(weight) * box_locations([0, 0, 1, 1], (1, 1)), (len(vectors), 1))])


@dataclass(frozen=True)
class RegionInputs:
    """The regions of one photo; there may be none.

    Attributes
    ----------
    vectors : array, (n, channels)
        Feature vectors of the regions.
    boxes : array, (n, 4)
        `x1, y1, x2, y2` divided by the width and height of the photo.
    objectness : array, (n,)
        Scores of the region proposals, from 0 to 1.
    whole : array, (dimension,)
        Feature vector of the whole photo.
    cells : array, (channels, rows, columns), optional
        The feature map of the photo, for models that use it.

    Examples
    --------
    >>> boxes = np.array([[0, 0, 0.5, 1], [0.2, 0, 1, 1]])
    >>> len(RegionInputs(np.ones((2, 8)), boxes, np.array([0.7, 0.4]), np.ones(8)))
    2
    """

    vectors: NDArray[Any]
    boxes: NDArray[Any]
    objectness: NDArray[Any]
    whole: NDArray[Any]
    cells: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        shapes = [array.shape for array in (self.vectors, self.boxes, self.objectness)]
        count = shapes[0][:1]
        if self.vectors.ndim != 2 or shapes[1:] != [(*count, 4), count] or self.whole.ndim != 1:
            raise DeixisError(f"regions: vectors, boxes and objectness have inconsistent shapes {shapes}")

    def __len__(self) -> int:
        return len(self.vectors)


def read_regions(store: FeatureStore, photo_id: str, max_proposals: int, *, cells: bool = False) -> RegionInputs:
    """Read the best proposals of a photo from a feature store, with its feature map if `cells`."""
    proposals = store.proposals(photo_id)
    size = store.sizes([photo_id])[0]
    return RegionInputs(
        store.proposal_vectors(photo_id)[:max_proposals],
        proposals.boxes[:max_proposals] / np.tile(size, 2),
        proposals.scores[:max_proposals],
        store.whole([photo_id])[0],
        store.map(photo_id).cells if cells else None,
    )
