"""Average precision when photos are drawn again and again, as the bootstrap does.

A photo that is drawn twice stands twice: each of its boxes is followed by a copy, and each of its mentions is to be
found twice. Drawing changes no score, so the one sorted ranking serves all drawings, and precision need only be known
where a mention is found: there it is highest. Copies of a find follow each other, and the precision after the last of
them is the best of theirs, so that the interpolated precision is the same for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from deixis.evaluation.intervals import Counts, Interval, Statistic
from deixis.evaluation.ranked_boxes import ApRule, Flags, Whole

Values = npt.NDArray[np.float64]

_ROUNDS_AT_ONCE = 100


@dataclass(frozen=True)
class PhotoRanking:
    """One ranking of boxes, the best first.

    Attributes
    ----------
    found
        (n,) whether a box finds a mention that none before it found.
    photo
        (n,) the photo of each box, as a number.
    mentions
        The photo of each mention that is to be found.
    """

    found: Flags
    photo: Whole
    mentions: Whole


@dataclass(frozen=True)
class Finds:
    """What average precision needs of a ranking that is too long to keep: where its mentions are found.

    Attributes
    ----------
    photo
        (finds,) the photo of each find, as a number, the best first.
    boxes
        (finds, photos) how many boxes of each photo stand after the find before, the find's own counted. As float32,
        which is exact for up to 16 million boxes and quick to multiply.
    mentions
        The photo of each mention that is to be found.
    """

    photo: Whole
    boxes: npt.NDArray[np.float32]
    mentions: Whole


def mean_precision(rankings: Sequence[PhotoRanking], photos: int, rule: ApRule = "area") -> Statistic:
    """The mean of the rankings' average precisions, in percent, as a statistic over photos.

    A ranking of whose mentions a drawing holds none is left out of that drawing's mean.

    Parameters
    ----------
    rankings
        What is averaged: those of distinct phrases, or of types.
    photos
        How many photos are drawn from.
    rule
        As for `deixis.evaluation.ranked_boxes.average_precision`.

    Examples
    --------
    Photo 1's box is wrong and stands first. Without photo 1 the ranking is perfect.

    >>> ranking = PhotoRanking(np.array([False, True]), photo=np.array([1, 0]), mentions=np.array([0]))
    >>> mean_precision([ranking], photos=2)(np.array([[1.0, 1], [2, 0], [1, 3]])).tolist()
    [50.0, 100.0, 25.0]
    """
    ordered = sorted(rankings, key=lambda ranking: int(np.count_nonzero(ranking.found)))
    return _mean(
        [int(np.count_nonzero(ranking.found)) for ranking in ordered],
        np.concatenate([ranking.photo[ranking.found] for ranking in ordered]),
        _boxes_of_finds(ordered, photos),
        _tallies([ranking.mentions for ranking in ordered], photos),
        rule,
    )


def mean_precision_of_finds(rankings: Sequence[Finds], photos: int, rule: ApRule = "area") -> Statistic:
    """As `mean_precision`, from the finds of each ranking.

    Examples
    --------
    >>> finds = Finds(np.array([0]), boxes=np.array([[1, 1]], dtype=np.float32), mentions=np.array([0]))
    >>> mean_precision_of_finds([finds], photos=2)(np.array([[1.0, 1], [2, 0], [1, 3]])).tolist()
    [50.0, 100.0, 25.0]
    """
    ordered = sorted(rankings, key=lambda ranking: len(ranking.photo))
    return _mean(
        [len(ranking.photo) for ranking in ordered],
        np.concatenate([ranking.photo for ranking in ordered]),
        np.concatenate([ranking.boxes for ranking in ordered]),
        _tallies([ranking.mentions for ranking in ordered], photos),
        rule,
    )


def around(score: float, drawn: Interval) -> Interval:
    """An interval of average precision as wide as that of the drawings, with the score in its middle.

    A find that is drawn twice counts twice where it stands, so that low precisions of rare phrases come out higher in
    drawings than they are, by a third and more: the drawings say how much a score varies, but not around what.

    Examples
    --------
    >>> around(3.0, Interval(3.5, 4.5))
    Interval(low=2.5, high=3.5, level=0.95)
    """
    half = (drawn.high - drawn.low) / 2
    return Interval(max(score - half, 0.0), min(score + half, 100.0), drawn.level)


def _mean(finds: Sequence[int], photo_of_find: Whole, boxes: Any, mentions: Any, rule: ApRule) -> Statistic:
    """The statistic, of rankings in the order of how many finds they have, which are end to end.

    `boxes` is (finds, photos) and `mentions` (rankings, photos); either may be sparse.
    """

    def of_drawings(drawn: Counts) -> Values:
        """(rounds,) from (photos, rounds)."""
        positives = mentions @ drawn
        copies, ranked = drawn[photo_of_find], np.asarray(boxes @ drawn.astype(boxes.dtype), dtype=np.float64)
        total = np.zeros(drawn.shape[1])
        ranking = find = 0
        for length, alike in Counter(finds).items():  # rankings with equally many finds go together
            here = slice(find, find + alike * length)
            if length:
                finds_drawn, between = (
                    each[here].reshape(alike, length, -1).swapaxes(0, 1) for each in (copies, ranked)
                )
                wanted = positives[ranking : ranking + alike]
                total += _precision(finds_drawn, between, wanted, rule).sum(axis=0)
            ranking, find = ranking + alike, here.stop
        return np.asarray(100 * total / np.maximum((positives > 0).sum(axis=0), 1))

    def statistic(counts: Counts) -> Values:
        parts = range(0, len(counts), _ROUNDS_AT_ONCE)
        return np.concatenate([of_drawings(np.ascontiguousarray(counts[at : at + _ROUNDS_AT_ONCE].T)) for at in parts])

    return statistic


def _precision(copies: Values, ranked: Values, positives: Values, rule: ApRule) -> Values:
    """(rankings, rounds) the average precision of each ranking in each drawing.

    `copies` and `ranked` are (finds, rankings, rounds): how often each find was drawn, and how many boxes stand after
    the find before it, its own counted.
    """
    hits = np.cumsum(copies, axis=0)
    precision = hits / np.maximum(np.cumsum(ranked, axis=0), 1)
    interpolated = np.maximum.accumulate(precision[::-1], axis=0)[::-1]
    wanted = np.maximum(positives, 1)
    if rule == "area":
        return np.asarray((copies * interpolated).sum(axis=0) / wanted)
    beyond = np.concatenate([interpolated, np.zeros_like(positives)[None]])
    total = np.zeros_like(wanted)
    for tenth in range(11):
        reached = (10 * hits < tenth * wanted).sum(axis=0, keepdims=True)
        total += np.take_along_axis(beyond, reached, axis=0)[0]
    return total / 11


def _boxes_of_finds(rankings: Sequence[PhotoRanking], photos: int) -> Any:
    """(finds, photos) how many boxes of each photo stand after the find before, the find's own counted."""
    found = np.concatenate([ranking.found for ranking in rankings])
    photo = np.concatenate([ranking.photo for ranking in rankings])
    next_find = np.cumsum(found) - found
    ranking_ends = np.cumsum([len(ranking.found) for ranking in rankings])
    finds_until = np.concatenate([[0], np.cumsum(found)])[ranking_ends]
    counted = next_find < np.repeat(finds_until, [len(ranking.found) for ranking in rankings])
    # What stands after a ranking's last find changes nothing.
    cells = next_find[counted], photo[counted]
    return sparse.csr_array((np.ones(len(cells[0])), cells), shape=(np.count_nonzero(found), photos))


def _tallies(groups: Sequence[Whole], photos: int) -> Any:
    """(groups, photos) how often each group names each photo."""
    group = np.repeat(np.arange(len(groups)), [len(each) for each in groups])
    return sparse.csr_array((np.ones(len(group)), (group, np.concatenate(groups))), shape=(len(groups), photos))
