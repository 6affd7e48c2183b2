"""Phrase localisation: how often the box for a phrase is right.

A box is right when its IoU with the gold is at least 0.5. Under the protocol `union`, which the papers use, the
gold is the smallest box around all boxes of the phrase's chain; under `any`, each box of the chain is right.

R@K is the share of mentions with a right box among their K best; `upper_bound` counts a right box anywhere
among those given. Average precision follows object detection: the regions of all photos are ranked together
for one phrase, the first right region of a mention finds it, all others are wrong, further right ones too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from deixis.errors import DeixisError
from deixis.evaluation.drawn_precision import mean_precision
from deixis.evaluation.fixed_boxes import FixedBoxes
from deixis.evaluation.group_scores import RECALLS, GroupScores, group_scores, recall_of
from deixis.evaluation.intervals import Comparison, Counts, Interval, Statistic, bootstrap_all, compare_all
from deixis.evaluation.localization_items import PROTOCOLS, Item, Protocol
from deixis.evaluation.localized import Group, Localized
from deixis.evaluation.predictions import PhraseElsewhere, Prediction, match_predictions
from deixis.evaluation.ranked_boxes import ApRule, Flags

Values = npt.NDArray[np.float64]

TIES = "of equal scores the box given first is the better one; across mentions, the earlier mention's"


@dataclass(frozen=True)
class LocalizationResult:
    """How well boxes fit phrases; all scores in percent.

    Attributes
    ----------
    protocol, ties, ap_rule
        How it was scored.
    n, photos, missing, ignored
        Mentions scored, and in how many photos; mentions without a prediction, which count as wrong; and
        predictions left out because they fit no mention.
    r1, r5, r10, upper_bound
        Mentions with a right box among the best 1, 5, 10 and among all boxes given.
    r5_nms, r10_nms
        The same after non-maximum suppression of each mention's boxes at an IoU of 0.5. The code released with
        Entities counts this way when suppression is on.
    ap, ap_nms
        Mean over distinct phrases of the average precision, before and after suppression.
    ranked_photos
        Mean over distinct phrases of the number of photos whose regions were ranked for the phrase.
    macro_r1, macro_ap, macro_ap_nms
        Means over the types that occur, None where no mention has a type. The "(mean)" of Table 4 of the
        Entities paper is `macro_ap`.
    by_type, by_phrase
        By entity type, mentions with several types counting in each; and for the commonest distinct phrases. Each
        row has its own intervals.
    proposals
        Mean and largest number of boxes given for a mention.
    blind_r1, blind_single_r1
        R@1 of the best fixed box of the type, and of the single best fixed box, where one was passed.
    interval
        Of each score by name: what 95 % of drawings of the photos, with replacement, would give.
    """

    protocol: Protocol
    ap_rule: ApRule
    n: int
    photos: int
    missing: int
    ignored: int
    r1: float
    r5: float
    r10: float
    upper_bound: float
    r5_nms: float
    r10_nms: float
    ap: float
    ap_nms: float
    ranked_photos: float
    macro_r1: float | None
    macro_ap: float | None
    macro_ap_nms: float | None
    by_type: Mapping[str, GroupScores]
    by_phrase: Mapping[str, GroupScores]
    proposals: Mapping[str, float]
    blind_r1: float | None
    blind_single_r1: float | None
    interval: Mapping[str, Interval]
    ties: str = TIES

    def as_json(self) -> dict[str, object]:
        """Plain values for JSON; intervals as [low, high]."""
        plain = dict(vars(self))
        for name in ("by_type", "by_phrase"):
            plain[name] = {group: scores.as_json() for group, scores in plain[name].items()}
        plain["proposals"] = dict(self.proposals)
        plain["interval"] = {name: [found.low, found.high] for name, found in self.interval.items()}
        return plain


def localization(
    predictions: Iterable[Prediction | PhraseElsewhere],
    items: Sequence[Item],
    *,
    protocol: Protocol = "union",
    blind: FixedBoxes | None = None,
    missing: Literal["error", "miss"] = "error",
    extra: Literal["error", "ignore"] = "error",
    ap_rule: ApRule = "area",
    phrases: int = 24,
    rounds: int = 1000,
    seed: int = 0,
) -> LocalizationResult:
    """Score predicted boxes.

    Parameters
    ----------
    predictions
        One for each item, from `read_predictions` or from a model. `PhraseElsewhere`s widen the ranking behind
        average precision to photos that do not mention a phrase; without them a phrase is ranked over the
        photos that mention it, as the code released with Entities does.
    items
        What there is to localise, from `localization_items`.
    protocol
        `union` or `any`.
    blind
        The fixed boxes of the training split, from `best_fixed_boxes`, to be scored beside the predictions.
    missing, extra
        Whether a mention without a prediction, and a prediction without a mention, is an error (see
        `match_predictions`).
    ap_rule
        The area under the interpolated curve, or the 11-point rule of the code released with Entities (see
        `average_precision`).
    phrases
        How many of the commonest distinct phrases `by_phrase` holds.
    rounds, seed
        Of the bootstrap over photos.

    Examples
    --------
    >>> items = [
    ...     Item("7", 0, (0, 5), "A dog", ("animals",), ((0, 0, 40, 30),), size=(100, 80)),
    ...     Item("8", 0, (0, 5), "A cat", ("animals",), ((50, 0, 90, 30),), size=(100, 80)),
    ... ]
    >>> mine = [Prediction("7", 0, (0, 5), [[0, 0, 40, 25]], [0.9]),
    ...         Prediction("8", 0, (0, 5), [[0, 0, 40, 30], [50, 0, 90, 25]], [0.9, 0.5])]
    >>> result = localization(mine, items)
    >>> result.r1, result.r5, result.ap
    (50.0, 100.0, 75.0)
    """
    _check(protocol)
    matched = match_predictions(predictions, items, missing=missing, extra=extra)
    boxes = Localized.of(matched, items, protocol)
    statistics = score_statistics(boxes, ap_rule)
    if blind is not None:
        statistics |= _blind_statistics(blind, items, protocol)
    once = np.ones((1, boxes.photos))
    scores = {name: float(statistic(once)[0]) for name, statistic in statistics.items()}
    mentions = {phrase: len(group.mentions) for phrase, group in boxes.phrases.items()}
    commonest = sorted(mentions, key=lambda phrase: (-mentions[phrase], phrase))[:phrases]
    common = {phrase: boxes.phrases[phrase] for phrase in commonest}
    return LocalizationResult(
        protocol=protocol,
        ap_rule=ap_rule,
        n=len(items),
        photos=boxes.photos,
        missing=matched.missing,
        ignored=matched.ignored,
        r1=scores["r1"],
        r5=scores["r5"],
        r10=scores["r10"],
        upper_bound=scores["upper_bound"],
        r5_nms=scores["r5_nms"],
        r10_nms=scores["r10_nms"],
        ap=scores["ap"],
        ap_nms=scores["ap_nms"],
        ranked_photos=boxes.photos_ranked_for_a_phrase(),
        macro_r1=scores.get("macro_r1"),
        macro_ap=scores.get("macro_ap"),
        macro_ap_nms=scores.get("macro_ap_nms"),
        by_type=group_scores(boxes, boxes.types, ap_rule, rounds=rounds, seed=seed),
        by_phrase=group_scores(boxes, common, ap_rule, rounds=rounds, seed=seed),
        proposals={"mean": float(boxes.given.mean()), "max": int(boxes.given.max())},
        blind_r1=scores.get("blind_r1"),
        blind_single_r1=scores.get("blind_single_r1"),
        interval=bootstrap_all(statistics, boxes.photos, rounds=rounds, seed=seed),
    )


def compare_localization(
    a: Iterable[Prediction | PhraseElsewhere],
    b: Iterable[Prediction | PhraseElsewhere],
    items: Sequence[Item],
    *,
    protocol: Protocol = "union",
    missing: Literal["error", "miss"] = "error",
    extra: Literal["error", "ignore"] = "error",
    ap_rule: ApRule = "area",
    rounds: int = 10_000,
    seed: int = 0,
) -> dict[str, Comparison]:
    """Compare two systems on the same items by the paired bootstrap over photos: a less b, by score.

    Examples
    --------
    >>> items = [Item(str(n), 0, (0, 5), "A dog", (), ((0, 0, 40, 30),)) for n in range(20)]
    >>> right = [Prediction(item.photo, 0, (0, 5), [[0, 0, 40, 30]], [1]) for item in items]
    >>> wrong = [Prediction(item.photo, 0, (0, 5), [[50, 50, 60, 60]], [1]) for item in items]
    >>> found = compare_localization(right, wrong, items)["r1"]
    >>> found.difference, found.p < 0.05
    (100.0, True)
    """
    _check(protocol)
    first, second = (
        Localized.of(match_predictions(given, items, missing=missing, extra=extra), items, protocol) for given in (a, b)
    )
    mine, others = (score_statistics(boxes, ap_rule) for boxes in (first, second))
    return compare_all(mine, others, first.photos, rounds=rounds, seed=seed)


def score_statistics(boxes: Localized, rule: ApRule) -> dict[str, Statistic]:
    """Every score of some predictions as a statistic over photos, for `deixis.evaluation.intervals`."""
    found = {name: _recall(boxes, boxes.first < rank) for name, rank in RECALLS.items()}
    found |= {f"r{rank}_nms": _recall(boxes, boxes.first_nms < rank) for rank in (5, 10)}
    found |= _precisions("ap", boxes, boxes.phrases.values(), rule)
    if boxes.types:
        found["macro_r1"] = _macro(boxes, boxes.first < 1, list(boxes.types))
        found |= _precisions("macro_ap", boxes, boxes.types.values(), rule)
    return found


def _blind_statistics(blind: FixedBoxes, items: Sequence[Item], protocol: Protocol) -> dict[str, Statistic]:
    given = {"blind_r1": blind.predict(items), "blind_single_r1": blind.predict(items, single=True)}
    boxes = {name: Localized.of(match_predictions(fixed, items), items, protocol) for name, fixed in given.items()}
    return {name: _recall(fixed, fixed.first < 1) for name, fixed in boxes.items()}


def _precisions(name: str, boxes: Localized, groups: Collection[Group], rule: ApRule) -> dict[str, Statistic]:
    """The mean average precision of groups, before and after suppression."""
    rankings = [boxes.ranking(group) for group in groups]
    suppressed = [boxes.ranking(group, suppressed=True) for group in groups]
    return {
        name: mean_precision(rankings, boxes.photos, rule),
        f"{name}_nms": mean_precision(suppressed, boxes.photos, rule),
    }


def _recall(boxes: Localized, right: Flags) -> Statistic:
    return recall_of(right, boxes.photo_of_item, boxes.photos)


def _macro(boxes: Localized, right: Flags, kinds: Sequence[str]) -> Statistic:
    """The mean of the types' recalls; types that a drawing does not hold are left out of its mean."""
    has_type = np.array([[kind in item.types for kind in kinds] for item in boxes.items], dtype=np.float64)
    held, good = (np.zeros((boxes.photos, len(kinds))) for _ in range(2))
    np.add.at(held, boxes.photo_of_item, has_type)
    np.add.at(good, boxes.photo_of_item, 100 * has_type * right[:, None])

    def statistic(counts: Counts) -> Values:
        total = counts @ held
        recalls = np.divide(counts @ good, total, out=np.zeros_like(total), where=total > 0)
        return np.asarray(recalls.sum(axis=1) / np.maximum((total > 0).sum(axis=1), 1))

    return statistic


def _check(protocol: str) -> None:
    if protocol not in PROTOCOLS:
        raise DeixisError(f"there is no protocol {protocol!r}: choose {' or '.join(PROTOCOLS)}")
