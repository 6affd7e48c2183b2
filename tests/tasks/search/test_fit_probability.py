"""Probabilities that are fitted, on photos made up so that the right answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from deixis.tasks.search.fit_probability import (
    Asked,
    calibration_error,
    cross_validate,
    fit_certainty,
    folds_of,
    judge,
    logistic,
    reliability,
)
from deixis.tasks.search.probability import Evidence
from deixis.tasks.search.seeing import WordFacts

PHOTOS = 150


@pytest.fixture(scope="module")
def queries() -> list[Asked]:
    """Scores of which those of the photo itself are higher; rare words where nothing is there."""
    rng = np.random.default_rng(0)
    made = []
    for number in range(600):
        kind, photo = ("caption", "phrase", "absent")[number % 3], int(rng.integers(PHOTOS))
        shown = np.zeros(PHOTOS, dtype=bool)
        if kind != "absent":
            shown[photo] = True
        if kind == "phrase":
            shown |= rng.random(PHOTOS) < 0.05
        scores = (rng.normal(0, 1, (PHOTOS, 1)) + 3 * shown[:, None]).astype(np.float32)
        words = 5 if kind == "caption" else 1
        rarest, strange = (-9.0, 1.0) if kind == "absent" else (-5.0, 0.0)
        facts = WordFacts(words, -4.0 * words - float(rng.random()), rarest, strange)
        made.append(Asked(kind, photo, Evidence(scores[:, 0] / 10, scores / 10, scores, facts), shown))
    return made


def likeness() -> tuple[np.ndarray, np.ndarray]:
    kinds = np.arange(PHOTOS) % 10
    alike = kinds[:, None] == kinds
    return (0.3 + 0.5 * alike).astype(np.float32), alike


def test_a_logistic_regression_finds_the_weights_that_made_the_answers() -> None:
    rng = np.random.default_rng(1)
    rows = np.concatenate([np.ones((20_000, 1)), rng.normal(3, 2, (20_000, 2))], axis=1)
    truth = np.array([0.5, 1.0, -1.5])
    answers = rng.random(20_000) < 1 / (1 + np.exp(-rows @ truth))
    assert np.allclose(logistic(rows.astype(np.float32), answers, ridge=0.0), truth, atol=0.1)


def test_probabilities_of_queries_left_out_are_true(queries: list[Asked]) -> None:
    judged = []

    def on_fold(fold, certainty, left_out):  # type: ignore[no-untyped-def]
        judged.append(judge(certainty, [query for query in queries if left_out[query.photo]], "all"))

    cross_validate(queries, likeness(), "7f", on_fold)
    said = np.concatenate([each.probabilities for each in judged])
    true = np.concatenate([each.right for each in judged])
    assert len(judged) == 5
    assert calibration_error(said, true) < 0.08
    assert said.max() > 0.8


def test_captions_find_something_and_things_not_there_find_less(queries: list[Asked]) -> None:
    certainty = fit_certainty(queries, likeness(), np.ones(PHOTOS, dtype=bool), "7f")
    found = {
        kind: judge(certainty, [query for query in queries if query.kind == kind], kind).found.mean()
        for kind in ("caption", "absent")
    }
    assert found["caption"] >= 0.9
    assert found["absent"] < 0.5
    assert certainty.of_likeness(np.array([0.8]), PHOTOS)[0] > 0 > certainty.of_likeness(np.array([0.3]), PHOTOS)[0]


def test_queries_without_a_known_word_find_nothing(queries: list[Asked]) -> None:
    certainty = fit_certainty(queries, likeness(), np.ones(PHOTOS, dtype=bool), "7f")
    judged = judge(certainty, [replace(query, is_unknown=True) for query in queries], "all")
    assert not judged.found.any()
    assert len(judged.probabilities) == 0


def test_the_calibration_error_is_the_distance_of_what_is_said_and_true() -> None:
    said, true = np.array([0.2, 0.2, 0.9, 0.9]), np.array([False, False, True, True])
    assert calibration_error(said, true, bins=2) == pytest.approx(0.15)
    assert reliability(said, true, bins=2) == [(0.2, 0.0, 0.5), (0.9, 1.0, 0.5)]


def test_folds_are_of_equal_size_and_the_same_every_time() -> None:
    assert np.bincount(folds_of(100)).tolist() == [20] * 5
    assert (folds_of(100) == folds_of(100)).all()
