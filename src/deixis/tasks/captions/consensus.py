"""Consensus reranking (m-RNN, §8): of several sentences for a photo, the one that like photos' captions agree with.

Captions of training photos and vectors of these come in, once; then for each photo its sentences, in the order that
their scores give them. Neighbours come from what was given and from nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis.errors import DeixisError
from deixis.evaluation.captions.bleu import bleu_from, bleu_statistics
from deixis.evaluation.captions.coded import LONGEST, CaptionSet
from deixis.language.features.base import Text, words_of
from deixis.tasks.captions.similarity import CaptionSimilarity, Floats, Numbers

Similarity = Literal["bleu", "cider"]

BEST = {"bleu": 175, "cider": 125}
"""§8.2: how many of the most similar captions count, m."""

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


class Consensus:
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
        found = []
        for _, likeness in self.likenesses(vectors, sentences, settings.similarity, settings.neighbours):
            best = -np.sort(-likeness, axis=1)[:, : settings.captions]
            found.append(best.mean(1) if best.size else np.zeros(len(likeness)))
        return found

    def likenesses(
        self, vectors: ArrayLike, sentences: Sequence[Sequence[Text]], similarity: Similarity, neighbours: int
    ) -> Iterator[tuple[Numbers, Floats]]:
        """Compare the sentences of each photo with the captions of its neighbours.

        Yields
        ------
        ends, likeness
            For each neighbour, the nearest first, where its captions end; and sentences × captions.
        """
        nearest = self.neighbours(vectors, neighbours)
        if len(nearest) != len(sentences):
            raise DeixisError(f"consensus: {len(nearest)} photos, but sentences for {len(sentences)}")
        measure: Callable[[Sequence[Sequence[str]], Numbers], Floats] = getattr(self.similarity, similarity)
        for rows, texts in zip(nearest, sentences, strict=True):
            captions = np.concatenate([np.arange(self._starts[row], self._starts[row + 1]) for row in rows])
            ends = np.cumsum(self._starts[rows + 1] - self._starts[rows])
            yield ends, measure([list(words_of(text)) for text in texts], captions)

    def order(
        self, vectors: ArrayLike, sentences: Sequence[Sequence[Text]], settings: ConsensusSettings | None = None
    ) -> list[Numbers]:
        """For each photo the places of its sentences, the best first; equally good ones as they came."""
        return [best_first(scores) for scores in self.scores(vectors, sentences, settings)]


def oracle_scores(
    sentences: Sequence[Sequence[Text]], references: Sequence[Sequence[Text]], similarity: Similarity = "cider"
) -> list[Floats]:
    """How good sentences are by the photos' own captions: what reranking could reach at best (the oracle of Table 8).

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
    >>> [each.argmax().tolist() for each in oracle_scores(sentences, [["a dog runs fast"], ["the cats sleep"]])]
    [1, 0]
    """
    chosen = [[list(words_of(text)) for text in texts] for texts in sentences]
    own = [[list(words_of(text)) for text in texts] for texts in references]
    return _own_cider(chosen, own) if similarity == "cider" else list(map(_own_bleu, chosen, own))


def best_first(scores: Floats) -> Numbers:
    """The places of sentences by their scores; equally good ones as they came.

    Examples
    --------
    >>> best_first(np.array([0.1, 0.4, 0.1])).tolist()
    [1, 0, 2]
    """
    return np.argsort(-scores, kind="stable")


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


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(length, np.finfo(np.float32).tiny))
