"""Whether a phrase is in a photo at all: photos ranked for each phrase by their best regions.

What "not in this photo" needs. A phrase counts as present where a caption mentions it. It may be true of other photos
too, whose captions do not say it. These count as wrong, so that the figures are lower bounds for any model that ranks
them above photos of which the phrase is not true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.evaluation.drawn_precision import PhotoRanking, around, mean_precision
from deixis.evaluation.intervals import Counts, Interval, Statistic, bootstrap_all
from deixis.evaluation.localization_items import distinct_phrase
from deixis.evaluation.phrase_regions import Regions
from deixis.evaluation.ranked_boxes import ApRule, Flags
from deixis.evaluation.scores import Scores, as_blocks, blocks_of, check_finite, comparable

Values = npt.NDArray[np.float64]

TIES = "of equal scores the wrong photo goes first for average precision, and is half below for the ROC areas"

_ROUNDS_AT_ONCE = 100


@dataclass(frozen=True)
class PresenceResult:
    """How well the scores of phrases and photos tell where a phrase is; all scores in percent.

    Attributes
    ----------
    phrases, photos, present
        Phrases that are in at least one photo and not in all, photos, and pairs of a phrase and a photo that it is in.
    ap
        Mean over phrases of the average precision with which the phrase ranks the photos.
    roc
        Mean over phrases of the area under the ROC curve: how often a photo with the phrase is above one without.
    pooled_roc
        The area for all pairs of a phrase and a photo together: how often a pair that belongs together is above one
        that does not, whatever their phrases. Only this shows whether one threshold can serve all phrases.
    share
        Mean over phrases of the share of photos that the phrase is in: about the AP of chance. Chance's areas are 50.
    interval
        Of each score by name: what 95 % of drawings of the photos, with replacement, would give; that of `ap` is set
        around it (see `deixis.evaluation.drawn_precision.around`).
    """

    phrases: int
    photos: int
    present: int
    ap: float
    roc: float
    pooled_roc: float
    share: float
    interval: Mapping[str, Interval]
    ties: str = TIES

    def as_json(self) -> dict[str, object]:
        """Plain values for JSON; intervals as [low, high]."""
        return {**vars(self), "interval": {name: [found.low, found.high] for name, found in self.interval.items()}}


def best_region_scores(scores: Scores, regions: Regions) -> Values:
    """(phrases, photos) the score of each photo's best region, −inf for a photo without regions.

    Parameters
    ----------
    scores
        Phrases × regions, as for `phrase_precision`.
    regions
        Of all photos.

    Examples
    --------
    >>> regions = Regions.of({"7": [[0, 0, 40, 30], [0, 0, 100, 80]], "8": [[0, 0, 90, 90]]})
    >>> best_region_scores([[0.1, 0.9, 0.4]], regions).tolist()
    [[0.9, 0.4]]
    """
    blocks = as_blocks(scores)
    if blocks.shape[1] != len(regions.boxes):
        raise DeixisError(f"scores: columns for {len(regions.boxes):,} regions are needed, not {blocks.shape[1]:,}")
    best = np.full((blocks.shape[0], len(regions.photos)), -np.inf)
    seen = regions.counts > 0
    for begin, block in blocks_of(blocks):
        check_finite(block, begin, "scores")
        best[begin : begin + len(block), seen] = np.maximum.reduceat(comparable(block), regions.starts[seen], axis=1)
    return best


def said_in_photos(phrases: Iterable[str], photos: Sequence[Photo]) -> Flags:
    """(phrases, photos) whether one of a photo's captions mentions a phrase, with a box or without.

    Parameters
    ----------
    phrases
        Distinct ones, as `distinct_phrases` gives them.
    photos
        Captions that are about another photo are passed over.

    Examples
    --------
    >>> from deixis.data.records import Caption, Mention
    >>> photo = Photo("7", (Caption.from_text("A dog runs.", (Mention(0, 5, "1", ("animals",)),)),))
    >>> said_in_photos(["dog", "cat"], [photo]).tolist()
    [[True], [False]]
    """
    row = {phrase: place for place, phrase in enumerate(phrases)}
    said = np.zeros((len(row), len(photos)), dtype=np.bool_)
    for column, photo in enumerate(photos):
        for caption in photo.captions:
            for mention in caption.mentions if caption.related else ():
                place = row.get(distinct_phrase(caption.phrase(mention)))
                if place is not None:
                    said[place, column] = True
    return said


def presence(
    scores: npt.ArrayLike, said: npt.ArrayLike, *, ap_rule: ApRule = "area", rounds: int = 1000, seed: int = 0
) -> PresenceResult:
    """Score how well phrases rank photos.

    Parameters
    ----------
    scores
        (phrases, photos), higher is better: from `best_region_scores`, or of whole photos.
    said
        (phrases, photos) whether the phrase is in the photo, from `said_in_photos`. Phrases in none or in all are left
        out.
    ap_rule, rounds, seed
        As for `localization`.

    Examples
    --------
    Each phrase knows its photo, but the second phrase scores everything higher: no one threshold fits both.

    >>> found = presence([[0.2, 0.1], [0.8, 0.9]], [[True, False], [False, True]])
    >>> found.ap, found.roc, found.pooled_roc
    (100.0, 100.0, 75.0)
    """
    values, right = np.asarray(scores, dtype=np.float64), np.asarray(said, dtype=np.bool_)
    if values.ndim != 2 or values.shape != right.shape:
        raise DeixisError(f"presence: scores are {values.shape}, but what is said is {right.shape}")
    if np.isnan(values).any():
        raise DeixisError("presence: a score is no number (nan)")
    asked = right.any(axis=1) & ~right.all(axis=1)
    if not asked.any():
        raise DeixisError("presence: no phrase is in some photos and not in others")
    values, right = values[asked], right[asked]
    photos = right.shape[1]
    statistics = {
        "ap": mean_precision([_ranking(*row) for row in zip(values, right, strict=True)], photos, ap_rule),
        "roc": _mean_area(values, right),
        "pooled_roc": _pooled_area(values, right),
    }
    once = np.ones((1, photos))
    found = {name: float(statistic(once)[0]) for name, statistic in statistics.items()}
    interval = bootstrap_all(statistics, photos, rounds=rounds, seed=seed)
    return PresenceResult(
        phrases=len(right),
        photos=photos,
        present=int(np.count_nonzero(right)),
        ap=found["ap"],
        roc=found["roc"],
        pooled_roc=found["pooled_roc"],
        share=float(100 * right.mean()),
        interval={**interval, "ap": around(found["ap"], interval["ap"])},
    )


def _ranking(scores: Values, right: Flags) -> PhotoRanking:
    """Photos in the order of their scores, down to the last right one."""
    order = np.lexsort((right, -scores))
    order = order[: int(np.flatnonzero(right[order])[-1]) + 1]
    return PhotoRanking(right[order], order, np.flatnonzero(right))


def _mean_area(scores: Values, right: Flags) -> Statistic:
    """The mean of the phrases' ROC areas; phrases for which a drawing holds only one kind of photo are left out."""
    phrase, photo = np.nonzero(right)
    below = np.empty((len(phrase), right.shape[1]), dtype=np.float32)
    for row, (number, mine) in enumerate(zip(phrase, photo, strict=True)):
        own = scores[number]
        below[row] = np.add(own < own[mine], own <= own[mine], dtype=np.float32) * ~right[number]
    starts = np.flatnonzero(np.diff(phrase, prepend=-1))
    present = right.astype(np.float32)

    def of_drawings(drawn: npt.NDArray[Any]) -> Values:
        wins = np.add.reduceat(drawn[photo] * (below @ drawn / 2), starts, axis=0)
        positives = present @ drawn
        pairs = positives * (drawn.sum(axis=0) - positives)
        areas = np.divide(wins, pairs, out=np.zeros(wins.shape), where=pairs > 0, dtype=np.float64)
        return np.asarray(100 * areas.sum(axis=0) / np.maximum((pairs > 0).sum(axis=0), 1))

    return lambda counts: _in_parts(of_drawings, counts.astype(np.float32))


def _pooled_area(scores: Values, right: Flags) -> Statistic:
    """The ROC area of all pairs of a phrase and a photo."""
    phrase, photo = np.nonzero(right)
    order = np.argsort(scores[phrase, photo], kind="stable")  # neighbours are looked up quickest one after the other
    photo, own = photo[order], scores[phrase, photo][order]
    below = np.empty((len(own), right.shape[1]))
    for column in range(right.shape[1]):
        wrong = np.sort(scores[~right[:, column], column])
        below[:, column] = (np.searchsorted(wrong, own, "left") + np.searchsorted(wrong, own, "right")) / 2
    wrong_pairs = (~right).sum(axis=0)

    def of_drawings(drawn: Counts) -> Values:
        wins = (drawn[photo] * (below @ drawn)).sum(axis=0)
        pairs = drawn[photo].sum(axis=0) * (wrong_pairs @ drawn)
        return np.asarray(100 * np.divide(wins, pairs, out=np.zeros_like(wins), where=pairs > 0))

    return lambda counts: _in_parts(of_drawings, counts)


def _in_parts(of_drawings: Callable[[npt.NDArray[Any]], Values], counts: npt.NDArray[Any]) -> Values:
    """The values of drawings (rounds, photos), a few at a time so that memory stays flat."""
    parts = range(0, len(counts), _ROUNDS_AT_ONCE)
    return np.concatenate([of_drawings(np.ascontiguousarray(counts[at : at + _ROUNDS_AT_ONCE].T)) for at in parts])
