"""Calibration of probabilities: a logistic regression to fit them, and how far they are from the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import FloatArray, Floats
from deixis.evaluation.intervals import Interval

Mask = NDArray[np.bool_]

_BINS = 15
_RIDGE = 1e-4
_TINY = 1e-300


def logistic(
    rows: Floats,
    answers: Mask,
    weights: FloatArray | None = None,
    *,
    non_negative: Sequence[int] = (),
    ridge: float = _RIDGE,
) -> FloatArray:
    """Fit a ridge-regularized logistic regression; the first column must be ones and is not regularized.

    Parameters
    ----------
    rows, answers
        Features and labels.
    weights
        Weights of the rows; equal by default.
    non_negative
        Columns whose coefficients must not be negative.
    ridge
        Strength of the regularization per row.

    Examples
    --------
    >>> rows = np.array([[1, 0], [1, 1], [1, 2], [1, 3]], dtype=np.float32)
    >>> bool(logistic(rows, np.array([False, True, False, True]))[1] > 0)
    True
    """
    from scipy.optimize import minimize

    means, spreads = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    means[0], spreads[0] = 0.0, 1.0
    spreads[spreads == 0] = 1.0
    scaled, labels = (rows - means) / spreads, answers.astype(np.float64)
    share = np.ones(len(rows)) if weights is None else weights / weights.mean()
    penalty = ridge * len(rows) * np.r_[0.0, np.ones(rows.shape[1] - 1)]

    def loss(coefficients: FloatArray) -> tuple[float, FloatArray]:
        logits = scaled @ coefficients
        error = share * (1 / (1 + np.exp(-logits)) - labels)
        value = share @ (np.logaddexp(0, logits) - labels * logits) + (penalty * coefficients**2).sum() / 2
        return float(value), scaled.T @ error + penalty * coefficients

    bounds = [(0.0 if column in non_negative else None, None) for column in range(rows.shape[1])]
    found = minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds).x / spreads
    found[0] -= (found * means)[1:].sum()
    return np.asarray(found)


def conditional_logit(
    groups: Sequence[Floats], answers: Sequence[Mask], weights: Sequence[float], *, ridge: float = _RIDGE
) -> FloatArray:
    """Fit non-negative coefficients that rank the right rows of each group above its other rows.

    The loss is the negative log probability of the right rows in a softmax over the rows of a group.

    Parameters
    ----------
    groups
        Features of the rows of each group: (rows, features).
    answers
        Which rows of each group are right: at least one.
    weights
        Weights of the groups.
    ridge
        Strength of the regularization.

    Examples
    --------
    >>> group = np.array([[2.0, 0.0], [1.0, 5.0], [0.0, 5.0]], dtype=np.float32)
    >>> first, second = conditional_logit([group], [np.array([True, False, False])], [1.0])
    >>> bool(first > 0), float(second)
    (True, 0.0)
    """
    from scipy.optimize import minimize

    rows, right = np.concatenate(groups).astype(np.float64), np.concatenate(answers)
    counts = np.array([len(group) for group in groups])
    starts = np.cumsum(counts) - counts
    share = np.asarray(weights, dtype=np.float64) / np.sum(weights)

    def loss(coefficients: FloatArray) -> tuple[float, FloatArray]:
        scores = rows @ coefficients
        powers = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), counts))
        every, correct = np.add.reduceat(powers, starts), np.add.reduceat(powers * right, starts) + _TINY
        value = share @ (np.log(every) - np.log(correct)) + ridge * (coefficients**2).sum()
        error = powers / np.repeat(every, counts) - powers * right / np.repeat(correct, counts)
        return float(value), rows.T @ (np.repeat(share, counts) * error) + 2 * ridge * coefficients

    size = rows.shape[1]
    found = minimize(loss, np.ones(size), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * size).x
    return np.asarray(found)


def calibration_error(
    probabilities: FloatArray, correct: Mask, weights: FloatArray | None = None, bins: int = _BINS
) -> float:
    """Return the expected calibration error over bins of equal weight.

    Examples
    --------
    >>> calibration_error(np.array([0.5, 0.5]), np.array([True, False]), bins=1)
    0.0
    """
    parts = reliability(probabilities, correct, weights, bins)
    return float(sum(share * abs(predicted - true) for predicted, true, share in parts))


def reliability(
    probabilities: FloatArray, correct: Mask, weights: FloatArray | None = None, bins: int = _BINS
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
