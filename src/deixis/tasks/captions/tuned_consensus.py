"""Which k and m of consensus reranking serve best: tried on photos whose own captions are known (m-RNN, §8.2).

What the model wrote of these photos and what people did comes in; settings go out. Whoever scores the same photos
afterwards flatters himself, unless each half is reranked by what was best on the other (`crossed_order`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis.evaluation.captions.bleu import bleu_from, bleu_statistics
from deixis.evaluation.captions.coded import CaptionSet
from deixis.language.features.base import Text, words_of
from deixis.tasks.captions.consensus import Consensus, ConsensusSettings, Similarity, oracle_scores
from deixis.tasks.captions.similarity import Floats, Numbers

NEIGHBOURS = (5, 10, 20, 40, 60, 90, 120, 200)
BEST = (5, 10, 25, 50, 75, 100, 125, 175, 250, 400)
"""The k and m that are tried, the paper's among them."""


@dataclass(frozen=True)
class Written:
    """What a model wrote of photos, and what people did.

    Attributes
    ----------
    vectors
        By which the neighbours of each photo are found.
    sentences
        For each photo the sentences to choose from.
    references
        For each photo its own captions.
    """

    vectors: ArrayLike
    sentences: Sequence[Sequence[Text]]
    references: Sequence[Sequence[Text]]


def tuned(consensus: Consensus, written: Written, similarity: Similarity) -> ConsensusSettings:
    """The k and m that choose best: by BLEU-4 of all photos for bleu, by CIDEr-D for cider.

    Examples
    --------
    >>> like = Consensus(np.eye(2), [["a dog runs", "a dog in the snow"], ["two cats sleep"]])
    >>> written = Written(np.eye(2), [["a cat", "a dog"], ["a dog", "a cat"]], [["a dog"], ["a cat"]])
    >>> found = tuned(like, written, "bleu")
    >>> found.neighbours, found.best
    (5, 5)
    """
    trial = _Trial.of(consensus, written, similarity)
    return trial.settings[trial.best_on(np.arange(len(written.sentences)))]


def crossed_order(
    consensus: Consensus, written: Written, similarity: Similarity
) -> tuple[list[Numbers], tuple[ConsensusSettings, ConsensusSettings]]:
    """Rerank each half of the photos, every other one, by the k and m that choose best on the other half.

    Returns
    -------
    order, settings
        For each photo the places of its sentences, the best first; and what was best on the second half, used for the
        first, and the other way round.
    """
    trial, photos = _Trial.of(consensus, written, similarity), np.arange(len(written.sentences))
    halves = photos[::2], photos[1::2]
    chosen = [trial.settings[trial.best_on(others if len(others) else own)] for own, others in (halves, halves[::-1])]
    vectors = np.asarray(written.vectors)
    order: list[Numbers] = [np.zeros(0, dtype=np.int64)] * len(photos)
    for half, settings in zip(halves, chosen, strict=True):
        found = consensus.order(vectors[half], [written.sentences[photo] for photo in half], settings)
        for photo, places in zip(half.tolist(), found, strict=True):
            order[photo] = places
    return order, (chosen[0], chosen[1])


@dataclass(frozen=True)
class _Trial:
    """What every k and m would choose, and what that is worth.

    Attributes
    ----------
    settings
        What was tried.
    gained
        (photos, settings, …): what the chosen sentence adds to the score.
    """

    settings: list[ConsensusSettings]
    gained: Floats

    @classmethod
    def of(cls, consensus: Consensus, written: Written, similarity: Similarity) -> _Trial:
        """Try all of them; the captions of the most neighbours are compared once and serve all."""
        settings = [ConsensusSettings(similarity, k, m) for k in NEIGHBOURS for m in BEST]
        if similarity == "cider":
            worth = oracle_scores(written.sentences, written.references, "cider")
        else:
            worth = _bleu(written)
        likenesses = consensus.likenesses(written.vectors, written.sentences, similarity, max(NEIGHBOURS))
        gained = [added[_choices(*found)] for added, found in zip(worth, likenesses, strict=True)]
        return cls(settings, np.stack(gained))

    def best_on(self, photos: NDArray[np.int64]) -> int:
        """The settings that score best on some photos; of equals the first."""
        total = self.gained[photos].sum(0)
        return int(np.argmax(total if total.ndim == 1 else bleu_from(total)[:, -1]))


def _choices(ends: Numbers, likeness: Floats) -> Numbers:
    """The sentence that each k and m would put first."""
    chosen = []
    for k in NEIGHBOURS:
        captions = likeness[:, : int(ends[min(k, len(ends)) - 1])]
        sums = np.cumsum(-np.sort(-captions, axis=1), axis=1)
        for m in BEST:
            count = min(m, captions.shape[1])
            chosen.append(int(np.argmax(sums[:, count - 1])) if count else 0)
    return np.array(chosen)


def _bleu(written: Written) -> list[Floats]:
    """For each photo what each of its sentences adds to corpus BLEU."""
    counts = [len(texts) for texts in written.sentences]
    sentences = [list(words_of(text)) for texts in written.sentences for text in texts]
    own = [[list(words_of(text)) for text in texts] for texts in written.references]
    # Each sentence stands as a photo of its own.
    references = [texts for texts, count in zip(own, counts, strict=True) for _ in range(count)]
    captions = CaptionSet(tuple(map(str, range(len(sentences)))), sentences, references)
    return np.split(bleu_statistics(captions), np.cumsum(counts)[:-1])
