"""Calibration of probabilities: how far they are from the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from deixis.arrays import AnyArray, BoolArray, FloatArray
from deixis.evaluation.intervals import Counts, Interval, Statistic, bootstrap_all, values_of

_BINS = 15
_ROUNDS = 300


def calibration_error(
    probabilities: FloatArray, correct: BoolArray, weights: FloatArray | None = None, bins: int = _BINS
) -> float:
    """Return the expected calibration error over bins of equal weight."""
    parts = reliability(probabilities, correct, weights, bins)
    return float(sum(share * abs(predicted - true) for predicted, true, share in parts))


def reliability(
    probabilities: FloatArray, correct: BoolArray, weights: FloatArray | None = None, bins: int = _BINS
) -> list[tuple[float, float, float]]:
    """Return mean probability, fraction correct and fraction of all, for bins of equal weight."""
    order = np.argsort(probabilities, kind="stable")
    weight = (np.ones(len(order)) if weights is None else weights)[order]
    total = weight.sum()
    if not total:
        return []
    part = np.minimum(((np.cumsum(weight) - weight / 2) / total * bins).astype(np.int64), bins - 1)
    sums = np.bincount(part, weight, bins)
    predicted = np.bincount(part, weight * probabilities[order], bins)
    true = np.bincount(part, weight * correct[order], bins)
    return [(predicted[at] / sums[at], true[at] / sums[at], sums[at] / total) for at in np.flatnonzero(sums).tolist()]


@dataclass(frozen=True)
class Score:
    """A score with its bootstrap interval and the number of queries or results that it is over."""

    value: float
    interval: Interval
    count: int

    def as_json(self) -> dict[str, float]:
        numbers = {"value": self.value, "low": self.interval.low, "high": self.interval.high}
        return {**{name: round(number, 4) for name, number in numbers.items()}, "count": self.count}


def bootstrap_scores(statistics: Mapping[str, tuple[Statistic, int]], units: int) -> dict[str, Score]:
    """Return the score of each statistic and the number of items that it is over; without items there is none."""
    kept = {name: statistic for name, (statistic, count) in statistics.items() if count}
    values, intervals = values_of(kept, units), bootstrap_all(kept, units, rounds=_ROUNDS)
    return {name: Score(values[name], intervals[name], statistics[name][1]) for name in kept}


def calibration_error_of(probabilities: FloatArray, correct: BoolArray, unit_of: AnyArray) -> Statistic:
    """Return the calibration error as a statistic, given the unit of each probability."""

    def statistic(counts: Counts) -> FloatArray:
        return np.array([calibration_error(probabilities, correct, row[unit_of]) for row in counts])

    return statistic
