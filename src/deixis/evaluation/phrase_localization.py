"""Phrase localization: recall@K and average precision of the predicted boxes of phrases.

A box is correct if its IoU with a gold box is at least 0.5. Under the protocol `union`, which the papers use, the gold
box is the union of all boxes of the phrase's chain; under `any`, each box of the chain is a gold box.

R@K is the percentage of mentions with a correct box among their K best; `upper_bound` accepts any rank.
Average precision follows object detection: the regions of all photos are ranked together for one phrase, the first
correct region of a mention finds it, and all other regions are wrong, including further correct ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from deixis.arrays import BoolArray, FloatArray, IntArray, expand_runs
from deixis.evaluation.average_precision import ApRule, PhotoRanking, mean_precision
from deixis.evaluation.baselines import FixedBoxes
from deixis.evaluation.intervals import (
    Comparison,
    Counts,
    GroupScores,
    Result,
    Statistic,
    bootstrap_groups,
    compare_all,
    mean_over,
    number_units,
)
from deixis.evaluation.items import (
    Item,
    Protocol,
    check_protocol,
    distinct_phrases,
    indices_by_phrase,
    indices_by_type,
    most_frequent,
)
from deixis.evaluation.predictions import Extra, Matched, Missing, NegativePrediction, Prediction, match_predictions
from deixis.evaluation.ranked_boxes import (
    NEVER,
    RankedBoxes,
    correct_boxes,
    first_correct,
    first_of_each,
    kept_by_nms,
    rank_boxes,
)
from deixis.tokens import distinct_phrase

_NO_BOXES = np.empty((0, 4)), np.empty(0)


@dataclass(frozen=True)
class MentionGroup:
    """Mentions that are ranked together: indices of the items, and indices of their boxes, best first."""

    mentions: IntArray
    boxes: IntArray


@dataclass(frozen=True)
class RankedPredictions:
    """The rankings of boxes of all predictions, first of the items, then of the negative predictions."""

    items: Sequence[Item]
    matched: Matched
    # The boxes of all rankings, and which of them are correct
    ranked: RankedBoxes
    correct: BoolArray

    @classmethod
    def from_predictions(
        cls,
        predictions: Iterable[Prediction | NegativePrediction],
        items: Sequence[Item],
        protocol: Protocol = "union",
        *,
        missing: Missing = "error",
        extra: Extra = "error",
    ) -> RankedPredictions:
        """Match predictions with items, rank the boxes of each, and compare them with the gold boxes."""
        check_protocol(protocol)
        matched = match_predictions(predictions, items, missing=missing, extra=extra)
        rankings = [*matched.by_item, *matched.negatives]
        ranked = rank_boxes([_NO_BOXES if each is None else (each.boxes, each.scores) for each in rankings])
        golds = [item.gold(protocol) for item in items]
        correct = correct_boxes(ranked, golds + [_NO_BOXES[0]] * len(matched.negatives))
        return cls(items, matched, ranked, correct)

    @cached_property
    def photo_of_ranking(self) -> IntArray:
        """(rankings,) photo index of each ranking, in the order of the items."""
        return number_units([each.photo for each in self.items] + [each.photo for each in self.matched.negatives])[0]

    @property
    def photo_of_item(self) -> IntArray:
        """(items,) photo index of each item."""
        return self.photo_of_ranking[: len(self.items)]

    @property
    def photos(self) -> int:
        """Number of photos."""
        return int(self.photo_of_item.max()) + 1

    @cached_property
    def first(self) -> IntArray:
        """(items,) rank, from 0, of the first correct box of each item."""
        return first_correct(self.ranked, self.correct)[: len(self.items)]

    @cached_property
    def first_nms(self) -> IntArray:
        """(items,) the same among the boxes that NMS keeps."""
        return first_correct(self.ranked, self.correct, self._kept)[: len(self.items)]

    @cached_property
    def _kept(self) -> BoolArray:
        return kept_by_nms(self.ranked)

    @cached_property
    def _found(self) -> BoolArray:
        """The boxes that find their mention: the first correct one of each ranking."""
        return first_of_each(self.ranked, self.correct)

    @cached_property
    def _found_nms(self) -> BoolArray:
        return first_of_each(self.ranked, self.correct & self._kept)

    @property
    def box_counts(self) -> IntArray:
        """(items,) number of predicted boxes of each item."""
        return self.ranked.sizes[: len(self.items)]

    @cached_property
    def phrases(self) -> dict[str, MentionGroup]:
        """The mentions of each distinct phrase, ranked together with its negative predictions."""
        negatives = indices_by_phrase(negative.phrase for negative in self.matched.negatives)
        return {
            phrase: self._group(mentions, negatives.get(phrase, mentions[:0]))
            for phrase, mentions in distinct_phrases(self.items).items()
        }

    @cached_property
    def types(self) -> dict[str, MentionGroup]:
        """The mentions of each type, ranked together."""
        return {kind: self._group(mentions, mentions[:0]) for kind, mentions in indices_by_type(self.items).items()}

    def common_phrases(self, limit: int) -> dict[str, MentionGroup]:
        """The most frequent phrases, by the number of mentions and then by name."""
        names = most_frequent({phrase: group.mentions for phrase, group in self.phrases.items()}, limit)
        return {phrase: self.phrases[phrase] for phrase in names}

    def mean_ranked_photos(self) -> float:
        """Mean over distinct phrases of the number of photos whose regions were ranked."""
        pairs = {(distinct_phrase(item.phrase), item.photo) for item in self.items}
        pairs |= {(distinct_phrase(negative.phrase), negative.photo) for negative in self.matched.negatives}
        return len(pairs) / len({phrase for phrase, _ in pairs})

    def ranking(self, group: MentionGroup, *, with_nms: bool = False) -> PhotoRanking:
        """The ranking of a group for average precision, before or after NMS."""
        boxes = group.boxes[self._kept[group.boxes]] if with_nms else group.boxes
        found = self._found_nms if with_nms else self._found
        photo = self.photo_of_ranking[self.ranked.owner[boxes]]
        return PhotoRanking(found[boxes], photo, self.photo_of_ranking[group.mentions])

    def recall(self, correct: BoolArray, mentions: IntArray | slice = slice(None)) -> Statistic:
        """The percentage of mentions that are correct; `correct` has a flag for each item."""
        return mean_over(100 * correct[mentions], self.photo_of_item[mentions], self.photos)

    def precisions(self, name: str, groups: Iterable[MentionGroup], rule: ApRule) -> dict[str, Statistic]:
        """The mean average precision of groups, before NMS (`name`) and after it."""
        groups = list(groups)
        return {
            f"{name}{suffix}": mean_precision(
                [self.ranking(group, with_nms=with_nms) for group in groups], self.photos, rule
            )
            for suffix, with_nms in (("", False), ("_nms", True))
        }

    def _group(self, mentions: IntArray, negatives: IntArray) -> MentionGroup:
        rankings = np.concatenate([mentions, len(self.items) + negatives])
        boxes = expand_runs(self.ranked.starts[rankings], self.ranked.sizes[rankings])
        return MentionGroup(mentions, boxes[np.argsort(-self.ranked.scores[boxes], kind="stable")])


RECALLS: Mapping[str, int] = {"r1": 1, "r5": 5, "r10": 10, "upper_bound": NEVER}
"""Number of best boxes per mention that each recall accepts."""


def group_scores(
    boxes: RankedPredictions, groups: Mapping[str, MentionGroup], rule: ApRule, *, rounds: int
) -> dict[str, GroupScores]:
    """Score groups of mentions separately; the boxes of a group are ranked together for `ap`."""
    statistics = {
        name: (
            boxes.photo_of_item[group.mentions],
            {score: boxes.recall(boxes.first < rank, group.mentions) for score, rank in RECALLS.items()}
            | boxes.precisions("ap", [group], rule),
        )
        for name, group in groups.items()
    }
    found = bootstrap_groups(statistics, boxes.photos, rounds=rounds)
    for name, group in groups.items():  # means, which differ from ratios of sums in the last digit
        correct = boxes.first[group.mentions]
        found[name].scores.update((score, float(100 * (correct < rank).mean())) for score, rank in RECALLS.items())
    return found


TIES = "of equal scores the box given first is the better one; across mentions, the earlier mention's"


def localization(
    predictions: Iterable[Prediction | NegativePrediction],
    items: Sequence[Item],
    *,
    protocol: Protocol = "union",
    blind: FixedBoxes | None = None,
    missing: Missing = "error",
    extra: Extra = "error",
    ap_rule: ApRule = "area",
    phrases: int = 24,
    rounds: int = 1000,
) -> Result:
    """Score the predicted boxes of phrases.

    Parameters
    ----------
    predictions
        One prediction per item, from `read_predictions` or from a model. Each `NegativePrediction` extends the
        ranking of average precision to a photo that does not mention the phrase; without them a phrase is ranked over
        the photos that mention it, as in the code released with Entities.
    items
        The mentions to localize, from `localization_items`.
    protocol
        `union` or `any`.
    blind
        Fixed boxes of the training split, from `best_fixed_boxes`, to score as a baseline.
    missing, extra
        Whether a mention without a prediction, and a prediction without a mention, is an error (see
        `match_predictions`).
    ap_rule
        `area` under the interpolated curve, or `11-point` as in the code released with Entities (see
        `average_precision.ApRule`).
    phrases
        Number of the most frequent distinct phrases in `by_phrase`.
    rounds
        Number of samples of the bootstrap over photos.

    Returns
    -------
    Result
        Scores in percent: `r1`, `r5`, `r10` and `upper_bound`, the mentions with a correct box among the best 1, 5, 10
        and among all boxes; `r5_nms` and `r10_nms` after NMS of the boxes of each mention at an IoU of 0.5, as in the
        code released with Entities; `ap` and `ap_nms`, means over distinct phrases; `macro_r1`, `macro_ap` and
        `macro_ap_nms`, means over types (the "(mean)" of Table 4 of the Entities paper), None if no mention has a type;
        `blind_r1` and `blind_single_r1` of the best fixed box of the type and of all, None without `blind`; and
        `ranked_photos`, the mean over distinct phrases of the number of photos whose regions were ranked.

        `n` mentions of `photos`, `missing` without a prediction, which count as wrong, and `ignored` predictions of
        other mentions. `by_type` (a mention with several types counts in each) and `by_phrase` have the scores of
        groups with their intervals, `proposals` the mean and maximum number of boxes per mention.

    Examples
    --------
    >>> items = [
    ...     Item("7", 0, (0, 5), "A dog", ("animals",), ((0, 0, 40, 30),), size=(100, 80)),
    ...     Item("8", 0, (0, 5), "A cat", ("animals",), ((50, 0, 90, 30),), size=(100, 80)),
    ... ]
    >>> predictions = [Prediction("7", 0, (0, 5), [[0, 0, 40, 25]], [0.9]),
    ...                Prediction("8", 0, (0, 5), [[0, 0, 40, 30], [50, 0, 90, 25]], [0.9, 0.5])]
    >>> result = localization(predictions, items)
    >>> result.r1, result.r5, result.ap
    (50.0, 100.0, 75.0)
    """
    boxes = RankedPredictions.from_predictions(predictions, items, protocol, missing=missing, extra=extra)
    statistics = score_statistics(boxes, ap_rule)
    if blind is not None:
        statistics |= _blind_statistics(blind, items, protocol)
    about = {
        "protocol": protocol,
        "ties": TIES,
        "ap_rule": ap_rule,
        "n": len(items),
        "photos": boxes.photos,
        "missing": boxes.matched.missing,
        "ignored": boxes.matched.ignored,
        "by_type": group_scores(boxes, boxes.types, ap_rule, rounds=rounds),
        "by_phrase": group_scores(boxes, boxes.common_phrases(phrases), ap_rule, rounds=rounds),
        "proposals": {"mean": float(boxes.box_counts.mean()), "max": int(boxes.box_counts.max())},
    }
    absent = dict.fromkeys(("macro_r1", "macro_ap", "macro_ap_nms", "blind_r1", "blind_single_r1"))
    others = {"ranked_photos": boxes.mean_ranked_photos(), **absent}
    return Result.of(about, statistics, boxes.photos, rounds=rounds, others=others)


def compare_localization(
    a: Iterable[Prediction | NegativePrediction],
    b: Iterable[Prediction | NegativePrediction],
    items: Sequence[Item],
    *,
    protocol: Protocol = "union",
    missing: Missing = "error",
    extra: Extra = "error",
    ap_rule: ApRule = "area",
    rounds: int = 10_000,
) -> dict[str, Comparison]:
    """Compare two systems on the same items by the paired bootstrap: the difference a - b of each score.

    Examples
    --------
    >>> items = [Item(str(n), 0, (0, 5), "A dog", (), ((0, 0, 40, 30),)) for n in range(20)]
    >>> correct = [Prediction(item.photo, 0, (0, 5), [[0, 0, 40, 30]], [1]) for item in items]
    >>> wrong = [Prediction(item.photo, 0, (0, 5), [[50, 50, 60, 60]], [1]) for item in items]
    >>> found = compare_localization(correct, wrong, items)["r1"]
    >>> found.difference, found.p < 0.05
    (100.0, True)
    """
    first, second = (
        RankedPredictions.from_predictions(given, items, protocol, missing=missing, extra=extra) for given in (a, b)
    )
    mine, others = (score_statistics(boxes, ap_rule) for boxes in (first, second))
    return compare_all(mine, others, first.photos, rounds=rounds)


def score_statistics(boxes: RankedPredictions, rule: ApRule) -> dict[str, Statistic]:
    """All scores as statistics over photos, for `deixis.evaluation.intervals`."""
    found = {name: boxes.recall(boxes.first < rank) for name, rank in RECALLS.items()}
    found |= {f"r{rank}_nms": boxes.recall(boxes.first_nms < rank) for rank in (5, 10)}
    found |= boxes.precisions("ap", boxes.phrases.values(), rule)
    if boxes.types:
        found["macro_r1"] = _macro_recall(boxes, boxes.first < 1, list(boxes.types))
        found |= boxes.precisions("macro_ap", boxes.types.values(), rule)
    return found


def _blind_statistics(blind: FixedBoxes, items: Sequence[Item], protocol: Protocol) -> dict[str, Statistic]:
    found = {}
    for name, single in (("blind_r1", False), ("blind_single_r1", True)):
        boxes = RankedPredictions.from_predictions(blind.predict(items, single=single), items, protocol)
        found[name] = boxes.recall(boxes.first < 1)
    return found


def _macro_recall(boxes: RankedPredictions, correct: BoolArray, kinds: Sequence[str]) -> Statistic:
    """The mean recall over types; a sample leaves out types that it does not contain."""
    has_type = np.array([[kind in item.types for kind in kinds] for item in boxes.items], dtype=np.float64)
    total_by_type, correct_by_type = (np.zeros((boxes.photos, len(kinds))) for _ in range(2))
    np.add.at(total_by_type, boxes.photo_of_item, has_type)
    np.add.at(correct_by_type, boxes.photo_of_item, 100 * has_type * correct[:, None])

    def statistic(counts: Counts) -> FloatArray:
        total = counts @ total_by_type
        recalls = np.divide(counts @ correct_by_type, total, out=np.zeros_like(total), where=total > 0)
        return np.asarray(recalls.sum(axis=1) / np.maximum((total > 0).sum(axis=1), 1))

    return statistic
