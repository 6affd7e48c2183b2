"""The stacked auxiliary embedding of Flickr30k Entities (§3.1): what regions taught, added to what a photo shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from deixis.errors import DeixisError
from deixis.language.features.base import Floats
from deixis.language.saved import Saved
from deixis.models.base import Embedder
from deixis.models.cca import CCA, blocks
from deixis.models.saved import StoredModel


class Stacked(StoredModel, Embedder):
    """A model of features to which the vectors of an auxiliary model are appended.

    Parameters
    ----------
    auxiliary
        Fitted already, on regions and phrases; it takes the same features.
    model
        Fitted here, on photos and sentences.
    weight
        By which the auxiliary vectors, of length 1, are multiplied. With features of length 1 both count the same.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> photos, sentences = rng.normal(size=(2, 100, 6)).astype(np.float32)
    >>> auxiliary = CCA(components=2).fit(photos, sentences)
    >>> stacked = Stacked(auxiliary, CCA(components=3)).fit(photos, sentences)
    >>> stacked.prepare_visual(photos).shape
    (100, 3)
    """

    KIND = "stacked"

    def __init__(self, auxiliary: CCA, model: CCA, weight: float = 1.0) -> None:
        self.auxiliary = auxiliary
        self.model = model
        self.weight = weight

    @property
    def dimension(self) -> int:
        """Numbers in each vector."""
        return self.model.dimension

    def fit(self, X: ArrayLike, Y: ArrayLike) -> Self:  # noqa: N803 - as in scikit-learn
        """Learn from pairs: row i of `X`, a photo, belongs to row i of `Y`, a sentence."""
        photos, sentences = np.asarray(X), np.asarray(Y)
        if len(photos) != len(sentences):
            raise DeixisError(f"Stacked: X has {len(photos):,} rows, Y has {len(sentences):,}; they must be pairs")
        return self.fit_blocks((photos[block], sentences[block]) for block in blocks(len(photos)))

    def fit_blocks(self, pairs: Iterable[tuple[Floats, Floats]]) -> Self:
        """Learn from pairs that come in blocks, each seen once."""
        self.model.fit_blocks((self._stacked_visual(photos), self._stacked_text(texts)) for photos, texts in pairs)
        return self

    def prepare_visual(self, features: ArrayLike) -> Floats:
        """A vector of unit length for each photo or region."""
        return self.model.prepare_visual(self._stacked_visual(np.asarray(features)))

    def prepare_text(self, features: ArrayLike) -> Floats:
        """A vector of unit length for each sentence or phrase."""
        return self.model.prepare_text(self._stacked_text(np.asarray(features)))

    def saved(self) -> Saved:
        """What `save` writes."""
        parts = {"auxiliary": self.auxiliary.saved(), "model": self.model.saved()}
        return Saved(self.KIND, {"weight": self.weight}, parts=parts)

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        auxiliary, model = (CCA.from_saved(saved.parts[name]) for name in ("auxiliary", "model"))
        return cls(auxiliary, model, float(saved.settings["weight"]))

    def _stacked_visual(self, features: Floats) -> Floats:
        return np.hstack([features, self.weight * self.auxiliary.prepare_visual(features)])

    def _stacked_text(self, features: Floats) -> Floats:
        return np.hstack([features, self.weight * self.auxiliary.prepare_text(features)])
