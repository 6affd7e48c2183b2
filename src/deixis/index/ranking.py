"""The best of many scores, exactly, with ties settled by the order of the rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from deixis.index.seeing import Floats

_SAMPLE_SHARE = 64


def best(scores: Floats, top: int) -> NDArray[np.int64]:
    """Places of the highest scores, the highest first; of equal ones the earlier place comes first.

    Examples
    --------
    >>> best(np.array([0.1, 0.9, 0.5, 0.9], dtype=np.float32), 3).tolist()
    [1, 3, 2]
    """
    if top <= 0 or not len(scores):
        return np.zeros(0, dtype=np.int64)
    places = np.arange(len(scores)) if top >= len(scores) else _not_below(scores, _floor(scores, top))
    if len(places) > top:
        places = _not_below_among(scores, places, top)
    return places[np.argsort(-scores[places], kind="stable")][:top]


def _floor(scores: Floats, top: int) -> np.float32:
    """A score that at least `top` of all reach: the `top`-th of a few, because looking for the exact one costs more."""
    few = scores[:: max(len(scores) // max(_SAMPLE_SHARE * top, 4096), 1)]
    few = few if len(few) > top else scores
    return np.float32(np.partition(few, len(few) - top)[len(few) - top])


def _not_below(scores: Floats, floor: np.float32) -> NDArray[np.int64]:
    return np.flatnonzero(scores >= floor)


def _not_below_among(scores: Floats, places: NDArray[np.int64], top: int) -> NDArray[np.int64]:
    among = scores[places]
    floor = np.partition(among, len(among) - top)[len(among) - top]
    return np.compress(among >= floor, places)
