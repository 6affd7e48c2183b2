"""What `PhotoIndex` asks of the place where photos and their vectors are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from deixis.index.about import About
from deixis.index.connection import StoredRegions
from deixis.index.matches import Answer
from deixis.index.records import IndexedPhoto
from deixis.index.regions import RankedRegions
from deixis.index.seeing import Floats
from deixis.index.where import Where

Ranking = Callable[[int], list[Answer]]
"""Gives so many of the best answers, best first; fewer where there are no more."""


class Archive(Protocol):
    """Photos by number, and the numbers of those nearest to a vector. It may be asked from many threads at once."""

    def close(self) -> None:
        """Let go of files and connections."""
        ...

    def about(self) -> About:
        """What the index says of itself, as of now."""
        ...

    def count(self, where: Where | None) -> int:
        """How many photos a search would look at."""
        ...

    def numbers(self, where: Where | None) -> NDArray[np.int64]:
        """Their numbers, ascending."""
        ...

    def ranking(self, asked: Floats, where: Where | None) -> Ranking:
        """Photos by the dot product of their vectors with a query's; of equal ones the older comes first."""
        ...

    def region_ranking(self, asked: Floats, where: Where | None, shortlist: int) -> RankedRegions:
        """Photos by that of their best region, among about so many regions."""
        ...

    def newest(self, count: int, begin: int) -> list[IndexedPhoto]:
        """Photos by falling numbers, `count` of them after the first `begin`."""
        ...

    def photos(self, numbers: Iterable[int]) -> dict[int, IndexedPhoto]:
        """Photos by number; one that is gone is left out."""
        ...

    def photo_at(self, path: Path) -> IndexedPhoto | None:
        """The photo at an absolute path."""
        ...

    def vectors_of(self, numbers: NDArray[np.int64]) -> Floats:
        """The vectors of whole photos, (n, dimension); of one that is gone, zeros."""
        ...

    def regions_of(self, numbers: Iterable[int]) -> StoredRegions:
        """Boxes and vectors of regions; a photo without any is left out."""
        ...

    def thumbnail(self, number: int) -> bytes | None:
        """A small JPEG; None where none was kept."""
        ...
