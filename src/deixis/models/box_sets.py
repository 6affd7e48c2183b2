"""Selection of one box for each thing that a phrase names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from deixis.arrays import Floats
from deixis.geometry import Boxes, area, nms, overlap_areas


@dataclass(frozen=True)
class BoxSetSettings:
    """Thresholds of the selection; the defaults were fitted to the shipped preset of the grounder.

    Attributes
    ----------
    min_probability
        A region is selected if it is one of the things of the phrase with at least this probability.
    min_counted
        Threshold for phrases that state a number, such as "two dogs"; at most that many boxes are selected.
    max_iou
        Of two selected boxes with at least this IoU, the less probable is left out.
    max_containment
        Of two selected boxes of which one contains at least this share of the other, the less probable is left out;
        above 1 for never.
    """

    min_probability: float = 0.35
    min_counted: float = 0.1
    max_iou: float = 0.3
    max_containment: float = 1.1


@dataclass(frozen=True, eq=False)
class BoxSet:
    """The boxes of the things that a phrase names, most probable first."""

    boxes: Boxes  # (n, 4), n ≥ 1
    probabilities: Floats | None = None  # (n,); None if the box is around everything that the phrase names


@dataclass(frozen=True, eq=False)
class RegionMembers:
    """For one phrase, the box and the probability of each region as one of the things that the phrase names.

    `best` is the box around everything that the phrase names, `count` how many things it says that it names, if so.
    """

    best: Boxes  # (4,)
    boxes: Boxes  # (regions, 4)
    probabilities: Floats  # (regions,)
    count: int | None = None

    def select(self, settings: BoxSetSettings) -> BoxSet:
        """Select the boxes of single things; `best` alone unless there are at least two."""
        least = settings.min_probability if self.count is None else settings.min_counted
        likely = np.flatnonzero(self.probabilities >= least)
        if len(likely) > 1 and self.count != 1:
            chosen = likely[nms(self.boxes[likely], self.probabilities[likely], settings.max_iou)]
            own = np.asarray(self.boxes[chosen], dtype=np.float64)
            sizes = area(own)
            inside = overlap_areas(own, own) >= settings.max_containment * np.minimum(sizes[:, None], sizes)
            kept: list[int] = []
            for row in range(len(own)):
                if not inside[row, kept].any():
                    kept.append(row)
            kept = kept[: self.count]
            if len(kept) > 1:
                return BoxSet(own[kept], self.probabilities[chosen[kept]])
        return BoxSet(np.asarray(self.best, dtype=np.float64)[None])


_GRID = {
    "min_probability": [*np.arange(0.1, 0.9, 0.05).round(2).tolist()],
    "min_counted": [*np.arange(0.05, 0.6, 0.05).round(2).tolist()],
    "max_iou": [0.3, 0.4, 0.5, 0.6, 0.7],
    "max_containment": [0.6, 0.7, 0.8, 0.9, 1.1],
}


def fit_box_sets(phrases: Iterable[tuple[RegionMembers, Boxes]]) -> BoxSetSettings:
    """Find the settings with the highest mean F1 over phrases with their gold boxes, one setting after the other."""
    from deixis.evaluation.box_sets import set_f1  # here, because every search imports this module

    examples = list(phrases)

    def score(settings: BoxSetSettings) -> float:
        return float(np.mean([set_f1(members.select(settings).boxes, gold) for members, gold in examples]))

    best = BoxSetSettings()
    for _ in range(2):
        for name, values in _GRID.items():
            best = max((replace(best, **{name: value}) for value in values), key=score)
    return best
