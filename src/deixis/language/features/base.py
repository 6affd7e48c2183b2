"""The interface of text features, their common functions, and the two simplest kinds: mean vector and tf-idf."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import numpy as np

from deixis.arrays import Floats, IntArray, to_unit_length
from deixis.errors import DeixisError
from deixis.language.vectors import WordVectors
from deixis.storage.artifacts import Artifact, Storable
from deixis.tokens import Text, words_of

T = TypeVar("T")

CHUNK = 1024
"""Number of sentences per chunk: 74 MB of Fisher vectors."""


class TextFeatures(Storable):
    """Converts sentences to vectors of one dimension.

    Settings are passed to ``__init__`` and never change; fitted attributes end in ``_``.
    """

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Dimension of the vectors, known after `fit`."""

    @abstractmethod
    def fit(self, sentences: Sequence[Text]) -> Self:
        """Fit to sentences of the training split."""

    @abstractmethod
    def transform(self, sentences: Sequence[Text]) -> Floats:
        """Return one row of float32 per sentence."""


def chunks_of(sentences: Sequence[Text]) -> Iterator[Sequence[Text]]:
    for start in range(0, len(sentences), CHUNK):
        yield sentences[start : start + CHUNK]


def transform_in_chunks(features: TextFeatures, sentences: Sequence[Text]) -> Iterator[Floats]:
    """Iterate over the rows of `transform` in chunks, which need not fit in memory together."""
    for chunk in chunks_of(sentences):
        yield features.transform(chunk)


def stack_chunks(chunks: Iterable[Floats], shape: tuple[int, int]) -> Floats:
    """Copy chunks of rows into one array of this shape."""
    rows = np.empty(shape, dtype=np.float32)
    done = 0
    for chunk in chunks:
        rows[done : done + len(chunk)] = chunk
        done += len(chunk)
    return rows


def fitted(attribute: T | None, estimator: object) -> T:
    """Return a fitted attribute, or raise `DeixisError` if the estimator has not been fitted."""
    if attribute is None:
        raise DeixisError(f"{type(estimator).__name__} has not been fitted; call fit first")
    return attribute


def settings_of(estimator: Any) -> dict[str, Any]:
    """Return the arguments of the constructor of an estimator that is a dataclass, but for the word vectors."""
    names = (field.name for field in fields(estimator) if field.init)
    return {name: getattr(estimator, name) for name in names if name != "vectors"}


def token_counts(sentences: Sequence[Text], vectors: WordVectors) -> tuple[IntArray, IntArray]:
    """Return the distinct rows of the known words in the sentences, and the count of each."""
    counts = np.zeros(vectors.row_count, dtype=np.int64)
    for sentence in sentences:
        rows = vectors.rows_of(words_of(sentence))
        np.add.at(counts, rows[rows >= 0], 1)
    seen = np.flatnonzero(counts)
    return seen, counts[seen]


@dataclass(frozen=True)
class WordMeans:
    """Averages values over the known words of each sentence."""

    rows: IntArray  # the distinct rows of the known words in all sentences
    words: list[IntArray]  # the known words of each sentence, as indices in `rows`

    @classmethod
    def of(cls, sentences: Sequence[Text], vectors: WordVectors) -> WordMeans:
        known = [rows[rows >= 0] for rows in (vectors.rows_of(words_of(sentence)) for sentence in sentences)]
        rows, indices = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *known]), return_inverse=True)
        return cls(rows, np.split(indices, np.cumsum([len(each) for each in known])[:-1]) if known else [])

    def __call__(self, values: Floats) -> Floats:
        """Return the mean of the values (len(rows), d) of the words of each sentence; zeros if no word is known."""
        means = np.zeros((len(self.words), values.shape[1]), dtype=np.float32)
        for mean, known in zip(means, self.words, strict=True):
            if len(known):
                values[known].sum(axis=0, out=mean)
                mean /= len(known)
        return means


class MeanVector(TextFeatures):
    """The mean of the vectors of the known words; zeros if no word is known."""

    KIND = "mean-vector"

    def __init__(self, vectors: WordVectors) -> None:
        self.vectors = vectors

    @property
    def dimension(self) -> int:
        return self.vectors.dimension

    def fit(self, sentences: Sequence[Text]) -> Self:
        return self

    def transform(self, sentences: Sequence[Text]) -> Floats:
        chunks = (WordMeans.of(chunk, self.vectors) for chunk in chunks_of(sentences))
        means = (means(self.vectors.take(means.rows)) for means in chunks)
        return stack_chunks(means, (len(sentences), self.dimension))

    def to_artifact(self) -> Artifact:
        return Artifact(self.KIND, {}, parts={"vectors": self.vectors.to_artifact()})

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        return cls(WordVectors.from_artifact(artifact.parts["vectors"]))


class TfIdf(TextFeatures):
    """Tf-idf vectors of unit length.

    A word that occurs c times in a sentence and in s of n sentences has c · (ln((1 + n) / (1 + s)) + 1). Unknown words
    are ignored; a sentence without known words is all zeros.

    Examples
    --------
    >>> features = TfIdf(minimum=1).fit(["A dog.", "A cat."])
    >>> features.words_, features.transform(["a dog", "a horse"]).shape
    (['a', 'cat', 'dog'], (2, 3))
    """

    KIND = "tf-idf"

    def __init__(self, minimum: int = 2) -> None:
        self.minimum = minimum
        self.words_: list[str] | None = None
        self.idf_ = np.zeros(0, dtype=np.float32)
        self._column: dict[str, int] = {}

    @property
    def dimension(self) -> int:
        fitted(self.words_, self)
        return len(self.idf_)

    def fit(self, sentences: Sequence[Text]) -> Self:
        sentence_counts = Counter(word for sentence in sentences for word in set(words_of(sentence)))
        kept = sorted(word for word, count in sentence_counts.items() if count >= self.minimum)
        if not kept:
            raise DeixisError(f"tf-idf: no word occurs in {self.minimum} of the {len(sentences):,} sentences")
        counts = np.array([sentence_counts[word] for word in kept])
        self._set(kept, (np.log((1 + len(sentences)) / (1 + counts)) + 1).astype(np.float32))
        return self

    def _set(self, words: list[str], idf: Floats) -> None:
        self.words_, self.idf_ = words, idf
        self._column = {word: column for column, word in enumerate(words)}

    def transform(self, sentences: Sequence[Text]) -> Floats:
        """Return one row per sentence, one column per word of `words_`."""
        rows = np.zeros((len(sentences), self.dimension), dtype=np.float32)
        for row, sentence in zip(rows, sentences, strict=True):
            for word in words_of(sentence):
                column = self._column.get(word)
                if column is not None:
                    row[column] += self.idf_[column]
        return to_unit_length(rows)

    def to_artifact(self) -> Artifact:
        fitted(self.words_, self)
        return Artifact(self.KIND, {"minimum": self.minimum, "words": self.words_}, {"idf": self.idf_})

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        features = cls(artifact.settings["minimum"])
        features._set(list(artifact.settings["words"]), np.asarray(artifact.arrays["idf"]))
        if len(features._column) != len(features.idf_):
            raise ValueError(f"{len(features._column)} words for {len(features.idf_)} weights")
        return features
