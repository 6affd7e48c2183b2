"""Words weighted by how few sentences they occur in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Self

import numpy as np

from deixis.errors import DeixisError
from deixis.language.features.base import Floats, Text, fitted, to_unit_length, words_of
from deixis.language.saved import Saved, Storable


class TfIdf(Storable):
    """Term frequency times inverse document frequency, each sentence to unit length.

    A word that occurs c times in a sentence and in s of n sentences has c · (ln((1 + n) / (1 + s)) + 1). Words that
    were not learned do not count. A sentence without learned words is all zeros.

    Parameters
    ----------
    minimum
        Words in fewer sentences than this are left out.

    Attributes
    ----------
    words_ : list of str
        In the order of the columns, which is that of the alphabet.
    idf_ : array of float32

    Examples
    --------
    >>> TfIdf(minimum=1).fit(["a dog", "a cat"]).transform(["dog"])
    array([[0., 0., 1.]], dtype=float32)
    """

    KIND = "tf-idf"

    def __init__(self, minimum: int = 2) -> None:
        self.minimum = minimum
        self.words_: list[str] | None = None
        self.idf_ = np.zeros(0, dtype=np.float32)
        self._column: dict[str, int] = {}

    @property
    def dimension(self) -> int:
        """How many words were learned."""
        fitted(self.words_, self)
        return len(self.idf_)

    def fit(self, sentences: Sequence[Text]) -> Self:
        """Learn the words and how many sentences hold each."""
        holding = Counter(word for sentence in sentences for word in set(words_of(sentence)))
        learned = sorted(word for word, count in holding.items() if count >= self.minimum)
        if not learned:
            raise DeixisError(f"tf-idf: no word occurs in {self.minimum} of the {len(sentences):,} sentences")
        counts = np.array([holding[word] for word in learned])
        self._learn(learned, (np.log((1 + len(sentences)) / (1 + counts)) + 1).astype(np.float32))
        return self

    def _learn(self, learned: list[str], idf: Floats) -> None:
        self.words_, self.idf_ = learned, idf
        self._column = {word: column for column, word in enumerate(learned)}

    def transform(self, sentences: Sequence[Text]) -> Floats:
        """One row for each sentence, one column for each word of `words_`."""
        rows = np.zeros((len(sentences), self.dimension), dtype=np.float32)
        for row, sentence in zip(rows, sentences, strict=True):
            for word in words_of(sentence):
                column = self._column.get(word)
                if column is not None:
                    row[column] += self.idf_[column]
        return to_unit_length(rows)

    def saved(self) -> Saved:
        """What `save` writes."""
        fitted(self.words_, self)
        return Saved(self.KIND, {"minimum": self.minimum, "words": self.words_}, {"idf": self.idf_})

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        features = cls(saved.settings["minimum"])
        features._learn(list(saved.settings["words"]), np.asarray(saved.arrays["idf"]))
        if len(features._column) != len(features.idf_):
            raise ValueError(f"{len(features._column)} words for {len(features.idf_)} weights")
        return features
