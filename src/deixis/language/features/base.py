"""What all text features have in common: the interface, sentences as words, and words as counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from deixis.errors import DeixisError
from deixis.language.saved import Saved
from deixis.language.vectors import Rows, WordVectors
from deixis.tokens import words


class Worded(Protocol):
    """What knows its words: a `Sentence`, a `Phrase`, a `Relation`."""

    @property
    def words(self) -> Sequence[str]:
        """As `deixis.tokens.words` gives them."""
        ...


Text = str | Sequence[str] | Worded
"""A string, cut by `deixis.tokens.words`; or the words themselves; or a record that knows its words."""

Floats = NDArray[np.float32]
T = TypeVar("T")

CHUNK = 1024
"""Sentences that are worked on at a time: 74 MB of Fisher vectors."""


class TextFeatures(Protocol):
    """Turns sentences into vectors of one length. English word vectors make it English.

    Settings are given to ``__init__`` and never changed; what is learned has a name that ends in ``_``.
    """

    @property
    def dimension(self) -> int:
        """Numbers for each sentence; known once fitted."""
        ...

    def fit(self, sentences: Sequence[Text]) -> Self:
        """Learn from sentences of the training split, and from no others."""
        ...

    def transform(self, sentences: Sequence[Text]) -> Floats:
        """One row of float32 for each sentence."""
        ...

    def save(self, folder: str | PathLike[str]) -> None:
        """Write a folder that `load` reads: arrays and JSON, nothing pickled."""
        ...

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Self:
        """Open a folder that `save` wrote. It transforms to the same bits."""
        ...

    def saved(self) -> Saved:
        """What `save` writes."""
        ...


def words_of(text: Text) -> list[str]:
    """The words of a sentence or phrase.

    Examples
    --------
    >>> from deixis.language.sentence import Sentence
    >>> words_of("A dog."), words_of(["A", "dog"]), words_of(Sentence("A dog.").whole)
    (['a', 'dog'], ['A', 'dog'], ['a', 'dog'])
    """
    if isinstance(text, str):
        return words(text)
    return list(text if isinstance(text, Sequence) else text.words)


def chunks_of(sentences: Sequence[Text], size: int = CHUNK) -> Iterator[Sequence[Text]]:
    """The sentences, so many at a time."""
    for start in range(0, len(sentences), size):
        yield sentences[start : start + size]


def transform_in_chunks(features: TextFeatures, sentences: Sequence[Text]) -> Iterator[Floats]:
    """The rows of `transform`, a chunk at a time, for those that would not fit in memory together."""
    for chunk in chunks_of(sentences):
        yield features.transform(chunk)


def fitted(learned: T | None, estimator: object) -> T:
    """Give what was learned; refuse to go on with an estimator that has learned nothing."""
    if learned is None:
        raise DeixisError(f"{type(estimator).__name__} has not been fitted; call fit first")
    return learned


def token_counts(sentences: Sequence[Text], vectors: WordVectors) -> tuple[Rows, Rows]:
    """The rows of the known words in the sentences, each once, and how often each occurs."""
    counts = np.zeros(len(vectors.matrix), dtype=np.int64)
    for sentence in sentences:
        rows = vectors.rows_of(words_of(sentence))
        np.add.at(counts, rows[rows >= 0], 1)
    seen = np.flatnonzero(counts)
    return seen, counts[seen]


def word_shares(sentences: Sequence[Text], vectors: WordVectors) -> tuple[Rows, sparse.csr_array]:
    """The rows of the known words, and what share of each sentence's known words each one is.

    Averages over the words of a sentence are products with the second: it has a row for each sentence, a column for
    each known word, and rows that sum to 1, or to 0 where no word is known.
    """
    known = [rows[rows >= 0] for rows in (vectors.rows_of(words_of(sentence)) for sentence in sentences)]
    lengths = np.fromiter((len(rows) for rows in known), dtype=np.int64, count=len(known))
    together = np.concatenate(known) if known else np.zeros(0, dtype=np.int64)
    used, columns = np.unique(together, return_inverse=True)
    shares = np.repeat(1 / np.maximum(lengths, 1), lengths).astype(np.float32)
    places = np.repeat(np.arange(len(known)), lengths)
    return used, sparse.coo_array((shares, (places, columns)), shape=(len(known), len(used))).tocsr()


def to_unit_length(rows: Floats) -> Floats:
    """Divide each row by its length, in place; rows of zeros stay."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    rows /= np.where(lengths > 0, lengths, 1).astype(np.float32)[:, None]
    return rows
