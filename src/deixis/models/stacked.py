"""The stacked auxiliary embedding of Flickr30k Entities (§3.1): what regions taught, added to what a photo shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from deixis.errors import DeixisError
from deixis.language.features.base import Floats, fitted
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
        How long the auxiliary vectors are, beside the features of their side; 1 makes both equally long.

    Attributes
    ----------
    visual_length_, text_length_ : float
        Of the features of each side, the mean over the first block of pairs: a stream is read only once.

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

    def __init__(self, auxiliary: CCA, model: CCA, weight: float = 0.3) -> None:
        self.auxiliary = auxiliary
        self.model = model
        self.weight = weight
        self.visual_length_: float | None = None
        self.text_length_: float | None = None

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
        self.model.fit_blocks(self._stacked(pairs))
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
        lengths = fitted(self.visual_length_, self), fitted(self.text_length_, self)
        return Saved(self.KIND, {"weight": self.weight, "lengths": lengths}, parts=parts)

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        auxiliary, model = (CCA.from_saved(saved.parts[name]) for name in ("auxiliary", "model"))
        stacked = cls(auxiliary, model, float(saved.settings["weight"]))
        stacked.visual_length_, stacked.text_length_ = map(float, saved.settings["lengths"])
        return stacked

    def _stacked(self, pairs: Iterable[tuple[Floats, Floats]]) -> Iterator[tuple[Floats, Floats]]:
        for block, (photos, texts) in enumerate(pairs):
            if block == 0:
                self.visual_length_, self.text_length_ = _mean_length(photos), _mean_length(texts)
            yield self._stacked_visual(photos), self._stacked_text(texts)

    def _stacked_visual(self, features: Floats) -> Floats:
        length = self.weight * fitted(self.visual_length_, self)
        return np.hstack([features, length * self.auxiliary.prepare_visual(features)])

    def _stacked_text(self, features: Floats) -> Floats:
        length = self.weight * fitted(self.text_length_, self)
        return np.hstack([features, length * self.auxiliary.prepare_text(features)])


def _mean_length(features: Floats) -> float:
    return float(np.linalg.norm(features, axis=1).mean())
