"""Nested phrases: how far the box of a phrase lies in the box of the longer phrase that contains it (HM-LSTM, 5.3.2).

The paper observes that the box of "two people sitting on rocking chairs" covers those of "two people" and "rocking
chairs". It needs no gold boxes: the phrases and the boxes are those of the predictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np

from deixis import geometry
from deixis.errors import DeixisError
from deixis.evaluation.intervals import Comparison, Result, Statistic, mean_over
from deixis.evaluation.predictions import NegativePrediction, Prediction
from deixis.language.sentence import parents

COVERED = 0.9
"""Share of a box that must lie in the other for the pair to count as covered."""

PROTOCOL = (
    "nested: share of the box of a phrase in the box of the smallest longer phrase around it; "
    f"covered: at least {COVERED:.0%}; other: the same for phrases of the caption that are not inside it"
)


def nesting_scores(predictions: Iterable[Prediction | NegativePrediction], *, rounds: int = 1000) -> Result:
    """Score predictions of phrases that contain each other; predictions without a box are left out.

    The result has, in percent of pairs of phrases, `contained`, the mean share of a phrase's box that lies in the box
    of the phrase around it, and `covered`, the pairs in which that share is at least 90 %; and as a control
    `other_contained` and `other_covered`, the same for a longer phrase and phrases of the caption that are not inside
    it (None without any). `n` is the number of nested pairs.
    """
    boxed = [each for each in predictions if isinstance(each, Prediction) and len(each.boxes)]
    number = {photo: index for index, photo in enumerate(dict.fromkeys(each.photo for each in boxed))}
    rows = [
        (number[photo], is_nested, share)
        for (photo, _), some in groupby(sorted(boxed, key=_caption), key=_caption)
        for is_nested, share in _pairs(list(some))
    ]
    if not any(is_nested for _, is_nested, _ in rows):
        raise DeixisError("no phrase contains another; give predictions for nested phrases")
    photo, nested, shares = (np.array(column) for column in zip(*rows, strict=True))
    statistics: dict[str, Statistic] = {}
    for prefix, chosen in (("", nested), ("other_", ~nested)):
        if chosen.any():
            for name, values in (("contained", shares), ("covered", shares >= COVERED)):
                statistics[prefix + name] = mean_over(100.0 * values[chosen], photo[chosen], len(number))
    about = {"protocol": PROTOCOL, "n": int(nested.sum()), "photos": len(number)}
    absent = {"other_contained": None, "other_covered": None}
    return Result.of(about, statistics, len(number), rounds=rounds, others=absent)


def compare_nesting(
    a: Iterable[Prediction | NegativePrediction], b: Iterable[Prediction | NegativePrediction], *, rounds: int = 10_000
) -> dict[str, Comparison]:
    """Compare two systems on the same phrases by the paired bootstrap over photos."""
    first, second = ({each.key: each for each in given if isinstance(each, Prediction)} for given in (a, b))
    if first.keys() != second.keys():
        raise DeixisError("cannot compare: the two systems have predictions for different phrases")
    in_order = [second[key] for key in first]
    return nesting_scores(first.values()).compare(nesting_scores(in_order), rounds=rounds)


def _caption(prediction: Prediction) -> tuple[str, int]:
    return prediction.photo, prediction.caption


def _pairs(predictions: Sequence[Prediction]) -> Iterator[tuple[bool, float]]:
    """Pairs of a longer phrase and another one of a caption: whether it is the phrase around it, and the share."""
    boxes = np.array([each.boxes[int(np.argmax(each.scores))] for each in predictions])
    areas = np.maximum(geometry.area(boxes), 1e-9)
    shares = geometry.overlap_areas(boxes, boxes) / areas[:, None]
    around = parents([each.span for each in predictions])
    longer = {parent for parent in around if parent is not None}
    for child, parent in enumerate(around):
        if parent is not None:
            yield True, float(shares[child, parent])
    for parent in longer:
        start, end = predictions[parent].span
        for other, each in enumerate(predictions):
            if each.span[1] <= start or end <= each.span[0]:
                yield False, float(shares[other, parent])
