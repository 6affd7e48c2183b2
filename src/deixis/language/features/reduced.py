"""Text features with fewer dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np

from deixis.language.features.base import Floats, Text, TextFeatures, chunks_of, transform_in_chunks
from deixis.language.features.fisher import FisherVectors
from deixis.language.features.mean import MeanVector
from deixis.language.features.pca import PCA
from deixis.language.features.tfidf import TfIdf
from deixis.language.saved import Saved, Storable, damaged, read_saved


class Reduced(Storable):
    """Other text features, brought to fewer dimensions by PCA.

    Parameters
    ----------
    features
        Fitted together with PCA by `fit`.
    dimension
        To which they are brought.
    seed
        Of PCA.

    Attributes
    ----------
    pca_ : PCA

    Examples
    --------
    >>> features = Reduced(TfIdf(minimum=1), 1).fit(["a dog", "a cat", "two cats"])
    >>> features.transform(["a dog"]).shape
    (1, 1)
    """

    KIND = "reduced"

    def __init__(self, features: TextFeatures, dimension: int, *, seed: int = 0) -> None:
        self.features = features
        self.dimension = dimension
        self.seed = seed
        self.pca_ = PCA(dimension, seed=seed)

    def fit(self, sentences: Sequence[Text]) -> Self:
        """Learn the features, then PCA from the features of the same sentences, a chunk at a time."""
        self.features.fit(sentences)
        self.pca_ = PCA(self.dimension, seed=self.seed).fit(transform_in_chunks(self.features, sentences))
        return self

    def transform(self, sentences: Sequence[Text]) -> Floats:
        """One row for each sentence."""
        rows = np.empty((len(sentences), self.dimension), dtype=np.float32)
        done = 0
        for chunk in chunks_of(sentences):
            rows[done : done + len(chunk)] = self.pca_.transform(self.features.transform(chunk))
            done += len(chunk)
        return rows

    def saved(self) -> Saved:
        """What `save` writes."""
        settings = {"dimension": self.dimension, "seed": self.seed}
        return Saved(self.KIND, settings, parts={"features": self.features.saved(), "pca": self.pca_.saved()})

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        inner = _FROM_SAVED[saved.parts["features"].kind](saved.parts["features"])
        features = cls(inner, saved.settings["dimension"], seed=saved.settings["seed"])
        features.pca_ = PCA.from_saved(saved.parts["pca"])
        learned = features.pca_.saved().arrays["components"].shape
        if learned != (features.dimension, inner.dimension):
            raise ValueError(f"PCA of shape {learned} does not fit features of {inner.dimension}")
        return features


_FROM_SAVED: dict[str, Callable[[Saved], TextFeatures]] = {
    MeanVector.KIND: MeanVector.from_saved,
    TfIdf.KIND: TfIdf.from_saved,
    FisherVectors.KIND: FisherVectors.from_saved,
    Reduced.KIND: Reduced.from_saved,
}


def load_features(folder: str | PathLike[str]) -> TextFeatures:
    """Open any text features that were saved, by what the folder says of itself.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     TfIdf(minimum=1).fit(["a dog"]).save(f"{parent}/made")
    ...     type(load_features(f"{parent}/made")).__name__
    'TfIdf'
    """
    saved = read_saved(folder)
    with damaged(Path(folder)):
        return _FROM_SAVED[saved.kind](saved)
