"""The photos whose regions answer best: chosen by short codes, decided by exact scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deixis.index.matches import Answer
from deixis.index.ranking import best
from deixis.index.seeing import Floats
from deixis.index.snapshot import Snapshot

ReadRegions = Callable[[list[int]], dict[int, tuple[Floats, NDArray[np.float16]]]]
"""Boxes and vectors of the regions of photos, by the numbers of the photos."""


@dataclass(frozen=True)
class RankedRegions:
    """Photos by the exact scores of their best regions, best first.

    Attributes
    ----------
    rows : array of int64, (n,)
        Of the photos.
    scores : array of float32, (n,)
    boxes
        One a photo.
    """

    rows: NDArray[np.int64]
    scores: Floats
    boxes: list[Floats]

    def first(self, count: int) -> list[Answer]:
        """The best of them."""
        return [
            Answer(int(row), float(score), (float(box[0]), float(box[1]), float(box[2]), float(box[3])))
            for row, score, box in zip(self.rows[:count], self.scores[:count], self.boxes[:count], strict=True)
        ]


def best_regions(
    snapshot: Snapshot, read_regions: ReadRegions, asked: Floats, allowed: NDArray[np.bool_], shortlist: int
) -> RankedRegions:
    """The photos of the most promising regions.

    Parameters
    ----------
    snapshot
        The index.
    read_regions
        Gives the stored regions of photos by number.
    asked : array, (dimension,)
    allowed : array of bool
        Which rows are looked at.
    shortlist
        Regions whose exact scores are computed.
    """
    scores = snapshot.region_scores(asked)
    if not allowed.all():
        scores[~allowed[snapshot.region_rows]] = -np.inf
    places = best(scores, shortlist)
    places = np.sort(places[scores[places] > -np.inf])
    rows = snapshot.region_rows[places]
    numbers, inside = snapshot.ids[rows].tolist(), places - snapshot.region_starts[rows]
    stored = read_regions(sorted(set(numbers)))
    found = [
        (row, *stored[number], region)
        for row, number, region in zip(rows, numbers, inside, strict=True)
        if number in stored  # else removed a moment ago
    ]
    return _ranked(found, asked)


def _ranked(found: list[tuple[np.int64, Floats, NDArray[np.float16], np.int64]], asked: Floats) -> RankedRegions:
    """Regions, each with its row and its photo's boxes and vectors, by exact scores; the best of each row stays."""
    if not found:
        return RankedRegions(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32), [])
    rows = np.array([row for row, _, _, _ in found])
    scores = np.stack([vectors[region] for _, _, vectors, region in found]).astype(np.float32) @ asked
    order = np.lexsort((rows, -scores))
    order = order[np.sort(np.unique(rows[order], return_index=True)[1])]
    return RankedRegions(rows[order], scores[order], [found[place][1][found[place][3]] for place in order])
