"""Fixed boxes: proposals that ignore the photo, as a baseline for other methods.

Boxes are fractions of the photo; (0, 0, 1, 1) is the whole photo. They are chosen greedily: first the box that covers
the most training boxes with an IoU of at least 0.5, then the one that covers the most of the remaining ones, and so on.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from deixis import geometry
from deixis.errors import DeixisError
from deixis.storage.atomic import new_file
from deixis.vision.feature_map import FeatureMap
from deixis.vision.proposals.base import Proposals, best_boxes, compute_fingerprint

IOU = 0.5
_PARTS = 10
_GOLDS_PER_SLICE = 500


class FixedProposer:
    """Proposes the same boxes for every photo, as fractions of its width and height.

    Parameters
    ----------
    boxes : array of shape (n, 4)
        `x1, y1, x2, y2` as fractions, best first.

    Examples
    --------
    >>> proposer = FixedProposer([[0, 0, 1, 1], [0, 0, 0.5, 1]])
    >>> proposer.propose(Image.new("RGB", (80, 40)), None, top=2).boxes.tolist()
    [[0.0, 0.0, 80.0, 40.0], [0.0, 0.0, 40.0, 40.0]]
    """

    name = "fixed"

    def __init__(self, boxes: npt.ArrayLike) -> None:
        self.boxes = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)

    @property
    def fingerprint(self) -> str:
        """Hash of the boxes."""
        return compute_fingerprint(self.name, {"boxes": self.boxes.tolist()})

    def propose(self, photo: Image.Image, features: FeatureMap | None, top: int) -> Proposals:
        boxes = geometry.rescale(self.boxes, size=(1, 1), to=photo.size)
        return best_boxes(boxes, -np.arange(len(boxes), dtype=np.float64), photo.size, top)

    def save(self, path: Path) -> None:
        """Write the boxes as JSON."""
        lines = ",\n".join(json.dumps(box) for box in self.boxes.tolist())
        with new_file(path) as partial:
            partial.write_text(f'{{"boxes": [\n{lines}\n]}}\n', encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> FixedProposer:
        """Read boxes written by `save`."""
        try:
            return cls(_parse(json.loads(path.read_text(encoding="utf-8"))))
        except FileNotFoundError:
            raise DeixisError(f"{path}: no such file") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DeixisError(f"{path}: not a file of fixed boxes (four fractions from 0 to 1 each)") from None


@cache
def shipped_boxes() -> FixedProposer:
    """Return the 200 boxes of the package, chosen on the training photos of Flickr8k."""
    with resources.as_file(resources.files("deixis.vision.proposals") / "fixed_boxes.json") as path:
        return FixedProposer.load(path)


def _parse(saved: Any) -> geometry.Boxes:
    boxes = np.array(saved["boxes"], dtype=np.float64)
    inside = boxes.ndim == 2 and boxes.shape[1] == 4 and ((boxes >= 0) & (boxes <= 1)).all()
    if not inside or (geometry.area(boxes) <= 0).any():
        raise ValueError
    return boxes


def fit(boxes: npt.ArrayLike, count: int) -> FixedProposer:
    """Choose fixed boxes greedily to cover as many training boxes as possible.

    Candidates are all boxes with corners on tenths of the photo. Duplicate training boxes count several times. When all
    are covered, the first remaining candidates follow.

    Parameters
    ----------
    boxes : array of shape (n, 4)
        Training boxes, as fractions of the width and height of their photos.
    count
        Number of fixed boxes.

    Examples
    --------
    >>> fit([[0, 0, 0.5, 1], [0, 0, 0.5, 1], [0.5, 0, 1, 1]], count=2).boxes.shape
    (2, 4)
    """
    fractions = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    if not len(fractions):
        raise DeixisError("fixed boxes require at least one training box")
    golds, weights = np.unique(fractions, axis=0, return_counts=True)
    candidates = _grid()
    if not 0 < count <= len(candidates):
        raise DeixisError(f"the number of fixed boxes must be from 1 to {len(candidates)}, not {count}")
    covers = _covers(candidates, golds)
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


def _grid() -> geometry.Boxes:
    sides = list(combinations(np.arange(_PARTS + 1) / _PARTS, 2))
    return np.array([(x1, y1, x2, y2) for (x1, x2), (y1, y2) in product(sides, sides)])


def _covers(candidates: geometry.Boxes, golds: geometry.Boxes) -> npt.NDArray[np.bool_]:
    """Return whether each candidate covers each gold box, computed in slices to save memory."""
    starts = range(_GOLDS_PER_SLICE, len(golds), _GOLDS_PER_SLICE)
    return np.concatenate([geometry.iou(candidates, part) >= IOU for part in np.split(golds, starts)], axis=1)
