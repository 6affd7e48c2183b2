"""Sets of boxes: how well the boxes of the single things that a phrase names agree with the gold boxes of its chain.

The protocols of `phrase_localization` compare one box of a phrase; here all of them count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from deixis.arrays import best_matching
from deixis.evaluation.intervals import Result, mean_over, number_units
from deixis.evaluation.items import Item
from deixis.evaluation.predictions import Missing, NegativePrediction, Prediction, match_predictions
from deixis.evaluation.ranked_boxes import IOU
from deixis.geometry import Boxes, iou

COUNTS = {"set_f1_1": "one gold box", "set_f1_2": "two gold boxes", "set_f1_3": "three or more gold boxes"}
"""Scores of phrases by the number of their gold boxes."""


def box_set_scores(
    predictions: Iterable[Prediction | NegativePrediction],
    items: Sequence[Item],
    *,
    missing: Missing = "error",
    rounds: int = 1000,
) -> Result:
    """Score the sets of boxes of phrases by their F1; the set of a prediction without one is its best box.

    `missing` is that of `localization`. The result has `set_f1`, the mean over all mentions in percent, `set_f1_1`,
    `set_f1_2` and `set_f1_3` of mentions with one gold box, with two, and with three or more (None without such a
    mention), and the number of these mentions, `set_n`.

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
    matched = match_predictions(predictions, items, missing=missing).by_item
    photo, photos = number_units(item.photo for item in items)
    f1 = np.array([set_f1(_selected(each), item.boxes) for each, item in zip(matched, items, strict=True)])
    names = np.array([f"set_f1_{min(len(item.boxes), 3)}" for item in items])
    groups = {"set_f1": names != "", **{name: names == name for name in COUNTS if (names == name).any()}}
    statistics = {name: mean_over(100 * f1[group], photo[group], photos) for name, group in groups.items()}
    about = {"set_n": {name: int((names == name).sum()) for name in COUNTS}}
    return Result.of(about, statistics, photos, rounds=rounds, others=dict.fromkeys(COUNTS))


def _selected(prediction: Prediction | None) -> Boxes:
    if prediction is None or not (len(prediction.boxes) or prediction.selected is not None):
        return np.empty((0, 4))
    if prediction.selected is not None:
        return prediction.selected
    return prediction.boxes[[int(np.argmax(prediction.scores))]]


def set_f1(boxes: npt.ArrayLike, gold: npt.ArrayLike) -> float:
    """F1 of the boxes of a phrase, from 0 to 1: twice the number of right boxes, divided by the number of all boxes.

    A box is right if its IoU with a gold box is at least 0.5; no two boxes are right by the same gold box. The
    number of right boxes is the largest that such an assignment allows.
    """
    near = iou(boxes, gold) >= IOU
    total = sum(near.shape)
    return float(2 * near[best_matching(near)].sum() / total) if total else 1.0
