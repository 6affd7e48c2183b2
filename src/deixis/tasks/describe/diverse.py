"""A few of many, each good and none like another: maximal marginal relevance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis.language.features.base import Floats


def diverse(
    relevance: ArrayLike,
    similarity: Callable[[int], Floats],
    most: int,
    *,
    weight: float = 0.5,
    too_similar: float = np.inf,
) -> NDArray[np.intp]:
    """Choose one after another, each by its relevance less its likeness to what was chosen before.

    After Carbonell and Goldstein, *The use of MMR* (SIGIR 1998): the next is the one with the highest
    ``(1 − weight) · relevance − weight · the greatest similarity to one chosen``. Of equals the first is taken.

    Parameters
    ----------
    relevance
        (n,) of each.
    similarity
        Given a place, its similarity to all: (n,), on the scale of the relevance.
    most
        At most so many are chosen.
    weight
        Of likeness, between 0 (the most relevant) and 1 (the least alike).
    too_similar
        What is as similar as this to one chosen is never chosen.

    Returns
    -------
    array of int
        Places, as they were chosen.

    Examples
    --------
    >>> alike = np.array([[1, 0.9, 0.1], [0.9, 1, 0.1], [0.1, 0.1, 1]])
    >>> diverse([0.9, 0.8, 0.5], lambda place: alike[place], 2).tolist()
    [0, 2]
    """
    worth = np.asarray(relevance, dtype=np.float64)
    nearest = np.zeros(len(worth))
    left = np.ones(len(worth), dtype=bool)
    chosen: list[int] = []
    while len(chosen) < most and left.any():
        value = np.where(left, (1 - weight) * worth - weight * nearest, -np.inf)
        best = int(value.argmax())
        chosen.append(best)
        left[best] = False
        alike = np.asarray(similarity(best), dtype=np.float64)
        left &= alike < too_similar
        nearest = np.maximum(nearest, alike) if len(chosen) > 1 else alike
    return np.array(chosen, dtype=np.intp)
