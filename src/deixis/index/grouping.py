"""Near-duplicates and bursts: photos that are one to a person who searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deixis.index.records import IndexedPhoto
from deixis.index.seeing import Floats


@dataclass(frozen=True)
class Grouping:
    """When two photos belong together: their files are the same, or they look the same, or were taken at once.

    Attributes
    ----------
    near
        The cosine of two photos' vectors from which they are near-duplicates.
    burst_s, burst_near
        Seconds between two photos of a burst at most, and the cosine from which that counts.
    """

    near: float = 0.97
    burst_s: int = 10
    burst_near: float = 0.85


def groups_of(
    photos: Sequence[IndexedPhoto], vectors: Floats, grouping: Grouping, most: int | None = None
) -> list[list[int]]:
    """Places of photos in groups, each with its first photo in front; the order of the photos stays.

    A photo joins the first group whose first photo it belongs to, so a long chain of small steps is not one group.

    Parameters
    ----------
    photos, vectors
        One row of `vectors` a photo.
    most
        How many groups there are at most; later photos may still join these.
    """
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    unit = vectors / lengths
    groups: list[list[int]] = []
    for place, photo in enumerate(photos):
        leaders = [group[0] for group in groups]
        cosines = unit[leaders] @ unit[place] if leaders else np.zeros(0, dtype=np.float32)
        joins = _belongs(photo, [photos[leader] for leader in leaders], cosines, grouping)
        if len(joins):
            groups[int(joins[0])].append(place)
        elif most is None or len(groups) < most:
            groups.append([place])
    return groups


def _belongs(
    photo: IndexedPhoto, leaders: list[IndexedPhoto], cosines: Floats, grouping: Grouping
) -> NDArray[np.int64]:
    same = np.array([leader.sha256 == photo.sha256 for leader in leaders], dtype=bool)
    apart = np.array([_seconds_apart(photo, leader) for leader in leaders])
    burst = (apart <= grouping.burst_s) & (cosines >= grouping.burst_near)
    return np.flatnonzero(same | (cosines >= grouping.near) | burst)


def _seconds_apart(one: IndexedPhoto, other: IndexedPhoto) -> float:
    if one.taken.seconds is None or other.taken.seconds is None or one.taken.camera != other.taken.camera:
        return float("inf")
    return abs(one.taken.seconds - other.taken.seconds)
