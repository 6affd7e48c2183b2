from __future__ import annotations

import numpy as np
import pytest

from deixis.evaluation.calibration import calibration_error, conditional_logit, logistic, reliability


def test_the_logistic_regression_recovers_the_true_weights() -> None:
    rng = np.random.default_rng(1)
    rows = np.concatenate([np.ones((20_000, 1)), rng.normal(3, 2, (20_000, 2))], axis=1)
    truth = np.array([0.5, 1.0, -1.5])
    answers = rng.random(20_000) < 1 / (1 + np.exp(-rows @ truth))
    assert np.allclose(logistic(rows.astype(np.float32), answers, ridge=0.0), truth, atol=0.1)
    bounded = logistic(rows.astype(np.float32), answers, non_negative=(1, 2))
    assert bounded[2] == pytest.approx(0)
    assert bounded[1] > 0


def test_weights_of_rows_count_like_repeated_rows() -> None:
    rng = np.random.default_rng(2)
    rows = np.concatenate([np.ones((40, 1)), rng.normal(0, 1, (40, 1))], axis=1).astype(np.float32)
    rows[:20] = rows[20:]  # so that repeating does not change the scaling
    answers = rng.random(40) < 0.5
    weights = np.r_[np.full(20, 3.0), np.ones(20)]
    repeated = np.r_[np.repeat(np.arange(20), 3), np.arange(20, 40)]
    weighted = logistic(rows, answers, weights, ridge=0.0)
    assert np.allclose(weighted, logistic(rows[repeated], answers[repeated], ridge=0.0), atol=1e-3)


def test_the_calibration_error_is_the_distance_of_probability_and_truth() -> None:
    predicted, true = np.array([0.2, 0.2, 0.9, 0.9]), np.array([False, False, True, True])
    assert calibration_error(predicted, true, bins=2) == pytest.approx(0.15)
    assert reliability(predicted, true, bins=2) == [
        (pytest.approx(0.2), 0.0, 0.5),
        (pytest.approx(0.9), 1.0, 0.5),
    ]
    assert calibration_error(predicted, true, np.array([1.0, 1.0, 0.0, 0.0]), bins=2) == pytest.approx(0.2)


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
