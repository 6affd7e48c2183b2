"""Average precision of rankings, and its value in bootstrap samples of photos.

A photo that is drawn twice counts twice: each of its boxes is followed by a copy, and each of its mentions has to be
found twice. Resampling does not change scores, so one sorted ranking serves all samples, and precision is needed only
at the *hits*, the boxes that find a mention. Copies of a hit are adjacent, and precision is highest after the last,
so that the interpolated precision is the same for all copies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from deixis.arrays import BoolArray, FloatArray, IntArray
from deixis.evaluation.intervals import Counts, Statistic, in_batches

ApRule = Literal["area", "11-point"]
"""How the curve of precision and recall is summarized. The interpolated precision at a recall is the best precision at
that recall or a higher one. `area` is the area under its curve (PASCAL VOC since 2010), `11-point` its mean at recalls
0, 0.1 … 1 (PASCAL VOC 2007, and the code released with Entities)."""


@dataclass(frozen=True)
class PhotoRanking:
    """One ranking of boxes, best first."""

    found: BoolArray  # (n,) whether a box finds a mention that no earlier box found
    photo: IntArray  # (n,) photo index of each box
    mentions: IntArray  # photo index of each mention to find

    @property
    def hits(self) -> IntArray:
        """Photo index of each hit, best first."""
        return self.photo[self.found]


@dataclass(frozen=True)
class Hits:
    """The hits of a ranking that is too long to keep: all that average precision needs."""

    hits: IntArray  # (hits,) photo index of each hit, best first
    # (hits, photos) number of boxes of each photo after the previous hit, up to and including this one. float32 is
    # exact for up to 16 million boxes and fast to multiply.
    boxes: npt.NDArray[np.float32]
    mentions: IntArray  # photo index of each mention to find


def mean_precision(
    rankings: Sequence[PhotoRanking] | Sequence[Hits] | Sequence[PhotoRanking | Hits],
    photos: int,
    rule: ApRule = "area",
) -> Statistic:
    """Return the mean average precision of rankings, all of one kind, in percent, as a statistic over photos.

    A sample leaves out the rankings none of whose mentions it contains.
    """
    ordered = sorted(rankings, key=lambda ranking: len(ranking.hits))
    of_hits = [ranking.boxes for ranking in ordered if isinstance(ranking, Hits)]
    whole = [ranking for ranking in ordered if isinstance(ranking, PhotoRanking)]
    return _mean(
        [len(ranking.hits) for ranking in ordered],
        np.concatenate([ranking.hits for ranking in ordered]),
        np.concatenate(of_hits) if of_hits else _boxes_before_hits(whole, photos),
        _count_photos([ranking.mentions for ranking in ordered], photos),
        rule,
    )


def _mean(hit_counts: Sequence[int], photo_of_hit: IntArray, boxes: Any, mentions: Any, rule: ApRule) -> Statistic:
    """The statistic for concatenated rankings, sorted by their number of hits.

    `boxes` is (hits, photos) and `mentions` (rankings, photos); either may be sparse.
    """

    def of_samples(drawn: Counts) -> FloatArray:
        """(rounds,) from (photos, rounds)."""
        positives = mentions @ drawn
        copies, ranked = drawn[photo_of_hit], np.asarray(boxes @ drawn.astype(boxes.dtype), dtype=np.float64)
        total = np.zeros(drawn.shape[1])
        ranking = hit = 0
        for length, count in Counter(hit_counts).items():  # rankings with equally many hits are processed together
            here = slice(hit, hit + count * length)
            if length:
                hits_drawn, between = (
                    each[here].reshape(count, length, -1).swapaxes(0, 1) for each in (copies, ranked)
                )
                expected = positives[ranking : ranking + count]
                total += _precision(hits_drawn, between, expected, rule).sum(axis=0)
            ranking, hit = ranking + count, here.stop
        return np.asarray(100 * total / np.maximum((positives > 0).sum(axis=0), 1))

    return lambda counts: in_batches(of_samples, counts)


def _precision(copies: FloatArray, ranked: FloatArray, positives: FloatArray, rule: ApRule) -> FloatArray:
    """(rankings, rounds) average precision of each ranking in each sample.

    `copies` and `ranked` are (hits, rankings, rounds): how often each hit was drawn, and the number of boxes after the
    previous hit, up to and including this one.
    """
    hits = np.cumsum(copies, axis=0)
    precision = hits / np.maximum(np.cumsum(ranked, axis=0), 1)
    interpolated = np.maximum.accumulate(precision[::-1], axis=0)[::-1]
    total_positives = np.maximum(positives, 1)
    if rule == "area":
        return np.asarray((copies * interpolated).sum(axis=0) / total_positives)
    beyond = np.concatenate([interpolated, np.zeros_like(positives)[None]])
    total = np.zeros_like(total_positives)
    for tenth in range(11):
        # recall >= tenth / 10 in integers, so that 3 of 10 reaches a recall of 0.3
        reached = (10 * hits < tenth * total_positives).sum(axis=0, keepdims=True)
        total += np.take_along_axis(beyond, reached, axis=0)[0]
    return total / 11


def _boxes_before_hits(rankings: Sequence[PhotoRanking], photos: int) -> Any:
    """(hits, photos) number of boxes of each photo after the previous hit, up to and including this one."""
    from scipy import sparse

    found = np.concatenate([ranking.found for ranking in rankings])
    photo = np.concatenate([ranking.photo for ranking in rankings])
    next_hit = np.cumsum(found) - found
    ranking_ends = np.cumsum([len(ranking.found) for ranking in rankings])
    hits_until = np.concatenate([[0], np.cumsum(found)])[ranking_ends]
    counted = next_hit < np.repeat(hits_until, [len(ranking.found) for ranking in rankings])
    # Boxes after the last hit of a ranking have no effect.
    cells = next_hit[counted], photo[counted]
    return sparse.csr_array((np.ones(len(cells[0])), cells), shape=(np.count_nonzero(found), photos))


def _count_photos(groups: Sequence[IntArray], photos: int) -> Any:
    """(groups, photos) how often each group contains each photo."""
    from scipy import sparse

    group = np.repeat(np.arange(len(groups)), [len(each) for each in groups])
    return sparse.csr_array((np.ones(len(group)), (group, np.concatenate(groups))), shape=(len(groups), photos))
