"""Agreement on boxes: are the distances between the boxes of two annotators smaller than by chance?

A mean IoU says little: in photos of one large object all boxes overlap. The measures σ and KS of Braylan, Alonso and
Lease (Measuring Annotator Agreement Generally across Complex Structured, Multi-object, and
Free-text Annotation Tasks, WWW 2022) compare two sets of distances:

- *observed*: between the annotations of the same item by different annotators, all pairs;
- *expected*: between annotations of different items by any annotators, as the baseline of chance.

The distance of two boxes is (1 − GIoU) / 2, from 0 for equal boxes towards 1. The distance of two sets of boxes
is the smallest total distance of a one-to-one matching, with 1 for each unmatched box, divided by the size of
the larger set; two empty sets have distance 0, an empty and a non-empty set 1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from deixis import geometry
from deixis.arrays import FloatArray, IntArray, best_matching
from deixis.errors import DeixisError
from deixis.evaluation.intervals import Counts, Result, Statistic, mean_over, number_units
from deixis.geometry import Boxes

SIGNIFICANT = 0.05
"""An observed distance shows agreement if fewer than this fraction of expected distances are as small."""


PROTOCOL = "GIoU distance, best matching of sets, chance from pairs of different items"


@dataclass(frozen=True, eq=False)
class DrawnBoxes:
    """The boxes that one annotator drew for one item."""

    # An item is what several annotators drew boxes for, such as one chain of one photo
    photo: str
    item: str
    annotator: str
    # (n, 4); an empty array means that the annotator found nothing to draw. An item that an annotator skipped or never
    # saw has no record.
    boxes: Boxes
    # Width and height of the photo. With it, boxes of different photos are compared relative to their photos, otherwise
    # in pixels.
    size: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        boxes = np.asarray(self.boxes, dtype=np.float64).reshape(-1, 4)
        who = f"photo {self.photo}, item {self.item}, annotator {self.annotator}"
        if not np.isfinite(boxes).all():
            raise DeixisError(f"{who}: a box is not finite")
        if (boxes[:, 2:] < boxes[:, :2]).any():
            raise DeixisError(f"{who}: a box ends before it begins")
        object.__setattr__(self, "boxes", boxes)

    def relative_boxes(self) -> Boxes:
        """The boxes on the unit square if the size of the photo is known, otherwise in pixels."""
        return self.boxes if self.size is None else self.boxes / np.tile(self.size, 2)


def giou(a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray:
    """Compute the generalized IoU of every box of `a` (n, 4) with every box of `b` (m, 4), as (n, m) in (−1, 1].

    GIoU is IoU minus the fraction of the enclosing box that neither box covers (Rezatofighi et al., CVPR 2019). Two
    empty boxes give 1 if they are equal, otherwise −1.
    """
    one, other = (np.asarray(boxes, dtype=np.float64).reshape(-1, 4) for boxes in (a, b))
    overlap = geometry.iou(one, other)
    low = np.minimum(one[:, None, :2], other[None, :, :2])
    high = np.maximum(one[:, None, 2:], other[None, :, 2:])
    enclosing = (high - low).prod(axis=2)
    total = geometry.area(one)[:, None] + geometry.area(other)[None, :]
    covered = total / (1 + overlap)  # the union: total − shared, and shared = overlap · union
    equal = (one[:, None] == other[None]).all(axis=2)
    uncovered = np.divide(enclosing - covered, enclosing, out=1.0 - equal, where=enclosing > 0)
    return np.asarray(np.where(equal, 1.0, overlap - uncovered))


def set_distance(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Compute the distance of two sets of boxes, from 0 (equal) to 1 (nothing in common)."""
    return _compare(*(np.asarray(boxes, dtype=np.float64).reshape(-1, 4) for boxes in (a, b)))[0]


def box_agreement(
    drawn: Sequence[DrawnBoxes], *, expected_pairs: int = 10_000, rounds: int = 1000, seed: int = 0
) -> Result:
    """Measure the agreement of annotators on boxes.

    Parameters
    ----------
    drawn
        One record per item and annotator.
    expected_pairs
        Maximum number of pairs of annotations of different items, drawn at random with `seed`, that estimate chance.
    rounds
        Number of samples of the bootstrap over photos, for which the expected distances are held fixed.

    Returns
    -------
    Result
        `sigma`, the fraction of observed distances that are significantly small: fewer than 5 % of the expected
        distances are at most as large (0.05 or less is chance, 1 is perfect); `ks`, the one-sided Kolmogorov–Smirnov
        statistic: the largest amount by which the distribution of observed distances lies above that of expected ones
        (0 is chance, 1 is perfect); `alpha`, Krippendorff's α over distances: 1 − mean observed / mean expected; and
        `mean_iou`, the mean over pairs of annotations of the IoU of matched boxes, divided by the size of the larger
        set (1 if both are empty), not corrected for chance. They are of so many `pairs` of `items` in `photos`; `alone`
        is the number of items with one annotator, which count only in the `expected_pairs`.

    Examples
    --------
    >>> drawn = [
    ...     DrawnBoxes(photo=f"p{n}", item="1", annotator=who, boxes=[[20 * n, 0, 20 * n + 10, 10]])
    ...     for n in range(30) for who in ("ann", "bob")
    ... ]
    >>> found = box_agreement(drawn)
    >>> found.sigma, found.mean_iou
    (1.0, 1.0)
    """
    items = _by_item(drawn)
    pairs = [(a, b) for annotations in items.values() for a, b in combinations(annotations, 2)]
    if not pairs:
        raise DeixisError("agreement needs an item with boxes by two annotators")
    if len(items) < 2:
        raise DeixisError("agreement needs two items, because different items define chance")
    observed = np.array([_compare(a.relative_boxes(), b.relative_boxes()) for a, b in pairs])
    chance = _different_items(drawn, expected_pairs, np.random.default_rng(seed))
    expected = np.sort([_compare(a.relative_boxes(), b.relative_boxes())[0] for a, b in chance])
    if expected[-1] == 0:
        raise DeixisError("all items have the same boxes, so that agreement equals chance")
    photo, photos = number_units(a.photo for a, _ in pairs)
    statistics = _statistics(observed[:, 0], observed[:, 1], expected, photo)
    about = {
        "protocol": PROTOCOL,
        "n": len(pairs),
        "pairs": len(pairs),
        "items": sum(len(annotations) > 1 for annotations in items.values()),
        "photos": photos,
        "alone": sum(len(annotations) == 1 for annotations in items.values()),
        "expected_pairs": len(expected),
    }
    return Result.of(about, statistics, photos, rounds=rounds)


def _by_item(drawn: Sequence[DrawnBoxes]) -> dict[tuple[str, str], list[DrawnBoxes]]:
    items: dict[tuple[str, str], list[DrawnBoxes]] = defaultdict(list)
    seen = set()
    for each in drawn:
        key = (each.photo, each.item, each.annotator)
        if key in seen:
            raise DeixisError(f"photo {key[0]}, item {key[1]}: annotator {key[2]} has two records")
        seen.add(key)
        items[each.photo, each.item].append(each)
    if len({each.size is None for each in drawn}) > 1:
        raise DeixisError("some photos have a size and others do not; pass the size of all or of none")
    return items


def _different_items(
    drawn: Sequence[DrawnBoxes], limit: int, rng: np.random.Generator
) -> list[tuple[DrawnBoxes, DrawnBoxes]]:
    """All pairs of annotations of different items, or `limit` random ones."""

    def differ(a: DrawnBoxes, b: DrawnBoxes) -> bool:
        return (a.photo, a.item) != (b.photo, b.item)

    if len(drawn) * (len(drawn) - 1) // 2 <= limit:
        return [(a, b) for a, b in combinations(drawn, 2) if differ(a, b)]
    found: list[tuple[DrawnBoxes, DrawnBoxes]] = []
    while len(found) < limit:
        tried = rng.integers(0, len(drawn), size=(limit, 2)).tolist()
        found += [(drawn[i], drawn[j]) for i, j in tried if differ(drawn[i], drawn[j])]
    return found[:limit]


def _compare(a: Boxes, b: Boxes) -> tuple[float, float]:
    """The distance of two sets of boxes, and the mean IoU of matched boxes."""
    larger = max(len(a), len(b))
    if larger == 0:
        return 0.0, 1.0
    distance = (1 - giou(a, b)) / 2
    rows, columns = best_matching(-distance)
    unmatched = larger - len(rows)
    overlap = geometry.iou(a, b)[rows, columns].sum()
    total = distance[rows, columns].sum() + unmatched
    # rounded, so that equal distances stay equal when their parts are added in another order
    return round(float(total / larger), 12), float(overlap / larger)


def _statistics(
    distances: FloatArray, overlaps: FloatArray, expected: FloatArray, photo: IntArray
) -> dict[str, Statistic]:
    """The four scores as statistics over photos; `expected` is sorted."""
    as_small_by_chance = np.searchsorted(expected, distances, side="right") / len(expected)
    n = int(photo.max()) + 1
    distance = mean_over(distances, photo, n)
    return {
        "sigma": mean_over(as_small_by_chance < SIGNIFICANT, photo, n),
        "ks": _ks(distances, as_small_by_chance, photo),
        "alpha": lambda counts: 1 - distance(counts) / expected.mean(),
        "mean_iou": mean_over(overlaps, photo, n),
    }


def _ks(distances: FloatArray, as_small_by_chance: FloatArray, photo: IntArray) -> Statistic:
    """The largest lead of the observed distribution, which is reached at an observed distance."""
    order = np.argsort(distances, kind="stable")
    chance, photo = as_small_by_chance[order], photo[order]

    def largest_lead(drawn: FloatArray) -> float:
        observed = np.cumsum(drawn[photo])
        return max(0.0, float((observed / observed[-1] - chance).max()))

    def statistic(counts: Counts) -> FloatArray:
        return np.array([largest_lead(drawn) for drawn in counts])

    return statistic
