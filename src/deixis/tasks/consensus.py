"""Consensus reranking (m-RNN, §8): of several sentences for a photo, the one that like photos' captions agree with.

Captions of training photos and vectors of these come in, once; then for each photo its sentences, in the order that
their scores give them. Neighbours come from what was given and from nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from deixis.errors import DeixisError
from deixis.evaluation.captions.bleu import bleu_from, bleu_statistics
from deixis.evaluation.captions.coded import LONGEST, CaptionSet
from deixis.language.features.base import Text, words_of
from deixis.language.saved import Saved, Storable

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Similarity = Literal["bleu", "cider"]

BEST = {"bleu": 175, "cider": 125}
"""§8.2: how many of the most similar captions count, m."""

_SIGMA = 6.0
_PHOTOS_AT_A_TIME = 512


@dataclass(frozen=True)
class ConsensusSettings:
    """How sentences are reranked.

    Attributes
    ----------
    similarity
        Of a sentence and a caption: bleu (BLEU-4 of the sentence, smoothed) or cider (CIDEr-D).
    neighbours
        k of §8.2: photos whose captions are asked.
    best
        m of §8.2: the score is the mean over so many most similar captions; none for the paper's 175 (bleu) and 125.
    """

    similarity: Similarity = "cider"
    neighbours: int = 60
    best: int | None = None

    def __post_init__(self) -> None:
        if self.neighbours < 1 or (self.best is not None and self.best < 1):
            raise DeixisError(f"neighbours={self.neighbours}, best={self.best}: must be 1 or more")

    @property
    def captions(self) -> int:
        """How many of the most similar captions count."""
        return self.best or BEST[self.similarity]


class CaptionSimilarity:
    """How like other sentences are to each of the captions it was made of, by BLEU and by CIDEr-D.

    An n-gram that a sentence has twice is two pieces, the first and the second of it; n-grams in common, counted as
    often as both sentences have them, are then pieces in common, which a product of sparse matrices counts.

    Parameters
    ----------
    captions
        For each photo the words of its captions. Rare n-grams are those in the captions of few of these photos.

    Examples
    --------
    >>> like = CaptionSimilarity([[["a", "dog"], ["a", "red", "dog"]], [["two", "cats"]]])
    >>> like.bleu([["a", "dog"]], np.arange(3)).round(2).tolist()
    [[1.0, 0.51, 0.0]]
    >>> like.cider([["a", "dog"]], np.arange(3)).round(2).tolist()
    [[5.0, 2.01, 0.0]]
    """

    def __init__(self, captions: Sequence[Sequence[Sequence[str]]]) -> None:
        sentences = [words for photo in captions for words in photo]
        self._log_photos = float(np.log(max(1, len(captions))))
        self._lengths = np.array([len(words) for words in sentences])
        self._frequency = [Counter(_grams_of_photos(captions, n)) for n in range(1, LONGEST + 1)]
        self._column: list[dict[tuple[Any, ...], int]] = [{} for _ in range(LONGEST)]
        for n, columns in enumerate(self._column):
            for words in sentences:
                for piece in _pieces(words, n + 1):
                    columns.setdefault(piece, len(columns))
        self._pieces = [self._matrix(sentences, n) for n in range(LONGEST)]
        self._weights = [self._weighted(sentences, n) for n in range(LONGEST)]

    def bleu(self, sentences: Sequence[Sequence[str]], captions: Numbers) -> Floats:
        """BLEU-4 of each sentence (row) with each of some captions (columns) as its only reference.

        Of two words and more, precisions are (right + 1) / (all + 1), after Lin and Och (2004): few pairs of captions
        have four words in a row in common, and without that all others would be 0.
        """
        length = np.array([len(words) for words in sentences], dtype=np.float64)[:, None]
        logs = np.zeros((len(sentences), len(captions)))
        for n in range(LONGEST):
            right = np.asarray((self._matrix(sentences, n) @ self._pieces[n][captions].T).todense())
            smooth = 1.0 if n else 0.0
            with np.errstate(divide="ignore", invalid="ignore"):
                logs += np.nan_to_num(np.log((right + smooth) / (np.maximum(length - n, 0) + smooth)), nan=-np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            brevity = np.minimum(0, 1 - np.nan_to_num(self._lengths[captions] / length, posinf=np.inf))
        return np.asarray(np.exp(logs / LONGEST + brevity))

    def cider(self, sentences: Sequence[Sequence[str]], captions: Numbers) -> Floats:
        """CIDEr-D of each sentence (row) with each of some captions (columns) as its only reference: 0 to 10."""
        total = np.zeros((len(sentences), len(captions)))
        for n in range(LONGEST):
            norm = np.array([self._norm(words, n) for words in sentences])[:, None]
            product = np.asarray((self._matrix(sentences, n) @ self._weights[n][captions].T).todense())
            total += np.divide(product, norm, out=np.zeros_like(product), where=norm > 0)
        length = np.array([max(0, len(words) - 1) for words in sentences])[:, None]
        longer = length - np.maximum(0, self._lengths[captions] - 1)
        return np.asarray(10 / LONGEST * total * np.exp(-(longer**2) / (2 * _SIGMA**2)))

    def _idf(self, gram: tuple[str, ...], n: int) -> float:
        return self._log_photos - float(np.log(max(1, self._frequency[n][gram])))

    def _norm(self, words: Sequence[str], n: int) -> float:
        counts = Counter(_grams(words, n + 1))
        return float(np.sqrt(sum((count * self._idf(gram, n)) ** 2 for gram, count in counts.items())))

    def _matrix(self, sentences: Sequence[Sequence[str]], n: int) -> Any:
        """Which pieces each sentence has; those that no caption has are left out."""
        found = [[self._column[n].get(piece) for piece in _pieces(words, n + 1)] for words in sentences]
        known = [[column for column in columns if column is not None] for columns in found]
        return _rows(known, [[1.0] * len(columns) for columns in known], len(self._column[n]))

    def _weighted(self, sentences: Sequence[Sequence[str]], n: int) -> Any:
        """What a piece in common with each caption adds to CIDEr-D: count · idf² over the caption's length."""
        columns, values = [], []
        for words in sentences:
            counts, norm = Counter(_grams(words, n + 1)), self._norm(words, n)
            pieces = list(_pieces(words, n + 1))
            columns.append([self._column[n][piece] for piece in pieces])
            values.append([counts[gram] * self._idf(gram, n) ** 2 / norm if norm else 0.0 for gram, _ in pieces])
        return _rows(columns, values, len(self._column[n]))


class Consensus(Storable):
    """Training photos with their captions, and what these say of sentences for other photos.

    Parameters
    ----------
    vectors
        A row for each training photo: image features, or those that an m-RNN refines (`MRNN.refined`).
    captions
        For each training photo its captions.

    Examples
    --------
    >>> like = Consensus(np.eye(2), [["a dog runs", "a dog in the snow"], ["two cats sleep"]])
    >>> sentences = [["a cat sleeps", "a dog runs"], ["two cats sleep", "a dog runs"]]
    >>> [each.tolist() for each in like.order(np.eye(2), sentences, ConsensusSettings(neighbours=1))]
    [[1, 0], [0, 1]]
    """

    KIND = "consensus"

    def __init__(self, vectors: ArrayLike, captions: Sequence[Sequence[Text]]) -> None:
        self._vectors = np.asarray(vectors, dtype=np.float32)
        self._captions = [[list(words_of(text)) for text in texts] for texts in captions]
        if self._vectors.ndim != 2 or len(self._vectors) != len(self._captions) or not len(self._captions):
            raise DeixisError(
                f"consensus: vectors of shape {self._vectors.shape} are not a row each for {len(self._captions)} photos"
            )
        counts = [len(texts) for texts in self._captions]
        self._starts = np.concatenate([[0], np.cumsum(counts)])

    @cached_property
    def similarity(self) -> CaptionSimilarity:
        """Of sentences and all captions; counted when it is first needed."""
        return CaptionSimilarity(self._captions)

    def neighbours(self, vectors: ArrayLike, count: int) -> Numbers:
        """The rows of the training photos that are nearest to each photo by cosine, the nearest first.

        Examples
        --------
        >>> Consensus(np.eye(3), [["a"], ["b"], ["c"]]).neighbours([[1, 0.5, 0]], 2).tolist()
        [[0, 1]]
        """
        asked = np.asarray(vectors, dtype=np.float32)
        if asked.ndim != 2 or asked.shape[1] != self._vectors.shape[1]:
            raise DeixisError(f"vectors of shape {asked.shape}: a photo has {self._vectors.shape[1]:,} numbers here")
        among = _unit(self._vectors)
        blocks = [
            np.argsort(-(_unit(asked[begin : begin + _PHOTOS_AT_A_TIME]) @ among.T), axis=1, kind="stable")[:, :count]
            for begin in range(0, len(asked), _PHOTOS_AT_A_TIME)
        ]
        return np.concatenate(blocks) if blocks else np.zeros((0, count), dtype=np.int64)

    def scores(
        self, vectors: ArrayLike, sentences: Sequence[Sequence[Text]], settings: ConsensusSettings | None = None
    ) -> list[Floats]:
        """For each photo the consensus score of each of its sentences: the mean of the m best similarities."""
        settings = settings or ConsensusSettings()
        nearest = self.neighbours(vectors, settings.neighbours)
        if len(nearest) != len(sentences):
            raise DeixisError(f"consensus: {len(nearest)} photos, but sentences for {len(sentences)}")
        measure: Callable[[Sequence[Sequence[str]], Numbers], Floats] = getattr(self.similarity, settings.similarity)
        found = []
        for rows, texts in zip(nearest, sentences, strict=True):
            captions = np.concatenate([np.arange(self._starts[row], self._starts[row + 1]) for row in rows])
            likeness = measure([list(words_of(text)) for text in texts], captions)
            best = -np.sort(-likeness, axis=1)[:, : settings.captions]
            found.append(best.mean(1) if best.size else np.zeros(len(texts)))
        return found

    def order(
        self, vectors: ArrayLike, sentences: Sequence[Sequence[Text]], settings: ConsensusSettings | None = None
    ) -> list[Numbers]:
        """For each photo the places of its sentences, the best first; equally good ones as they came."""
        return [_best_first(scores) for scores in self.scores(vectors, sentences, settings)]

    def saved(self) -> Saved:
        """What `save` writes."""
        return Saved(self.KIND, {"captions": self._captions}, {"vectors": self._vectors})

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        return cls(saved.arrays["vectors"], saved.settings["captions"])


def oracle_order(
    sentences: Sequence[Sequence[Text]], references: Sequence[Sequence[Text]], similarity: Similarity = "cider"
) -> list[Numbers]:
    """The order that the photos' own captions would give: what reranking could reach at best (the oracle of Table 8).

    Parameters
    ----------
    sentences
        For each photo the sentences to choose from.
    references
        For each photo its own captions.
    similarity
        bleu (BLEU-4 of the sentence, smoothed as `CaptionSimilarity.bleu`) or cider (CIDEr-D over these photos).

    Examples
    --------
    >>> sentences = [["a cat", "a dog runs"], ["two cats sleep", "a dog runs"]]
    >>> [each.tolist() for each in oracle_order(sentences, [["a dog runs fast"], ["the cats sleep"]])]
    [[1, 0], [0, 1]]
    """
    chosen = [[list(words_of(text)) for text in texts] for texts in sentences]
    own = [[list(words_of(text)) for text in texts] for texts in references]
    values = _own_cider(chosen, own) if similarity == "cider" else list(map(_own_bleu, chosen, own))
    return [_best_first(each) for each in values]


def _own_cider(sentences: Sequence[Sequence[Sequence[str]]], own: Sequence[Sequence[Sequence[str]]]) -> list[Floats]:
    like, ends = CaptionSimilarity(own), np.cumsum([len(texts) for texts in own])
    places = (np.arange(end - len(texts), end) for end, texts in zip(ends, own, strict=True))
    return [like.cider(texts, captions).mean(1) for texts, captions in zip(sentences, places, strict=True)]


def _own_bleu(sentences: Sequence[Sequence[str]], own: Sequence[Sequence[str]]) -> Floats:
    # Each sentence stands as a photo of its own.
    numbers = tuple(map(str, range(len(sentences))))
    statistics = bleu_statistics(CaptionSet(numbers, sentences, [own] * len(sentences)))
    statistics[:, 1:LONGEST] += 1
    statistics[:, LONGEST + 1 : 2 * LONGEST] += 1
    return bleu_from(statistics)[:, -1]


def _best_first(scores: Floats) -> Numbers:
    return np.argsort(-scores, kind="stable")


def _grams(words: Sequence[str], n: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[begin : begin + n]) for begin in range(len(words) - n + 1))


def _pieces(words: Sequence[str], n: int) -> Iterator[tuple[tuple[str, ...], int]]:
    """The n-grams of a sentence, each with how many of it came before."""
    before: Counter[tuple[str, ...]] = Counter()
    for gram in _grams(words, n):
        yield gram, before[gram]
        before[gram] += 1


def _grams_of_photos(captions: Sequence[Sequence[Sequence[str]]], n: int) -> Iterator[tuple[str, ...]]:
    """Each n-gram once for each photo that has it in a caption."""
    for texts in captions:
        yield from {gram for words in texts for gram in _grams(words, n)}


def _rows(columns: Sequence[Sequence[int]], values: Sequence[Sequence[float]], width: int) -> Any:
    """A sparse matrix from the columns and values of each row."""
    starts = np.concatenate([[0], np.cumsum([len(row) for row in columns])]).astype(np.int64)
    flat = np.array([column for row in columns for column in row], dtype=np.int64)
    numbers = np.array([value for row in values for value in row], dtype=np.float64)
    return sparse.csr_array((numbers, flat, starts), shape=(len(columns), width))


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(length, np.finfo(np.float32).tiny))
