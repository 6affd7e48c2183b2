"""The scores of one type or one phrase, and how sure they are.

Intervals come from the same drawings of all photos as those of the whole result. A drawing that holds no mention of a
group says nothing about it and is left out. A group whose mentions are all in one photo gets no interval: every drawing
that holds the photo gives the same score, which would look like certainty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from deixis.evaluation.drawn_precision import mean_precision
from deixis.evaluation.intervals import Interval, Statistic, bootstrap_held, ratio_of, where_held
from deixis.evaluation.localized import Group, Localized
from deixis.evaluation.ranked_boxes import NEVER, ApRule, Flags, Whole, average_precision

RECALLS: Mapping[str, int] = {"r1": 1, "r5": 5, "r10": 10, "upper_bound": NEVER}
"""By name, how many of a mention's best boxes are looked at."""

ONE_PHOTO = "all mentions are in one photo"
NO_DRAWING = "no drawing held a mention"

_SUPPRESSED = {"ap": False, "ap_nms": True}


@dataclass(frozen=True)
class GroupScores:
    """The scores, in percent, of the mentions of one type or one phrase, ranked together for `ap`.

    Attributes
    ----------
    n, photos
        Mentions, and in how many photos. Intervals of groups in few photos are too narrow.
    r1, r5, r10, upper_bound, ap, ap_nms
        As for all mentions.
    interval
        Of each score by name: what 95 % of those drawings of photos that hold a mention would give, or None.
    no_interval
        Why there is none, where there is none.
    """

    n: int
    photos: int
    r1: float
    r5: float
    r10: float
    upper_bound: float
    ap: float
    ap_nms: float
    interval: Mapping[str, Interval | None]
    no_interval: str | None

    def as_json(self) -> dict[str, object]:
        """Plain values for JSON; intervals as [low, high]."""
        intervals = {name: [found.low, found.high] if found else None for name, found in self.interval.items()}
        return {**vars(self), "interval": intervals}


def group_scores(
    boxes: Localized, groups: Mapping[str, Group], rule: ApRule, *, rounds: int, seed: int
) -> dict[str, GroupScores]:
    """Score groups of mentions, each by itself, with intervals from the same drawings for all."""
    statistics = {
        (name, score): statistic
        for name, group in groups.items()
        if _photos(boxes, group) > 1
        for score, statistic in group_statistics(boxes, group, rule).items()
    }
    drawn = bootstrap_held(statistics, boxes.photos, rounds=rounds, seed=seed)
    names = (*RECALLS, *_SUPPRESSED)
    return {
        name: _scores(boxes, group, rule, {score: drawn.get((name, score)) for score in names})
        for name, group in groups.items()
    }


def group_statistics(boxes: Localized, group: Group, rule: ApRule) -> dict[str, Statistic]:
    """The scores of a group as statistics over photos, nan for drawings that hold none of its mentions."""
    photo = boxes.photo_of_item[group.mentions]
    first = boxes.first[group.mentions]
    found = {name: recall_of(first < rank, photo, boxes.photos) for name, rank in RECALLS.items()}
    for name, suppressed in _SUPPRESSED.items():
        found[name] = mean_precision([boxes.ranking(group, suppressed=suppressed)], boxes.photos, rule)
    mentions = np.bincount(photo, minlength=boxes.photos)
    return {name: where_held(statistic, mentions) for name, statistic in found.items()}


def recall_of(right: Flags, photo: Whole, photos: int) -> Statistic:
    """The share of mentions that are right, in percent, as a statistic; `photo` has each mention's, as a number.

    Examples
    --------
    >>> right, photo = np.array([True, False, True]), np.array([0, 0, 1])
    >>> recall_of(right, photo, photos=2)(np.array([[2.0, 0], [0, 2]])).tolist()
    [50.0, 100.0]
    """
    return ratio_of(100 * np.bincount(photo, right, photos), np.bincount(photo, minlength=photos))


def _scores(boxes: Localized, group: Group, rule: ApRule, interval: Mapping[str, Interval | None]) -> GroupScores:
    n, photos = len(group.mentions), _photos(boxes, group)
    recalls = {name: float(100 * (boxes.first[group.mentions] < rank).mean()) for name, rank in RECALLS.items()}
    precisions = {
        name: 100 * average_precision(boxes.ranking(group, suppressed=suppressed).found, n, rule)
        for name, suppressed in _SUPPRESSED.items()
    }
    reason = ONE_PHOTO if photos == 1 else NO_DRAWING
    return GroupScores(
        n=n,
        photos=photos,
        r1=recalls["r1"],
        r5=recalls["r5"],
        r10=recalls["r10"],
        upper_bound=recalls["upper_bound"],
        ap=precisions["ap"],
        ap_nms=precisions["ap_nms"],
        interval=interval,
        no_interval=None if interval["r1"] else reason,
    )


def _photos(boxes: Localized, group: Group) -> int:
    """In how many photos a group has mentions."""
    return len(np.unique(boxes.photo_of_item[group.mentions]))
