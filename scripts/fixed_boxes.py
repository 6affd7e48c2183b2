"""Choose the boxes of the proposer `fixed` on training boxes; `benchmarks/proposals.py --save-blind FILE` saves them.

Boxes are chosen greedily: first the box that covers the most training boxes with an IoU of at least 0.5, then the one
that covers the most of the remaining ones, and so on.
"""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deixis import geometry
from deixis.errors import DeixisError
from deixis.storage.atomic import new_file
from deixis.storage.checksums import seal
from deixis.vision.proposals import FixedProposer

IOU = 0.5
_PARTS = 10
_GOLDS_PER_SLICE = 500


def fit(boxes: npt.ArrayLike, count: int) -> FixedProposer:
    """Choose fixed boxes greedily to cover as many training boxes, given as fractions, as possible.

    Candidates are all boxes with corners on tenths of the photo. Duplicate training boxes count several times. When all
    are covered, the first remaining candidates follow.
    """
    fractions = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    if not len(fractions):
        raise DeixisError("fixed boxes require at least one training box")
    golds, weights = np.unique(fractions, axis=0, return_counts=True)
    sides = list(combinations(np.arange(_PARTS + 1) / _PARTS, 2))
    candidates = np.array([(x1, y1, x2, y2) for (x1, x2), (y1, y2) in product(sides, sides)])
    if not 0 < count <= len(candidates):
        raise DeixisError(f"the number of fixed boxes must be from 1 to {len(candidates)}, not {count}")
    # In slices, to save memory.
    starts = range(_GOLDS_PER_SLICE, len(golds), _GOLDS_PER_SLICE)
    covers = np.concatenate([geometry.iou(candidates, part) >= IOU for part in np.split(golds, starts)], axis=1)
    gains = covers @ weights
    chosen: list[int] = []
    uncovered = np.ones(len(golds), dtype=bool)
    for _ in range(count):
        best = int(gains.argmax())
        chosen.append(best)
        newly = np.flatnonzero(covers[best] & uncovered)
        uncovered[newly] = False
        gains -= covers[:, newly] @ weights[newly]
        gains[best] = -1
    return FixedProposer(candidates[chosen])


def save(proposer: FixedProposer, path: Path) -> None:
    """Write the boxes as JSON for `FixedProposer.load`."""
    with new_file(path) as partial:
        partial.write_bytes(seal({"boxes": proposer.boxes.tolist()}))
