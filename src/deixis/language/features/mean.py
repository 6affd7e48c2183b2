"""The mean of a sentence's word vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from deixis.language.features.base import Floats, Text, chunks_of, word_shares
from deixis.language.saved import Saved, Storable
from deixis.language.vectors import WordVectors


class MeanVector(Storable):
    """The mean of the vectors of the known words; zeros where no word is known.

    Parameters
    ----------
    vectors
        Of words.

    Examples
    --------
    >>> vectors = WordVectors(np.eye(2, dtype=np.float32), ["dog", "cat"])
    >>> MeanVector(vectors).fit([]).transform(["A dog and a cat.", "nothing"])
    array([[0.5, 0.5],
           [0. , 0. ]], dtype=float32)
    """

    KIND = "mean-vector"

    def __init__(self, vectors: WordVectors) -> None:
        self.vectors = vectors

    @property
    def dimension(self) -> int:
        """That of the word vectors."""
        return self.vectors.dimension

    def fit(self, sentences: Sequence[Text]) -> Self:
        """Learn nothing: there is nothing to learn."""
        return self

    def transform(self, sentences: Sequence[Text]) -> Floats:
        """One mean for each sentence."""
        means = np.zeros((len(sentences), self.dimension), dtype=np.float32)
        done = 0
        for chunk in chunks_of(sentences):
            used, shares = word_shares(chunk, self.vectors)
            means[done : done + len(chunk)] = shares @ self.vectors.matrix[used]
            done += len(chunk)
        return means

    def saved(self) -> Saved:
        """What `save` writes."""
        return Saved(self.KIND, {}, parts={"vectors": self.vectors.saved()})

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        return cls(WordVectors.from_saved(saved.parts["vectors"]))
