"""Localization scores in plain loops, for tests to compare with."""

from __future__ import annotations

from collections.abc import Sequence

from deixis.evaluation.items import Item
from deixis.evaluation.predictions import NegativePrediction, Prediction

XYXY = tuple[float, float, float, float]
Ranked = list[tuple[float, XYXY]]


def plain_iou(a: XYXY, b: XYXY) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    shared = max(width, 0) * max(height, 0)
    total = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return shared / total if total else 0.0


def plain_is_right(predicted: XYXY, item: Item, protocol: str) -> bool:
    if protocol == "any":
        return any(plain_iou(predicted, gold) >= 0.5 for gold in item.boxes)
    x1, y1, x2, y2 = zip(*item.boxes, strict=True)
    return plain_iou(predicted, (min(x1), min(y1), max(x2), max(y2))) >= 0.5


def plain_ranking(prediction: Prediction | NegativePrediction) -> Ranked:
    pairs = zip(prediction.scores.tolist(), prediction.boxes.tolist(), strict=True)
    return sorted(((score, tuple(box)) for score, box in pairs), key=lambda pair: -pair[0])


def plain_suppressed(ranking: Ranked) -> Ranked:
    kept: Ranked = []
    for score, box in ranking:
        if all(plain_iou(box, better) < 0.5 for _, better in kept):
            kept.append((score, box))
    return kept


def plain_recall(rankings: Sequence[Ranked], items: Sequence[Item], k: int, protocol: str) -> float:
    found = 0
    for ranking, item in zip(rankings, items, strict=True):
        found += any(plain_is_right(box, item, protocol) for _, box in ranking[:k])
    return 100 * found / len(items)


def plain_ap(rankings: Sequence[Ranked], items: Sequence[Item], elsewhere: Sequence[Ranked], protocol: str) -> float:
    """Walk down all regions of all photos; a mention is found once, every other region is wrong."""
    regions = [(score, box, number) for number, ranking in enumerate(rankings) for score, box in ranking] + [
        (score, box, None) for ranking in elsewhere for score, box in ranking
    ]
    regions.sort(key=lambda region: -region[0])
    found: set[int] = set()
    curve = []
    for place, (_, box, number) in enumerate(regions, start=1):
        if number is not None and number not in found and plain_is_right(box, items[number], protocol):
            found.add(number)
        curve.append((len(found), len(found) / place))
    best = [max((p for hits, p in curve if hits >= wanted), default=0.0) for wanted in range(1, len(items) + 1)]
    return 100 * sum(best) / len(items)
