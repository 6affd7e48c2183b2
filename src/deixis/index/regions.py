"""The photos whose regions answer best: chosen by short codes, decided by exact scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deixis.index.connection import StoredRegions
from deixis.index.matches import Answer
from deixis.index.ranking import best
from deixis.index.seeing import Floats
from deixis.index.snapshot import Snapshot

ReadRegions = Callable[[list[int]], StoredRegions]
"""Boxes and vectors of the regions of photos, by the numbers of the photos."""


@dataclass(frozen=True)
class RankedRegions:
    """Photos by the exact scores of their best regions, best first.

    Attributes
    ----------
    numbers : array of int64, (n,)
        Of the photos.
    scores : array of float32, (n,)
    boxes : array of float32, (n, 4)
        Of their best regions.
    """

    numbers: NDArray[np.int64]
    scores: Floats
    boxes: Floats

    def first(self, count: int) -> list[Answer]:
        """The best of them."""
        return [
            Answer(int(number), float(score), (float(box[0]), float(box[1]), float(box[2]), float(box[3])))
            for number, score, box in zip(self.numbers[:count], self.scores[:count], self.boxes[:count], strict=True)
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
        (number, stored[number][0][region], stored[number][1][region])
        for number, region in zip(numbers, inside, strict=True)
        if number in stored  # else removed a moment ago
    ]
    return rescored(found, asked)


def rescored(found: list[tuple[int, Floats, NDArray[np.float16]]], asked: Floats) -> RankedRegions:
    """Regions, each with its photo's number, its box and its vector, by exact scores; the best of each photo stays."""
    if not found:
        none = np.zeros(0, dtype=np.float32)
        return RankedRegions(np.zeros(0, dtype=np.int64), none, none.reshape(0, 4))
    numbers = np.array([number for number, _, _ in found], dtype=np.int64)
    scores = np.stack([vector for _, _, vector in found]).astype(np.float32) @ asked
    order = np.lexsort((numbers, -scores))
    order = order[np.sort(np.unique(numbers[order], return_index=True)[1])]
    return RankedRegions(numbers[order], scores[order], np.stack([found[place][1] for place in order]))
