"""Whether a photo shows a phrase at all: photos are ranked for each phrase by their best regions.

A phrase counts as present in a photo if a caption mentions it. Other photos may show it without a caption saying so;
they count as wrong, so that the scores are lower bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from deixis.arrays import AnyArray, BoolArray, FloatArray
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.evaluation.average_precision import PhotoRanking, mean_precision
from deixis.evaluation.intervals import Counts, Result, Statistic, in_batches
from deixis.evaluation.phrase_precision import CandidateBoxes
from deixis.evaluation.score_matrix import Scores, as_blocks, as_comparable, check_finite, iterate_blocks
from deixis.tokens import distinct_phrase

TIES = "of equal scores the wrong photo goes first for average precision, and is half below for the ROC areas"


def best_region_scores(scores: Scores, regions: CandidateBoxes) -> FloatArray:
    """Return (phrases, photos) the score of the best region of each photo, −inf for a photo without regions."""
    blocks = as_blocks(scores)
    if blocks.shape[1] != len(regions.boxes):
        raise DeixisError(f"scores: {blocks.shape[1]:,} columns for {len(regions.boxes):,} regions")
    best = np.full((blocks.shape[0], len(regions.photos)), -np.inf)
    nonempty = regions.counts > 0
    for begin, block in iterate_blocks(blocks):
        check_finite(block, begin, "scores")
        best[begin : begin + len(block), nonempty] = np.maximum.reduceat(
            as_comparable(block), regions.starts[nonempty], axis=1
        )
    return best


def mentioned_in_photos(phrases: Iterable[str], photos: Sequence[Photo]) -> BoolArray:
    """Return (phrases, photos) whether a caption of the photo mentions the phrase, with or without a box."""
    row = {phrase: index for index, phrase in enumerate(phrases)}
    mentioned = np.zeros((len(row), len(photos)), dtype=np.bool_)
    for column, photo in enumerate(photos):
        for caption in photo.captions:
            for mention in caption.mentions if caption.related else ():
                index = row.get(distinct_phrase(caption.phrase(mention)))
                if index is not None:
                    mentioned[index, column] = True
    return mentioned


def score_presence(scores: npt.ArrayLike, mentioned: npt.ArrayLike, *, rounds: int = 1000) -> Result:
    """Score how well scores (phrases, photos) separate photos that show a phrase from others, in percent.

    Phrases that are in no photo or in all photos are left out. The result has `ap`, the mean over phrases of the
    average precision of the ranking of photos; `roc`, the mean over phrases of the area under the ROC curve, the
    probability that a photo with the phrase scores higher than one without; `pooled_roc`, the ROC area of all (phrase,
    photo) pairs together, which shows whether one threshold can serve all phrases; and `share`, the mean over phrases
    of the percentage of photos with the phrase, about the AP of chance. The ROC areas of chance are 50. `present` is
    the number of present (phrase, photo) pairs. The interval of `ap` is that of `intervals.centre_interval`.
    """
    values, present = np.asarray(scores, dtype=np.float64), np.asarray(mentioned, dtype=np.bool_)
    if values.ndim != 2 or values.shape != present.shape:
        raise DeixisError(f"presence: scores have shape {values.shape}, but mentioned has {present.shape}")
    if np.isnan(values).any():
        raise DeixisError("presence: a score is nan")
    scored = present.any(axis=1) & ~present.all(axis=1)
    if not scored.any():
        raise DeixisError("presence: no phrase is present in some photos and absent in others")
    values, present = values[scored], present[scored]
    photos = present.shape[1]
    statistics = {
        "ap": mean_precision([_ranking(*row) for row in zip(values, present, strict=True)], photos),
        "roc": _mean_area(values, present),
        "pooled_roc": _pooled_area(values, present),
    }
    about = {"phrases": len(present), "photos": photos, "present": int(np.count_nonzero(present)), "ties": TIES}
    share = {"share": float(100 * present.mean())}
    return Result.of(about, statistics, photos, rounds=rounds, centred=("ap",), others=share)


def _ranking(scores: FloatArray, right: BoolArray) -> PhotoRanking:
    """Photos sorted by score, down to the last correct one."""
    order = np.lexsort((right, -scores))
    order = order[: int(np.flatnonzero(right[order])[-1]) + 1]
    return PhotoRanking(right[order], order, np.flatnonzero(right))


def _mean_area(scores: FloatArray, right: BoolArray) -> Statistic:
    """The mean ROC area; a sample leaves out phrases that are present in all or none of its photos."""
    phrase, photo = np.nonzero(right)
    below = np.empty((len(phrase), right.shape[1]), dtype=np.float32)
    for row, (number, mine) in enumerate(zip(phrase, photo, strict=True)):
        own = scores[number]
        below[row] = np.add(own < own[mine], own <= own[mine], dtype=np.float32) * ~right[number]
    starts = np.flatnonzero(np.diff(phrase, prepend=-1))
    present = right.astype(np.float32)

    def of_samples(drawn: AnyArray) -> FloatArray:
        wins = np.add.reduceat(drawn[photo] * (below @ drawn / 2), starts, axis=0)
        positives = present @ drawn
        pairs = positives * (drawn.sum(axis=0) - positives)
        areas = np.divide(wins, pairs, out=np.zeros(wins.shape), where=pairs > 0, dtype=np.float64)
        return np.asarray(100 * areas.sum(axis=0) / np.maximum((pairs > 0).sum(axis=0), 1))

    return lambda counts: in_batches(of_samples, counts.astype(np.float32))


def _pooled_area(scores: FloatArray, right: BoolArray) -> Statistic:
    """The ROC area of all (phrase, photo) pairs."""
    phrase, photo = np.nonzero(right)
    order = np.argsort(scores[phrase, photo], kind="stable")  # sorted lookups are fastest
    photo, own = photo[order], scores[phrase, photo][order]
    below = np.empty((len(own), right.shape[1]))
    for column in range(right.shape[1]):
        wrong = np.sort(scores[~right[:, column], column])
        below[:, column] = (np.searchsorted(wrong, own, "left") + np.searchsorted(wrong, own, "right")) / 2
    wrong_pairs = (~right).sum(axis=0)

    def of_samples(drawn: Counts) -> FloatArray:
        wins = (drawn[photo] * (below @ drawn)).sum(axis=0)
        pairs = drawn[photo].sum(axis=0) * (wrong_pairs @ drawn)
        return np.asarray(100 * np.divide(wins, pairs, out=np.zeros_like(wins), where=pairs > 0))

    return lambda counts: in_batches(of_samples, counts)
