"""What every matching model can do: encode each side once, then score all pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from deixis.arrays import Floats


class Scorer(ABC):
    """Scores photos or regions against sentences or phrases; higher is better.

    `prepare_visual` and `prepare_text` do what needs only one side, once; `scores` does the rest for every pair.
    """

    has_common_space: ClassVar[bool] = False
    """Whether the codes are vectors that can also be compared within one side, such as sentences with sentences."""

    @abstractmethod
    def prepare_visual(self, features: Any) -> Any:
        """Encode photos or regions."""

    @abstractmethod
    def prepare_text(self, features: Any) -> Any:
        """Encode sentences or phrases."""

    @abstractmethod
    def scores(self, visual: Any, text: Any) -> Floats:
        """Score every encoded photo or region (rows) against every encoded sentence or phrase (columns)."""


class Embedder(Scorer):
    """A scorer whose codes are vectors and whose score is their dot product: what an index can hold."""

    has_common_space = True

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Dimension of the vectors."""

    @abstractmethod
    def prepare_visual(self, features: Any) -> Floats: ...

    @abstractmethod
    def prepare_text(self, features: Any) -> Floats: ...

    def visual_axes(self, count: int) -> Floats | None:
        """Orthonormal axes that carry most of the vectors of photos and regions, (dimension, count), if known."""
        return None

    def scores(self, visual: Floats, text: Floats) -> Floats:
        product: Floats = visual @ text.T
        return product
