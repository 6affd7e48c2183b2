"""Merging (§2.3): boxes that show the same thing become one, then chains that point to the same boxes.

Missed links leave a thing in several chains, each with boxes of its own. The two boxes that overlap most are made one
first, then the next two, until no two overlap far enough; a merged box is the mean of all that went into it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deixis import geometry
from deixis.annotate.settings import Settings
from deixis.annotate.walks import XYXY

OTHER = "other"


@dataclass(frozen=True, slots=True)
class Chained:
    """A chain before merging: its name, types and boxes."""

    name: str
    types: tuple[str, ...]
    boxes: tuple[XYXY, ...]


@dataclass(frozen=True, slots=True)
class MergedBox:
    """A box, the chains it belongs to, and all drawn boxes that went into it."""

    xyxy: XYXY
    chains: tuple[str, ...]
    drawn: tuple[XYXY, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """What is left: boxes of the chains that are left, and for every chain the one that it became."""

    boxes: tuple[MergedBox, ...]
    became: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Cluster:
    chains: tuple[str, ...]
    types: frozenset[str]
    drawn: tuple[XYXY, ...]

    @property
    def xyxy(self) -> XYXY:
        x1, y1, x2, y2 = np.mean(self.drawn, axis=0).tolist()
        return x1, y1, x2, y2


def merge(chains: Sequence[Chained], settings: Settings | None = None) -> Merged:
    """Merge the boxes of a photo, then its chains.

    Parameters
    ----------
    chains
        All chains of the photo. One without boxes is never merged.
    settings
        `merge_iou`, `merge_iou_other` and `never_merged`.

    Examples
    --------
    >>> bride = Chained("1", ("people",), ((0, 0, 10, 10),))
    >>> woman = Chained("2", ("people",), ((0, 0, 10, 9),))
    >>> dress = Chained("3", ("clothing",), ((0, 0, 10, 10),))
    >>> found = merge([bride, woman, dress])
    >>> found.became
    {'1': '1', '2': '1', '3': '3'}
    >>> [(box.xyxy, box.chains) for box in found.boxes]
    [((0.0, 0.0, 10.0, 9.5), ('1',)), ((0.0, 0.0, 10.0, 10.0), ('3',))]
    """
    settings = settings or Settings()
    clusters = [_Cluster((chain.name,), frozenset(chain.types), (box,)) for chain in chains for box in chain.boxes]
    while (pair := _closest(clusters, settings)) is not None:
        first, second = (clusters[place] for place in pair)
        names = tuple(dict.fromkeys(first.chains + second.chains))
        clusters[pair[0]] = _Cluster(names, first.types | second.types, first.drawn + second.drawn)
        del clusters[pair[1]]
    became = _merge_chains(chains, clusters)
    boxes = (
        MergedBox(cluster.xyxy, tuple(dict.fromkeys(became[name] for name in cluster.chains)), cluster.drawn)
        for cluster in clusters
    )
    return Merged(tuple(boxes), became)


def _closest(clusters: Sequence[_Cluster], settings: Settings) -> tuple[int, int] | None:
    """The two that overlap most, of those that may become one."""
    if len(clusters) < 2:
        return None
    overlaps = geometry.iou([cluster.xyxy for cluster in clusters], [cluster.xyxy for cluster in clusters])
    best, most = None, 0.0
    for first in range(len(clusters)):
        for second in range(first + 1, len(clusters)):
            one, other = clusters[first].types, clusters[second].types
            needed = settings.merge_iou_other if OTHER in one | other else settings.merge_iou
            overlap = float(overlaps[first, second])
            if overlap > most and overlap >= needed and not _kept_apart(one, other, settings):
                best, most = (first, second), overlap
    return best


def _kept_apart(one: frozenset[str], other: frozenset[str], settings: Settings) -> bool:
    return any((a in one and b in other) or (b in one and a in other) for a, b in settings.never_merged)


def _merge_chains(chains: Sequence[Chained], clusters: Sequence[_Cluster]) -> dict[str, str]:
    """For every chain the first one that points to exactly the same boxes."""
    became: dict[str, str] = {}
    first_with: dict[frozenset[int], str] = {}
    for chain in chains:
        places = frozenset(place for place, cluster in enumerate(clusters) if chain.name in cluster.chains)
        became[chain.name] = first_with.setdefault(places, chain.name) if places else chain.name
    return became
