"""What every model can do: prepare each side once, then score all pairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from deixis.language.features.base import Floats


class Scorer(ABC):
    """Says how well photos, or regions of them, go with sentences, or phrases of them. Higher is better.

    What needs only one side is done once by `prepare_visual` and `prepare_text`; `scores` does the rest for every pair.
    """

    @abstractmethod
    def prepare_visual(self, features: Any) -> Any:
        """Whatever can be done for photos or regions alone."""

    @abstractmethod
    def prepare_text(self, features: Any) -> Any:
        """Whatever can be done for sentences or phrases alone."""

    @abstractmethod
    def scores(self, visual: Any, text: Any) -> Floats:
        """A row for each photo or region, a column for each sentence or phrase, all of them prepared."""


class Embedder(Scorer):
    """A scorer that prepares plain vectors, whose dot product is the score: what an index can hold."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Numbers in each vector."""

    @abstractmethod
    def prepare_visual(self, features: Any) -> Floats:
        """A vector for each photo or region."""

    @abstractmethod
    def prepare_text(self, features: Any) -> Floats:
        """A vector for each sentence or phrase."""

    def scores(self, visual: Floats, text: Floats) -> Floats:
        """The dot product of every pair."""
        product: Floats = visual @ text.T
        return product
