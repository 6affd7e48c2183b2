"""The logistic regression behind all probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from deixis.arrays import logistic
from deixis.models.calibrator import LogisticCalibrator, conditional_logit, random_halves


def test_the_fit_recovers_the_true_weights() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(3, 2, (20_000, 2))
    truth = LogisticCalibrator((0.5, 1.0, -1.5))
    answers = rng.random(20_000) < truth.probabilities(rows)
    found = LogisticCalibrator.fit(rows.astype(np.float32), answers, ridge=0.0)
    assert found.weights == pytest.approx(truth.weights, abs=0.1)
    bounded = LogisticCalibrator.fit(rows, answers, non_negative=(0, 1)).weights
    assert bounded[2] == pytest.approx(0)
    assert bounded[1] > 0


def test_shares_count_like_repeated_rows() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(0, 1, (40, 1)).astype(np.float32)
    rows[:20] = rows[20:]  # so that repeating does not change the scaling
    answers = rng.random(40) < 0.5
    repeated = np.r_[np.repeat(np.arange(20), 3), np.arange(20, 40)]
    weighted = LogisticCalibrator.fit(rows, answers, np.r_[np.full(20, 3.0), np.ones(20)], ridge=0.0)
    expected = LogisticCalibrator.fit(rows[repeated], answers[repeated], ridge=0.0)
    assert weighted.weights == pytest.approx(expected.weights, abs=1e-3)


def test_a_fit_to_separable_answers_or_equal_rows_is_finite() -> None:
    for right in ([True] * 6, [False] * 6, [False] * 3 + [True] * 3):
        assert np.isfinite(LogisticCalibrator.fit(np.arange(6.0)[:, None], np.array(right)).weights).all()
    assert np.isfinite(LogisticCalibrator.fit(np.ones((6, 1)), np.array([True, False] * 3)).weights).all()


def test_rows_may_have_the_constant_and_keep_their_precision() -> None:
    calibrator = LogisticCalibrator((1.0, 2.0, -1.0))
    rows = np.array([[3.0, 0.5], [0.0, 1e4]], dtype=np.float32)
    found = calibrator.probabilities(rows)
    assert found.dtype == np.float32
    assert found.tolist() == pytest.approx([float(1 / (1 + np.exp(-6.5))), 0.0])
    assert calibrator.logits(np.insert(rows, 0, 1.0, axis=1)).tolist() == calibrator.logits(rows).tolist()


def test_each_fold_is_scored_by_a_fit_to_the_others() -> None:
    rng = np.random.default_rng(0)
    rows, folds = rng.normal(size=(90, 2)), np.arange(90) % 3
    answers, shares = rng.random(90) < logistic(rows[:, 0]), rng.random(90)
    found = LogisticCalibrator.cross_fit(rows, answers, shares, folds, non_negative=[0])
    for fold in range(3):
        others = folds != fold
        fitted = LogisticCalibrator.fit(rows[others], answers[others], shares[others], non_negative=[0])
        assert found[~others] == pytest.approx(fitted.logits(rows[~others]))


def test_saved_weights_of_another_number_are_refused() -> None:
    assert LogisticCalibrator.load(["1", 2], [1, 3], "7f") == LogisticCalibrator((1.0, 2.0), "7f")
    with pytest.raises(ValueError, match="3 weights instead of 2 or 4"):
        LogisticCalibrator.load([1, 2, 3], [1, 3])


def test_halves_are_the_complements_of_each_other() -> None:
    (first, rest), (again, other) = random_halves({"one": 9, "two": 10})
    assert first is other
    assert rest is again
    for name, count in {"one": 5, "two": 5}.items():
        assert first[name].sum() == count
        assert (first[name] ^ rest[name]).all()


def test_the_conditional_logit_recovers_weights_and_ignores_what_differs_between_groups() -> None:
    rng = np.random.default_rng(0)
    groups, answers = [], []
    for _ in range(3000):
        rows = np.stack([*rng.normal(size=(2, 8)), np.full(8, rng.normal())], axis=1)
        chances = np.exp(rows @ [2.0, 0.5, 9.0])
        groups.append(rows.astype(np.float32))
        answers.append(np.arange(8) == rng.choice(8, p=chances / chances.sum()))
    found = conditional_logit(groups, answers, np.ones(3000).tolist())
    assert found[:2] == pytest.approx([2.0, 0.5], abs=0.15)
    # Groups with a weight of zero do not count; weights are not negative.
    reverse = [-rows for rows in groups]
    assert conditional_logit(groups + reverse, answers * 2, [1.0] * 3000 + [0.0] * 3000) == pytest.approx(
        found, abs=0.05
    )
    assert conditional_logit(reverse, answers, [1.0] * 3000)[:2].tolist() == [0.0, 0.0]
