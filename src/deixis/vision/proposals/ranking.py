"""What every proposer owes its callers: boxes within the photo, each once, the best first, and never none."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deixis import geometry
from deixis.vision.proposals.proposer import Proposals


def best_boxes(boxes: npt.ArrayLike, scores: npt.ArrayLike, size: tuple[int, int], top: int) -> Proposals:
    """The `top` boxes of highest score, cut at the photo's border; of equal scores the earlier row is the better one.

    Boxes without any pixel inside the photo go, and so do repetitions. Where nothing is left, the whole photo is the
    one proposal, with a score of 0: whoever looks for a phrase has at least one box to choose.

    Parameters
    ----------
    boxes : array of shape (n, 4)
        `x1, y1, x2, y2` in pixels of the photo.
    scores : array of shape (n,)
        Higher is better.
    size : (width, height)
        The photo's.
    top
        How many boxes at most.

    Examples
    --------
    >>> found = best_boxes([[0, 0, 5, 5], [-3, 0, 90, 5], [0, 0, 5, 5]], [0.1, 0.7, 0.9], size=(80, 40), top=10)
    >>> found.boxes.tolist(), found.scores.tolist()
    ([[0.0, 0.0, 5.0, 5.0], [0.0, 0.0, 80.0, 5.0]], [0.9, 0.7])
    """
    width, height = size
    cut = geometry.clip(np.asarray(boxes, dtype=np.float64).reshape(-1, 4), width, height)
    values = np.asarray(scores, dtype=np.float64)
    order = np.argsort(-values, kind="stable")
    order = order[geometry.area(cut[order]) > 0]
    _, first = np.unique(cut[order], axis=0, return_index=True)
    order = order[np.sort(first)]
    if not len(order):
        cut, values, order = np.array([[0.0, 0.0, width, height]]), np.zeros(1), np.zeros(1, dtype=np.intp)
    return Proposals(cut[order[:top]], values[order[:top]])
