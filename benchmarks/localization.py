"""Phrase localization: time of our implementation and of a plain loop over mentions and boxes, in the same run.

    python benchmarks/localization.py [--data DATA --split dev] [--boxes 30] [--repeats 3]

Without --data there are 1,000 synthetic photos with ten mentions each, whose phrases have the frequencies of words.
Each mention gets boxes near its gold box and elsewhere, with random scores. The loop computes R@1, R@5, R@10, the upper
bound, AP and AP after suppression in plain Python, and must give the same results. For the bootstrap, the loop draws
photos and computes AP for their mentions; it does so only a few times, and the time per sample is compared. The best
run of each counts.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from deixis.evaluation.items import Item, localization_items
from deixis.evaluation.phrase_localization import compare_localization, localization
from deixis.evaluation.predictions import Prediction
from deixis.tokens import distinct_phrase

T = TypeVar("T")
XYXY = tuple[float, float, float, float]
Ranked = list[tuple[float, XYXY]]
Flagged = list[tuple[float, bool]]
"""A mention's boxes, best first: the score, and whether the box is correct."""

ROUNDS = 1000


def synthetic_items(photos: int = 1000, mentions: int = 10) -> list[Item]:
    rng = np.random.default_rng(0)
    phrases = rng.zipf(1.3, size=(photos, mentions))
    corners = rng.integers(0, 300, size=(photos, mentions, 2))
    sides = rng.integers(30, 200, size=(photos, mentions, 2))
    return [
        Item(
            str(photo),
            index,
            (0, 5),
            f"phrase {phrases[photo, index]}",
            (("people", "animals", "clothing", "other")[phrases[photo, index] % 4],),
            ((*corners[photo, index].tolist(), *(corners + sides)[photo, index].tolist()),),
        )
        for photo in range(photos)
        for index in range(mentions)
    ]


def synthetic_predictions(items: Sequence[Item], boxes: int, seed: int) -> list[Prediction]:
    """Boxes that deviate more and more from the gold box, with unrelated scores."""
    rng = np.random.default_rng(seed)
    predictions = []
    for item in items:
        gold = item.gold("union")[0]
        spread = np.linspace(0.05, 2, boxes)[:, None] * np.tile(gold[2:] - gold[:2], 2)
        moved = gold + rng.normal(size=(boxes, 4)) * spread
        corners = np.concatenate([np.minimum(moved[:, :2], moved[:, 2:]), np.maximum(moved[:, :2], moved[:, 2:])], 1)
        scores = rng.normal(size=boxes) - np.linspace(0, 2, boxes)
        predictions.append(Prediction(item.photo, item.caption, item.span, corners, scores))
    return predictions


def plain_iou(a: XYXY, b: XYXY) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def plain_suppressed(ranking: Ranked) -> Ranked:
    kept: Ranked = []
    for score, box in ranking:
        if all(plain_iou(box, better) < 0.5 for _, better in kept):
            kept.append((score, box))
    return kept


def plain_flags(ranking: Ranked, gold: XYXY) -> Flagged:
    return [(score, plain_iou(box, gold) >= 0.5) for score, box in ranking]


def plain_mean_ap(phrases: Sequence[str], mentions: Sequence[Flagged]) -> float:
    """Rank the boxes of all mentions of each phrase together; each mention counts once."""
    by_phrase = defaultdict(list)
    for phrase, mention in zip(phrases, mentions, strict=True):
        by_phrase[phrase].append(mention)
    total = 0.0
    for group in by_phrase.values():
        ranking = [(score, right, number) for number, mention in enumerate(group) for score, right in mention]
        ranking.sort(key=lambda box: -box[0])
        found: set[int] = set()
        precisions = []
        for index, (_, right, number) in enumerate(ranking, start=1):
            if right and number not in found:
                found.add(number)
                precisions.append(len(found) / index)
        best = 0.0
        for precision in reversed(precisions):
            best = max(best, precision)
            total += best / len(group)
    return 100 * total / len(by_phrase)


class PlainLoop:
    """The scores in plain Python, with the data for bootstrap samples."""

    def __init__(self, predictions: Sequence[Prediction], items: Sequence[Item]) -> None:
        rankings = []
        for prediction in predictions:
            pairs = zip(prediction.scores.tolist(), map(tuple, prediction.boxes.tolist()), strict=True)
            rankings.append(sorted(pairs, key=lambda pair: -pair[0]))
        golds = [tuple(item.gold("union")[0].tolist()) for item in items]
        self.phrases = [distinct_phrase(item.phrase) for item in items]
        self.flags = [plain_flags(ranking, gold) for ranking, gold in zip(rankings, golds, strict=True)]
        self.kept = [plain_flags(plain_suppressed(each), gold) for each, gold in zip(rankings, golds, strict=True)]
        self.scores = {f"r{k}": self.recall(k) for k in (1, 5, 10)} | {
            "upper_bound": self.recall(None),
            "ap": plain_mean_ap(self.phrases, self.flags),
            "ap_nms": plain_mean_ap(self.phrases, self.kept),
        }
        self.of_photo = defaultdict(list)
        for index, item in enumerate(items):
            self.of_photo[item.photo].append(index)

    def recall(self, k: int | None) -> float:
        return 100 * sum(any(right for _, right in ranking[:k]) for ranking in self.flags) / len(self.flags)

    def draw(self) -> None:
        """Draw one bootstrap sample of photos and compute its AP before and after suppression."""
        photos = list(self.of_photo)
        indexes = [index for photo in random.choices(photos, k=len(photos)) for index in self.of_photo[photo]]
        for mentions in (self.flags, self.kept):
            plain_mean_ap([self.phrases[index] for index in indexes], [mentions[index] for index in indexes])


def timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    done = work()
    return done, time.perf_counter() - began


def best_of(repeats: int, work: Callable[[], T]) -> tuple[T, float]:
    runs = [timed(work) for _ in range(repeats)]
    return runs[0][0], min(seconds for _, seconds in runs)


def line(name: str, ours_s: float, loop_s: float | None = None) -> None:
    ratio = "" if loop_s is None else f"{loop_s:12.4f}{loop_s / ours_s:13.0f}"
    print(f"{name:44}{ours_s:10.4f}{ratio}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="data set directory (default: synthetic photos)")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--boxes", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    items = synthetic_items()
    if options.data:
        from deixis.data.dataset import Dataset

        items = localization_items(Dataset(options.data).split(options.split))
    mine, other = (synthetic_predictions(items, options.boxes, seed) for seed in (1, 2))
    phrases = len({distinct_phrase(item.phrase) for item in items})
    print(f"{len(items):,} mentions of {phrases:,} phrases, {options.boxes} boxes each")
    print(f"{'':44}{'ours s':>10}{'loop s':>12}{'loop ÷ ours':>13}")

    result, scored_s = best_of(options.repeats, lambda: localization(mine, items, rounds=1))
    loop, loop_s = timed(lambda: PlainLoop(mine, items))
    for name, value in loop.scores.items():
        assert abs(value - getattr(result, name)) < 1e-6, f"the loop gives a different {name}"
    line("all scores once", scored_s, loop_s)

    _, drawn_s = best_of(options.repeats, lambda: localization(mine, items, rounds=ROUNDS))
    _, draw_s = best_of(options.repeats, loop.draw)
    line(f"all scores, with intervals ({ROUNDS:,} bootstrap samples)", drawn_s)
    line("one bootstrap sample (ours: all scores)", (drawn_s - scored_s) / ROUNDS, draw_s)
    _, compared_s = timed(lambda: compare_localization(mine, other, items))
    line("two systems compared (10,000 samples)", compared_s)


if __name__ == "__main__":
    main()
