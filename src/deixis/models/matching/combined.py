"""Scores of photos and sentences combined with those of their regions and phrases.

Eq. 1 and 2 of Flickr30k Entities and eq. 8 of the two-branch paper are the same sum with different settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.errors import DeixisError
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
PARTS_ALONE = CombinedSettings(whole_weight=0.0, exponent=1.5, squared=True)
"""Eq. 1 by itself, whose performance the Entities paper calls very poor."""

TWO_BRANCH = CombinedSettings(whole_weight=0.8, exponent=1.0, squared=False)


@dataclass(frozen=True)
class WithParts:
    """Photos with their regions, or sentences with their phrases."""

    whole: Any
    """One row per photo or sentence."""
    parts: Any
    """One row per region or phrase, in the order of their photos or sentences."""
    counts: NDArray[np.int64]
    """Number of parts of each photo or sentence."""
    which: NDArray[np.int64] | None = None
    """If sentences share phrases: the rows of `parts`, which then holds each phrase once, of each sentence in turn."""

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
        """Return a contiguous range of them, with their parts."""
        first, last = (int(self.counts[:index].sum()) for index in (begin, end))
        if self.which is not None:
            return WithParts(self.whole[begin:end], self.parts, self.counts[begin:end], self.which[first:last])
        return WithParts(self.whole[begin:end], self.parts[first:last], self.counts[begin:end])


class Combined(Scorer):
    """Scores photos by a model of photos and sentences and a model of regions and phrases.

    The scores of both must be cosines of unit vectors, whose squared distance is 2 − 2 · score.

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
        return squares if self.settings.squared else np.sqrt(squares)


def _encode(prepare: Callable[[Any], Any], features: Any) -> Any:
    """Encode features in blocks: they may be memory-mapped and larger than memory."""
    begins = range(0, max(1, len(features)), PARTS_AT_A_TIME)
    return np.concatenate([prepare(features[begin : begin + PARTS_AT_A_TIME]) for begin in begins])


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.cumsum(counts) - counts


def _groups(counts: NDArray[np.int64]) -> Iterator[tuple[slice, slice]]:
    """Yield ranges of items with a limited number of parts: the items, and their parts."""
    ends = np.cumsum(counts)
    item = part = 0
    while item < len(counts):
        after = max(item + 1, int(np.searchsorted(ends, part + PARTS_AT_A_TIME, side="right")))
        yield slice(item, after), slice(part, int(ends[after - 1]))
        item, part = after, int(ends[after - 1])
