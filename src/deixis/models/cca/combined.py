"""Scores of photos and sentences combined with those of their regions and phrases.

Eq. 1 and 2 of Flickr30k Entities and eq. 8 of the two-branch paper are the same sum with different settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.data.records import Caption
from deixis.errors import DeixisError
from deixis.evaluation.score_matrix import ScoreBlocks
from deixis.language.sentence import find_mentions
from deixis.models.base import Scorer

PARTS_AT_A_TIME = 4096
"""Regions and phrases that are encoded or compared at once: 64 MB of scores."""


@dataclass(frozen=True)
class CombinedSettings:
    """Weights of the combined distance. `ENTITIES` and `TWO_BRANCH` are those of the papers.

    Attributes
    ----------
    whole_weight
        Weight of the distance between photo and sentence; the rest is the weight of their parts.
    exponent
        γ of eq. 1: the sum of the distances of the L phrases to their nearest regions is divided by L^γ.
    squared
        Whether distances are squared.
    """

    whole_weight: float
    exponent: float
    squared: bool


ENTITIES = CombinedSettings(whole_weight=0.7, exponent=1.5, squared=True)
TWO_BRANCH = CombinedSettings(whole_weight=0.8, exponent=1.0, squared=False)


@dataclass(frozen=True)
class WithParts:
    """Photos with their regions, or sentences with their phrases.

    Attributes
    ----------
    whole
        One row per photo or sentence.
    parts
        One row per region or phrase, in the order of their photos or sentences.
    counts
        Number of parts of each photo or sentence.
    which
        For phrases that sentences share: the rows of `parts`, which then holds each phrase once, for the phrases of
        each sentence in turn. None where `parts` is in the order of photos or sentences.
    """

    whole: Any
    parts: Any
    counts: NDArray[np.int64]
    which: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        parts = len(self.parts if self.which is None else self.which)
        if len(self.counts) != len(self.whole) or int(np.sum(self.counts)) != parts:
            raise DeixisError(
                f"Combined: {len(self.whole):,} wholes and {parts:,} parts, but counts for "
                f"{len(self.counts):,} wholes that add up to {int(np.sum(self.counts)):,}"
            )
        if self.which is not None and not np.all((self.which >= 0) & (self.which < len(self.parts))):
            raise DeixisError(f"Combined: a part is none of the {len(self.parts):,} given")

    def run(self, begin: int, end: int) -> WithParts:
        """Return a contiguous range of them, with their parts.

        Examples
        --------
        >>> WithParts(np.eye(3), np.eye(6), np.array([1, 2, 3])).run(1, 3).parts.shape
        (5, 6)
        """
        first, last = (int(self.counts[:index].sum()) for index in (begin, end))
        if self.which is not None:
            return WithParts(self.whole[begin:end], self.parts, self.counts[begin:end], self.which[first:last])
        return WithParts(self.whole[begin:end], self.parts[first:last], self.counts[begin:end])


class Combined(Scorer):
    """Scores photos by a model of photos and sentences and a model of regions and phrases.

    Parameters
    ----------
    whole_model
        For photos and sentences.
    part_model
        For regions and phrases; may be the same. The scores of both must be cosines of unit vectors, whose squared
        distance is 2 − 2 · score.
    settings
        Weight, exponent, and whether distances are squared.

    Examples
    --------
    >>> from deixis.models import CCA
    >>> rng = np.random.default_rng(0)
    >>> photos, sentences = rng.normal(size=(2, 50, 4)).astype(np.float32)
    >>> cca = CCA(embedding_dim=2).fit(photos, sentences)
    >>> combined = Combined(cca, cca, ENTITIES)
    >>> visual = combined.prepare_visual(WithParts(photos[:2], photos[:6], np.array([3, 3])))
    >>> text = combined.prepare_text(WithParts(sentences[:3], sentences[:5], np.array([2, 1, 2])))
    >>> combined.scores(visual, text).shape
    (2, 3)
    """

    def __init__(self, whole_model: Scorer, part_model: Scorer, settings: CombinedSettings = ENTITIES) -> None:
        self.whole_model = whole_model
        self.part_model = part_model
        self.settings = settings

    def prepare_visual(self, features: WithParts) -> WithParts:
        """Encode photos and their regions, each by its own model."""
        if not np.all(features.counts > 0):
            raise DeixisError(f"Combined: photo {int(np.argmin(features.counts))} has no regions")
        if features.which is not None:
            raise DeixisError("Combined: photos cannot share regions")
        whole = _encode(self.whole_model.prepare_visual, features.whole)
        return WithParts(whole, _encode(self.part_model.prepare_visual, features.parts), features.counts)

    def prepare_text(self, features: WithParts) -> WithParts:
        """Encode sentences and their phrases, each by its own model. A sentence may have no phrases."""
        whole = _encode(self.whole_model.prepare_text, features.whole)
        parts = _encode(self.part_model.prepare_text, features.parts)
        return WithParts(whole, parts, features.counts, features.which)

    def scores(self, visual: WithParts, text: WithParts) -> Floats:
        """Return the negative distances of photos (rows) and sentences (columns): eq. 2, or eq. 8.

        For a sentence without phrases, the distance of photo and sentence replaces that of their parts.
        """
        wholes = self._distances(self.whole_model.scores(visual.whole, text.whole))
        parts = np.where(text.counts > 0, self.region_phrase_distances(visual, text), wholes)
        weight = self.settings.whole_weight
        return np.asarray(-(weight * wholes + (1 - weight) * parts), dtype=np.float32)

    def region_phrase_distances(self, visual: WithParts, text: WithParts) -> Floats:
        """Eq. 1 for every photo and every sentence; 0 for a sentence without phrases."""
        found = np.zeros((len(visual.counts), len(text.counts)), dtype=np.float32)
        phrased = np.flatnonzero(text.counts)
        counts = text.counts[phrased]
        for photos, regions in _groups(visual.counts):
            nearest = self._nearest(visual.parts[regions], _starts(visual.counts[photos]), text.parts)
            for sentences, phrases in _groups(counts):
                each = nearest[:, phrases if text.which is None else text.which[phrases]]
                totals = np.add.reduceat(each, _starts(counts[sentences]), axis=1)
                scale = counts[sentences].astype(np.float32) ** -self.settings.exponent
                found[photos, phrased[sentences]] = totals * scale
        return found

    def _nearest(self, regions: Any, starts: NDArray[np.int64], phrases: Any) -> Floats:
        """Return (photos, phrases): the distance of each phrase to the nearest region of each photo."""
        nearest = np.empty((len(starts), len(phrases)), dtype=np.float32)
        for begin in range(0, len(phrases), PARTS_AT_A_TIME):
            some = slice(begin, begin + PARTS_AT_A_TIME)
            best = np.maximum.reduceat(self.part_model.scores(regions, phrases[some]), starts)
            nearest[:, some] = self._distances(best)
        return nearest

    def _distances(self, cosines: Floats) -> Floats:
        """Return the distances of unit vectors from their cosines."""
        if cosines.size and not np.abs(cosines).max() < 1.001:
            raise DeixisError(f"Combined: a score of {np.abs(cosines).max():.4g} is not a cosine")
        squares = np.maximum(2 - 2 * cosines, np.float32(0))
        distances: Floats = squares if self.settings.squared else np.sqrt(squares)
        return distances


def _encode(prepare: Callable[[Any], Any], features: Any) -> Any:
    """Encode features in blocks: they may be memory-mapped and larger than memory."""
    begins = range(0, max(1, len(features)), PARTS_AT_A_TIME)
    return np.concatenate([prepare(features[begin : begin + PARTS_AT_A_TIME]) for begin in begins])


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first part of each."""
    starts: NDArray[np.int64] = np.cumsum(counts) - counts
    return starts


def _groups(counts: NDArray[np.int64]) -> Iterator[tuple[slice, slice]]:
    """Yield ranges of items with a limited number of parts: the items, and their parts."""
    ends = np.cumsum(counts)
    item = part = 0
    while item < len(counts):
        after = max(item + 1, int(np.searchsorted(ends, part + PARTS_AT_A_TIME, side="right")))
        yield slice(item, after), slice(part, int(ends[after - 1]))
        item, part = after, int(ends[after - 1])


CELLS_OF_A_BLOCK = 1 << 22
"""Scores of photos and sentences that are computed at once."""


@dataclass(frozen=True)
class SharedPhrases:
    """The phrases of sentences, each distinct phrase once.

    Attributes
    ----------
    texts
        The distinct phrases.
    which
        For each sentence in turn, the positions of its phrases in `texts`.
    counts
        Number of phrases of each sentence; may be 0.

    Examples
    --------
    >>> found = SharedPhrases.of([["a dog", "a cat"], [], ["a dog"]])
    >>> found.texts, found.which.tolist(), found.counts.tolist()
    (('a dog', 'a cat'), [0, 1, 0], [2, 0, 1])
    """

    texts: tuple[str, ...]
    which: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, phrases: Iterable[Sequence[str]]) -> SharedPhrases:
        """Collect the phrases of each sentence."""
        number: dict[str, int] = {}
        which: list[int] = []
        counts: list[int] = []
        for own in phrases:
            which += [number.setdefault(phrase, len(number)) for phrase in own]
            counts.append(len(own))
        return cls(tuple(number), np.array(which, dtype=np.int64), np.array(counts, dtype=np.int64))


def mentioned_phrases(captions: Iterable[Caption]) -> SharedPhrases:
    """Return the phrases that are annotated in captions, also those that are not visual.

    Examples
    --------
    >>> from deixis.data.records import Mention
    >>> caption = Caption.from_text("A dog sees a cat.", (Mention(0, 5, "1"), Mention(11, 16, "2")))
    >>> mentioned_phrases([caption]).texts
    ('A dog', 'a cat')
    """
    return SharedPhrases.of([caption.phrase(mention) for mention in caption.mentions] for caption in captions)


def found_phrases(sentences: Iterable[str]) -> SharedPhrases:
    """Return the noun phrases of English sentences that name something visible.

    Examples
    --------
    >>> found_phrases(["A dog sees a cat."]).texts
    ('A dog', 'a cat')
    """
    return SharedPhrases.of([phrase.text for phrase in find_mentions(sentence)] for sentence in sentences)


def photos_with_regions(
    wholes: Floats, regions: Sequence[Floats], *, max_proposals: int = 19, whole_regions: Floats | None = None
) -> WithParts:
    """Return the features of photos with those of their best proposals; the whole photo may be one more region.

    Each photo has at most `max_proposals`: 19 besides the whole photo, or 100, in Flickr30k Entities. `whole_regions`
    are the features of whole photos as regions.

    Examples
    --------
    >>> wholes = np.zeros((2, 3), dtype=np.float32)
    >>> proposals = [np.ones((40, 3), dtype=np.float32), np.ones((7, 3), dtype=np.float32)]
    >>> photos_with_regions(wholes, proposals, whole_regions=wholes).counts.tolist()
    [20, 8]
    """
    if len(regions) != len(wholes) or (whole_regions is not None and len(whole_regions) != len(wholes)):
        raise DeixisError(f"{len(wholes):,} photos, but regions of {len(regions):,}")
    own = [rows[:max_proposals] for rows in regions]
    if whole_regions is not None:
        own = [np.concatenate([rows, whole_regions[photo][None]]) for photo, rows in enumerate(own)]
    return WithParts(wholes, np.concatenate(own), np.array([len(rows) for rows in own], dtype=np.int64))


def combined_scores(model: Combined, photos: WithParts, sentences: WithParts) -> ScoreBlocks:
    """Return the scores of photos (rows) and sentences (columns), computed on demand; higher is better.

    Sentences have `which` and `counts` of `SharedPhrases`.

    Examples
    --------
    >>> from deixis.models import CCA
    >>> rng = np.random.default_rng(0)
    >>> visual, text = rng.normal(size=(2, 50, 4)).astype(np.float32)
    >>> cca = CCA(embedding_dim=2).fit(visual, text)
    >>> phrases = SharedPhrases.of([["a dog", "a cat"], [], ["a dog"]])
    >>> photos = photos_with_regions(visual[:5], [visual] * 5, whole_regions=visual[:5])
    >>> sentences = WithParts(text[:3], text[:2], phrases.counts, phrases.which)
    >>> combined_scores(Combined(cca, cca), photos, sentences).rows(0, 5).shape
    (5, 3)
    """
    visual, text = model.prepare_visual(photos), model.prepare_text(sentences)
    shape = len(visual.counts), len(text.counts)
    at_once = max(1, CELLS_OF_A_BLOCK // max(1, shape[1]))
    return ScoreBlocks(shape, lambda begin, end: model.scores(visual.run(begin, end), text), rows_at_once=at_once)
