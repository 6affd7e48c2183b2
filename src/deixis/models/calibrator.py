"""Probabilities from features by logistic regression: captions, presence, photo score, search and descriptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from deixis.arrays import AnyArray, BoolArray, FloatArray, Floats, logistic

Inside = Mapping[str, BoolArray]
"""For each source of a fit, which of its photos take part."""

_RIDGE = 1e-4
_TINY = 1e-300


@dataclass(frozen=True)
class LogisticCalibrator:
    """The probability of an answer: the logistic function of a weighted sum of features.

    Attributes
    ----------
    weights
        Weight of the constant 1, then of the features. They are saved as a list in this order.
    fingerprint
        Hash of the models that the features come from. Weights are valid only for these models.

    Examples
    --------
    >>> rows = np.array([[0], [1], [2], [3]], dtype=np.float32)
    >>> calibrator = LogisticCalibrator.fit(rows, np.array([False, True, False, True]))
    >>> low, high = calibrator.probabilities(rows[[0, 3]])
    >>> bool(low < 0.5 < high)
    True
    """

    weights: tuple[float, ...]
    fingerprint: str = ""

    @classmethod
    def load(cls, weights: Sequence[Any], features: Sequence[int], fingerprint: str = "") -> Self:
        """Check saved weights: their number, without the constant, must be one of `features`."""
        found = cls(tuple(map(float, weights)), fingerprint)
        if len(found.weights) - 1 not in features:
            wanted = " or ".join(str(1 + count) for count in features)
            raise ValueError(f"{len(found.weights)} weights instead of {wanted}")
        return found

    def logits(self, rows: AnyArray) -> AnyArray:
        """Return the weighted sums of rows of features, with or without the constant, in the precision of the rows."""
        weights = np.array(self.weights, dtype=rows.dtype)
        if rows.shape[-1] == len(weights):
            return np.asarray(rows @ weights)
        return np.asarray(weights[0] + rows @ weights[1:])

    def probabilities(self, rows: AnyArray) -> AnyArray:
        return logistic(self.logits(rows))

    @classmethod
    def fit(
        cls,
        rows: AnyArray,
        answers: AnyArray,
        shares: FloatArray | None = None,
        *,
        non_negative: Sequence[int] = (),
        ridge: float = _RIDGE,
        fingerprint: str = "",
    ) -> Self:
        """Fit the weights to rows of features without the constant.

        Parameters
        ----------
        rows, answers
            Features, and labels or grades from 0 to 1.
        shares
            Weights of the rows; equal by default.
        non_negative
            Features whose weights must not be negative.
        ridge
            Strength of the regularization per row; the weight of the constant is not regularized.
        """
        from scipy.optimize import minimize

        means, spreads = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
        spreads[spreads == 0] = 1.0
        scaled = np.insert((rows - means) / spreads, 0, 1.0, axis=1)
        labels = answers.astype(np.float64)
        share = np.ones(len(rows)) if shares is None else shares / shares.mean()
        penalty = ridge * len(rows) * np.r_[0.0, np.ones(rows.shape[1])]

        def loss(weights: FloatArray) -> tuple[float, FloatArray]:
            logits = scaled @ weights
            error = share * (logistic(logits) - labels)
            value = share @ (np.logaddexp(0, logits) - labels * logits) + (penalty * weights**2).sum() / 2
            return float(value), scaled.T @ error + penalty * weights

        bounds = [(None, None), *((0.0 if column in non_negative else None, None) for column in range(rows.shape[1]))]
        found = minimize(loss, np.zeros(len(bounds)), jac=True, method="L-BFGS-B", bounds=bounds).x
        found[1:] /= spreads
        found[0] -= (found[1:] * means).sum()
        return cls(tuple(found.tolist()), fingerprint)

    @classmethod
    def cross_fit(
        cls, rows: AnyArray, answers: BoolArray, shares: FloatArray, folds: AnyArray, **options: Any
    ) -> FloatArray:
        """Return the logits of all rows, each by the fit to the other folds; `options` are those of `fit`."""
        logits = np.zeros(len(rows))
        for fold in np.unique(folds):
            here = folds == fold
            logits[here] = cls.fit(rows[~here], answers[~here], shares[~here], **options).logits(rows[here])
        return logits

    def round(self) -> LogisticCalibrator:
        """Round the weights to four decimals, as they are saved."""
        return LogisticCalibrator(tuple(round(weight, 4) for weight in self.weights), self.fingerprint)


def random_halves(counts: Mapping[str, int], seed: int = 0) -> Iterator[tuple[Inside, Inside]]:
    """Draw half of the photos of every source; yield them with the others, and the reverse."""
    rng = np.random.default_rng(seed)
    first: Inside = {name: rng.permutation(count) % 2 == 0 for name, count in counts.items()}
    second: Inside = {name: ~photos for name, photos in first.items()}
    yield first, second
    yield second, first


def conditional_logit(groups: Sequence[Floats], answers: Sequence[BoolArray], weights: Sequence[float]) -> FloatArray:
    """Fit non-negative coefficients that rank the right rows of each group above its other rows.

    The loss is the negative log probability of the right rows in a softmax over the rows of a group, of which at least
    one must be right.

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
        value = share @ (np.log(every) - np.log(correct)) + _RIDGE * (coefficients**2).sum()
        error = powers / np.repeat(every, counts) - powers * right / np.repeat(correct, counts)
        return float(value), rows.T @ (np.repeat(share, counts) * error) + 2 * _RIDGE * coefficients

    size = rows.shape[1]
    found = minimize(loss, np.ones(size), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * size).x
    return np.asarray(found)
