"""Sets of boxes: how well the boxes of the single things that a phrase names agree with the gold boxes of its chain.

The protocols of `phrase_localization` compare one box of a phrase; here all of them count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deixis.arrays import best_matching
from deixis.evaluation.intervals import (
    Comparison,
    Interval,
    PlainResult,
    Statistic,
    compare_all,
    mean_over,
    number_units,
    with_intervals,
)
from deixis.evaluation.items import Item
from deixis.evaluation.predictions import Extra, Missing, NegativePrediction, Prediction, match_predictions
from deixis.geometry import Boxes, iou

COUNTS = {"set_f1_1": "one gold box", "set_f1_2": "two gold boxes", "set_f1_3": "three or more gold boxes"}
"""Scores of phrases by the number of their gold boxes."""


@dataclass(frozen=True)
class BoxSetScores(PlainResult):
    """F1 of sets of boxes at an IoU of 0.5, in percent; means over mentions."""

    set_f1: float  # of all mentions
    set_n: Mapping[str, int]  # number of mentions of each of them
    interval: Mapping[str, Interval]  # the 95 % bootstrap interval of each score
    # Of mentions with one gold box, with two, and with three or more; None without such a mention
    set_f1_1: float | None = None
    set_f1_2: float | None = None
    set_f1_3: float | None = None


def box_set_scores(
    predictions: Iterable[Prediction | NegativePrediction],
    items: Sequence[Item],
    *,
    missing: Missing = "error",
    extra: Extra = "error",
    rounds: int = 1000,
    seed: int = 0,
) -> BoxSetScores:
    """Score the sets of boxes of phrases; the set of a prediction without one is its best box.

    `missing` and `extra` are those of `localization`.

    Examples
    --------
    >>> gold = (0, 0, 40, 30), (50, 0, 90, 30)
    >>> items = [Item(str(n), 0, (0, 8), "Two dogs", (), gold) for n in range(20)]
    >>> union = [Prediction(item.photo, 0, (0, 8), [[0, 0, 90, 30]], [1]) for item in items]
    >>> box_set_scores(union, items).set_f1_2
    0.0
    >>> both = [Prediction(item.photo, 0, (0, 8), [[0, 0, 90, 30]], [1], selected=gold) for item in items]
    >>> box_set_scores(both, items).set_f1_2
    100.0
    """
    statistics, photos = _statistics(predictions, items, missing, extra)
    counts = [_score_name(item) for item in items]
    set_n = {name: counts.count(name) for name in COUNTS}
    return BoxSetScores(set_n=set_n, **with_intervals(statistics, photos, rounds=rounds, seed=seed))


def compare_box_sets(
    a: Iterable[Prediction | NegativePrediction],
    b: Iterable[Prediction | NegativePrediction],
    items: Sequence[Item],
    *,
    missing: Missing = "error",
    extra: Extra = "error",
    rounds: int = 10_000,
    seed: int = 0,
) -> dict[str, Comparison]:
    """Compare two systems on the same items by the paired bootstrap: the difference a - b of each score."""
    (mine, photos), (others, _) = (_statistics(given, items, missing, extra) for given in (a, b))
    return compare_all(mine, others, photos, rounds=rounds, seed=seed)


def _statistics(
    predictions: Iterable[Prediction | NegativePrediction], items: Sequence[Item], missing: Missing, extra: Extra
) -> tuple[dict[str, Statistic], int]:
    """The scores as statistics over photos, and the number of photos."""
    matched = match_predictions(predictions, items, missing=missing, extra=extra).by_item
    photo, photos = number_units(item.photo for item in items)
    f1 = np.array([set_f1(_selected(each), item.boxes) for each, item in zip(matched, items, strict=True)])
    names = np.array([_score_name(item) for item in items])
    groups = {"set_f1": names != "", **{name: names == name for name in COUNTS if (names == name).any()}}
    return {name: mean_over(100 * f1[group], photo[group], photos) for name, group in groups.items()}, photos


def _score_name(item: Item) -> str:
    return f"set_f1_{min(len(item.boxes), 3)}"


def _selected(prediction: Prediction | None) -> Boxes:
    if prediction is None or not (len(prediction.boxes) or prediction.selected is not None):
        return np.empty((0, 4))
    if prediction.selected is not None:
        return prediction.selected
    return prediction.boxes[[int(np.argmax(prediction.scores))]]


def set_f1(boxes: npt.ArrayLike, gold: npt.ArrayLike, min_iou: float = 0.5) -> float:
    """F1 of the boxes of a phrase, from 0 to 1: twice the number of right boxes, divided by the number of all boxes.

    A box is right if its IoU with a gold box is at least `min_iou`; no two boxes are right by the same gold box. The
    number of right boxes is the largest that such an assignment allows.
    """
    near = iou(boxes, gold) >= min_iou
    total = sum(near.shape)
    return float(2 * near[best_matching(near)].sum() / total) if total else 1.0
