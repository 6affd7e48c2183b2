"""Fixed boxes: proposals that do not look at the photo, for a method that does look to be measured against.

A fixed box is a share of the photo, (0, 0, 1, 1) being all of it. They are chosen greedily: first the box that covers
the most training boxes at an IoU of 0.5, then the one that covers the most of those still left, and so on.
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
from deixis.files.atomic import new_file
from deixis.vision.features import FeatureMap
from deixis.vision.proposals.proposer import Proposals, fingerprint_of
from deixis.vision.proposals.ranking import best_boxes

IOU = 0.5
_PARTS = 10
_GOLDS_AT_ONCE = 500


class FixedProposer:
    """The same boxes for every photo, as shares of its width and height.

    Parameters
    ----------
    boxes : array of shape (n, 4)
        `x1, y1, x2, y2` as shares, the best first.

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
        """Of the boxes."""
        return fingerprint_of(self.name, {"boxes": self.boxes.tolist()})

    def propose(self, photo: Image.Image, features: FeatureMap | None, top: int) -> Proposals:
        """The first `top` boxes, stretched to the photo's size."""
        boxes = geometry.rescale(self.boxes, size=(1, 1), to=photo.size)
        return best_boxes(boxes, -np.arange(len(boxes), dtype=np.float64), photo.size, top)

    def save(self, path: Path) -> None:
        """Write the boxes as JSON."""
        lines = ",\n".join(json.dumps(box) for box in self.boxes.tolist())
        with new_file(path) as partial:
            partial.write_text(f'{{"boxes": [\n{lines}\n]}}\n', encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> FixedProposer:
        """Read boxes that were saved."""
        try:
            return cls(_checked(json.loads(path.read_text(encoding="utf-8"))))
        except FileNotFoundError:
            raise DeixisError(f"{path}: no such file") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DeixisError(f"{path}: not a file of fixed boxes, four shares from 0 to 1 each") from None


@cache
def shipped_boxes() -> FixedProposer:
    """The 200 boxes that come with the package, chosen on the training photos of Flickr8k."""
    with resources.as_file(resources.files("deixis.vision.proposals") / "fixed_boxes.json") as path:
        return FixedProposer.load(path)


def _checked(saved: Any) -> geometry.Boxes:
    boxes = np.array(saved["boxes"], dtype=np.float64)
    inside = boxes.ndim == 2 and boxes.shape[1] == 4 and ((boxes >= 0) & (boxes <= 1)).all()
    if not inside or (geometry.area(boxes) <= 0).any():
        raise ValueError
    return boxes


def fit(boxes: npt.ArrayLike, count: int) -> FixedProposer:
    """Choose fixed boxes that cover as many training boxes as the greedy order can.

    Candidates are all boxes with corners on tenths of the photo. A box that occurs twice counts twice. Once nothing is
    left to cover, the rest of the boxes are the first candidates not yet taken.

    Parameters
    ----------
    boxes : array of shape (n, 4)
        Training boxes, as shares of their photos' width and height.
    count
        How many fixed boxes to choose.

    Examples
    --------
    >>> fit([[0, 0, 0.5, 1], [0, 0, 0.5, 1], [0.5, 0, 1, 1]], count=2).boxes.shape
    (2, 4)
    """
    shares = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    if not len(shares):
        raise DeixisError("fixed boxes need at least one training box to be chosen on")
    golds, weights = np.unique(shares, axis=0, return_counts=True)
    candidates = _grid()
    if not 0 < count <= len(candidates):
        raise DeixisError(f"between 1 and {len(candidates)} fixed boxes can be chosen, not {count}")
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
    """(candidates, golds) whether the one covers the other, a slice of golds at a time to spare memory."""
    starts = range(_GOLDS_AT_ONCE, len(golds), _GOLDS_AT_ONCE)
    return np.concatenate([geometry.iou(candidates, part) >= IOU for part in np.split(golds, starts)], axis=1)
